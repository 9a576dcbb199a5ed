"""The batches of the history, as it is read: which of their messages sessions are to be given.

A batch waits until the journal says that it had been delivered, by a number that is at least its
own. What the log has lost by then is noted as lacking (`delivery_gaps`), and given in its order as
soon as the history comes to it, for a neighbour may have brought it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Final

from gateway.broker.durability.delivery_gaps import DeliveryGaps
from gateway.broker.durability.history import History
from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Header
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals


@dataclass(slots=True)
class ReadBatch:
    """A batch, and its messages once it was decoded."""

    frame: bytes
    header: Header
    entries: list[Entry] | None = None
    came_us: int | None = None
    """The time when it came, on the lasting clock; None if nothing tells yet."""


@dataclass(slots=True)
class _Stream:
    """One origin's batches of one epoch, as far as the history has been read."""

    delivered: int = 0
    last: int = 0
    """The highest number that was read."""
    pending: dict[int, ReadBatch] = field(default_factory=dict)


class RestoredBatches:
    """Those of all streams of clients' messages.

    Args:
        history: the log.
        lacking: what sessions were not given, which is kept up to date.
        strange: is told what can't be read.
    """

    def __init__(
        self, history: History, lacking: DeliveryGaps, strange: Callable[[str], None]
    ) -> None:
        self._position = 0
        self._begin_us: int | None = None
        self._ahead: dict[Epoch, Intervals] | None = None
        """The numbers in the part of the history that is read; None if nobody asked yet."""
        self._history = history
        self._lacking = lacking
        self._strange = strange
        self._streams: dict[Epoch, _Stream] = {}

    def begin(self, position: int, begin_us: int | None) -> None:
        """The history is read from here on; what stands before had come by then."""
        self._position, self._begin_us = position, begin_us

    def load(self, key: Epoch, delivered: int) -> None:
        """A checkpoint says how far a stream was delivered."""
        self._streams[key] = _Stream(delivered, delivered)

    def streams(self) -> list[Epoch]:
        """Return those that there are."""
        return list(self._streams)

    def delivered(self, key: Epoch) -> int:
        """Return the number up to which a stream was delivered."""
        return self._of(key).delivered

    def last(self, key: Epoch) -> int:
        """Return the highest number of a stream that was read, or delivered."""
        return self._of(key).last

    def came(self, frame: bytes, header: Header) -> ReadBatch:
        """Read a batch that the history has come to."""
        stream = self._of(header.stream)
        one = ReadBatch(frame, header)
        stream.last = max(stream.last, header.last)
        stream.pending[header.first] = one
        return one

    def due(self, key: Epoch, last: int) -> Iterator[tuple[ReadBatch, int, int]]:
        """Yield what sessions are to be given of a stream, up to this number, which they had not.

        Each batch comes with the first and the last number that is due of it.
        """
        stream = self._of(key)
        at = begin = stream.delivered + 1
        for one in self._between(key, stream, begin, last):
            first = max(at, one.header.first)
            self._lost(key, at, first - 1)
            at = min(last, one.header.last) + 1
            yield one, first, at - 1
        self._lost(key, at, last)
        stream.delivered = last
        stream.last = max(stream.last, last)

    def returned(self, key: Epoch) -> Iterator[tuple[ReadBatch, int, int]]:
        """Yield what had been lost of a stream and has come back, up to the first gap."""
        stream = self._of(key)
        for begin, end in self._lacking.of(key):
            at = begin
            for one in self._between(key, stream, begin, end):
                if one.header.first > at:
                    break
                first, at = at, min(end, one.header.last) + 1
                self._lacking.found(key, first, at - 1)
                yield one, first, at - 1
            if at <= end:
                return

    def entries(self, one: ReadBatch) -> list[Entry]:
        """Return what clients get of a batch, decoded once though asked for message by message."""
        if one.entries is None:
            one.entries = []
            try:
                if not one.header.passed:
                    one.entries = batch.decode(one.frame, one.header)
            except BatchError as error:
                self._strange(f"{one.header}: {error}")
        return one.entries

    def _of(self, key: Epoch) -> _Stream:
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream()
        return stream

    def _lost(self, key: Epoch, first: int, last: int) -> None:
        for begin, end in self._history.lacks(key, first, last) if first <= last else ():
            self._lacking.lost(key, begin, end)

    def _between(self, key: Epoch, stream: _Stream, begin: int, last: int) -> Iterator[ReadBatch]:
        at = begin
        pending = stream.pending
        for first in sorted(first for first in pending if first <= last):
            one = pending[first]
            if one.header.last >= at:
                if at < first:
                    yield from self._read(key, at, first - 1)
                yield one
                at = one.header.last + 1
            if one.header.last <= last:
                del pending[first]
        if at <= last:
            yield from self._read(key, at, last)

    def _read(self, key: Epoch, first: int, last: int) -> Iterator[ReadBatch]:
        """Return what stands before the position from which the history is read.

        What stands behind it and has not come yet was not there when it was asked for.
        """
        for frame, header in self._history.read(key, first, last):
            if header.first in self._read_later().get(key, _NOTHING):
                self._lacking.lost(key, max(first, header.first), min(last, header.last))
            else:
                yield ReadBatch(frame, header, came_us=self._begin_us)

    def _read_later(self) -> dict[Epoch, Intervals]:
        if self._ahead is None:
            self._ahead = {}
            for _, header in self._history.read_from(self._position):
                if header.clients:
                    numbers = self._ahead.setdefault(header.stream, Intervals())
                    numbers.add(header.first, header.last)
        return self._ahead


_NOTHING: Final = Intervals()
