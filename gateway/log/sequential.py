"""Reads the log on from a position, in large pieces: what a link that was full is sent next."""

from __future__ import annotations

from pathlib import Path

from gateway.log.damage import Damage
from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.batch_walk import DamagedBytes
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
    data = damage.part(path, at, min(at + limit_bytes, end))
    is_rest = at + len(data) >= end
    found, length = _walk(path, data, at, damage, limit_bytes, is_rest=is_rest)
    if not length and not is_rest:  # a longer batch, or damage
        data = damage.part(path, at, min(at + _length(data), end))
        found, length = _walk(path, data, at, damage, limit_bytes, is_rest=False)
    if not length and not is_rest:
        data = damage.part(path, at, end)
        found, length = _walk(path, data, at, damage, limit_bytes, is_rest=True)
    return found, at + length


def _length(data: bytes) -> int:
    try:
        return batch.frame_length(data) or 0
    except BatchError:
        return 0


def _walk(
    path: Path, data: bytes, start: int, damage: Damage, limit_bytes: int, *, is_rest: bool
) -> Piece:
    """Return the whole batches in some bytes, and how many bytes they and what is damaged are.

    What can't be read up to the end may be a batch that goes on behind it, if there is more.
    """
    found: list[tuple[bytes, Header]] = []
    length = 0
    for one in damage.walked(path, data, start):
        if isinstance(one, DamagedBytes):
            if one.end == len(data) and not is_rest:
                break
            damage.note(path, start + one.at, one.why, start + one.end)
            length = one.end
        else:
            at, header = one
            length = at + header.end
            found.append((data[at:length], header))
        if length >= limit_bytes:
            break
    return found, length
