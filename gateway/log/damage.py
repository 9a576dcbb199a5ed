"""Reads around what the disk has damaged in a sealed segment of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from tree_handler import batch
from tree_handler.batch import Header
from tree_handler.errors import BatchError

_log = logging.getLogger(__name__)


class Damage:
    """Names each damaged segment once; there are no more of them than segments."""

    def __init__(self) -> None:
        self.segments: set[Path] = set()
        """Those in which damage was met."""

    def note(self, path: Path, at: int, why: str) -> None:
        """Something at this position can't be read."""
        if path not in self.segments:
            self.segments.add(path)
            _log.error("%s: damaged at byte %d (%s): what can't be read is skipped", path, at, why)

    def expect(self, path: Path, length: int, expected: int) -> None:
        """A segment has this length where the next one's name tells another."""
        if length != expected:
            self.note(path, min(length, expected), f"{length} bytes long, not {expected}")

    def checked(self, path: Path, data: bytes, at: int, start: int = 0) -> Header | None:
        """The header of a batch in a part of a segment; None where it is damaged."""
        try:
            return batch.check(data, at)
        except BatchError as error:
            self.note(path, start + at, str(error))
            return None

    def batches_at(self, path: Path, positions: list[int]) -> Iterator[tuple[bytes, Header]]:
        """The batches that start at these positions, as far as they can be read."""
        if not positions:
            return
        try:
            data = path.read_bytes()
        except OSError as error:
            self.note(path, 0, str(error))
            return
        for at in positions:
            if (header := self.checked(path, data, at)) is not None:
                yield data[at : at + header.end], header

    def readable(self, path: Path, data: bytes, start: int = 0) -> Iterator[tuple[int, Header]]:
        """Walk the whole batches of a segment, or of a part that starts with one: (position in
        the part, header).

        A batch whose CRC is wrong is passed over by its length. Where no batch begins, nothing
        behind it is looked for: a message's payload could pose as one.
        """
        at = 0
        while at < len(data):
            try:
                length = batch.frame_length(data, at)
                if length is None or at + length > len(data):
                    raise BatchError("batch torn, bytes", len(data) - at)
            except BatchError as error:
                self.note(path, start + at, str(error))
                return
            if (header := self.checked(path, data, at, start)) is not None:
                yield at, header
            at += length
