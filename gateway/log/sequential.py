"""Reads the log on from a position, in large pieces: what a link that was full is sent next."""

from __future__ import annotations

from pathlib import Path

from gateway.log.damage import Damage
from gateway.log.scan import part
from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.errors import BatchError

Piece = tuple[list[tuple[bytes, Header]], int]
"""Batches, and where in the segment the next one stands."""


def read_piece(path: Path, at: int, end: int, limit_bytes: int, damage: Damage) -> Piece:
    """Read whole batches of a segment from a position on.

    Args:
        path: the segment.
        at: where a batch starts in it.
        end: where its last batch ends.
        limit_bytes: read about so many; a longer batch is read nevertheless.
        damage: told of what can't be read, which is left out.

    Raises:
        LogError: the segment can't be read.

    """
    data = part(path, at, min(at + limit_bytes, end))
    found, length = _walk(path, data, at, damage)
    if not found and not length and at + len(data) < end:
        needed = _length(path, data, at, damage)
        data = part(path, at, min(at + (needed or end - at), end))
        found, length = _walk(path, data, at, damage)
    if not length:  # nothing that follows can be read
        return found, end
    return found, at + length


def _length(path: Path, data: bytes, at: int, damage: Damage) -> int:
    try:
        return batch.frame_length(data) or 0
    except BatchError as error:
        damage.note(path, at, str(error))
        return 0


def _walk(path: Path, data: bytes, start: int, damage: Damage) -> Piece:
    """The whole batches in some bytes, and how many bytes they are."""
    found: list[tuple[bytes, Header]] = []
    at = 0
    while True:
        try:
            length = batch.frame_length(data, at)
        except BatchError:
            return found, at
        if length is None or at + length > len(data):
            return found, at
        frame = data[at : at + length]
        if (header := damage.checked(path, frame, 0, start + at)) is not None:
            found.append((frame, header))
        at += length
