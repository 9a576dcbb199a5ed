"""Receivers of messages that the log has lost, or that come back to it.

What is stated here and nowhere else is the one rule of who has had a message, for a message that a
neighbour brings and for a start that reads the log alike. Whose message it is, and whether this
gateway's own id is on it, does not matter:

1. Local sessions were given a message if its number is not above the mark of its stream (what the
   journal and checkpoints call delivered), and the log had it then. Numbers behind the mark that
   the log had lost when a start looked for them are *lacking*: no session that was restored then
   knows of them, so they are given as soon as they come, in their order.
2. At QoS 1 that is all: who knows no better delivers again.
3. At QoS 2 a session has *had* a lacking message if the journal says that it was sent this message,
   or a later one of the stream, for a session is sent messages in their order.
4. Of its own lives a gateway knows that they ended before it started again. If a life's end is
   lost, a session whose client was there when the record breaks off, and for which nothing waited,
   has had all that is behind it at QoS 2; any other session is given it.

So at QoS 2 what cannot be known is decided for the likelier of the two. What a session is not given
for that reason is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tree_handler.batch import MAX_NUMBER, Epoch
from tree_handler.intervals import Intervals

MAX_ENDS: Final = 8
"""Of so many of this gateway's lives it is known who had their ends, the latest ones."""


class SavedGap(NamedTuple):
    """Numbers of a stream that sessions lack, or that one session has had.

    Attributes:
        session: its number; 0 for what all lack.
        origin, epoch: the stream.
        ranges: first and last numbers in turn.

    """

    session: int
    origin: str
    epoch: int
    ranges: tuple[int, ...]


class DeliveryGaps:
    """The messages behind the mark that local sessions lack, and the sessions that had them.

    Attributes:
        streams: those of which anything is known here; of all others the mark tells all.

    """

    def __init__(self) -> None:
        self.streams: set[Epoch] = set()
        self._numbers: dict[Epoch, Intervals] = {}
        self._had: dict[Epoch, dict[int, Intervals]] = {}
        self._ends: dict[Epoch, None] = {}

    def __contains__(self, ref: tuple[Epoch, int]) -> bool:
        """Return whether sessions lack a message."""
        numbers = self._numbers.get(ref[0])
        return numbers is not None and ref[1] in numbers

    def of(self, stream: Epoch) -> Intervals:
        """Return the numbers of a stream that sessions lack."""
        return Intervals(self._numbers.get(stream, ()))

    def lost(self, stream: Epoch, first: int, last: int) -> None:
        """The log had these no more when a start was to give them to sessions."""
        self._numbers.setdefault(stream, Intervals()).add(first, last)
        self.streams.add(stream)

    def found(self, stream: Epoch, first: int, last: int) -> None:
        """Sessions are given these now, or they are known never to come."""
        if (numbers := self._numbers.get(stream)) is not None:
            left = numbers.without(Intervals([(first, last)]))
            if len(left):
                self._numbers[stream] = left
            else:
                del self._numbers[stream]

    def due(self, stream: Epoch, first: int, last: int, mark: int) -> Iterator[tuple[int, int]]:
        """Return those of the numbers that sessions are to be given by the rule above."""
        numbers = self._numbers.get(stream)
        if numbers is not None and first <= mark:
            yield from numbers.common(Intervals([(first, min(last, mark))]))
        if last > mark:
            yield max(first, mark + 1), last

    # -- who had them all the same ---------------------------------------------------------------

    def was_sent(self, session: int, stream: Epoch, number: int) -> None:
        """A session was sent this, so it had been sent all that came before."""
        numbers = self._numbers.get(stream)
        had = _NOTHING if numbers is None else numbers.common(Intervals([(1, number)]))
        if len(had):
            self._had_by(session, stream).update(had)

    def has_had(self, session: int, stream: Epoch, numbers: Intervals) -> None:
        """A session was given these, as a checkpoint says."""
        self._had_by(session, stream).update(numbers)

    def has_had_end(self, sessions: Iterable[int], stream: Epoch, first: int) -> None:
        """These sessions had what a life of this gateway numbered from here on."""
        for session in sessions:
            self._had_by(session, stream).add(first, MAX_NUMBER)
            self._ends[stream] = None
        while len(self._ends) > MAX_ENDS:
            oldest = next(iter(self._ends))
            del self._ends[oldest]
            self._forget_had(oldest)

    def had(self, stream: Epoch, number: int) -> set[int]:
        """Return the sessions that have had a message at QoS 2 that others are given."""
        had = self._had.get(stream)
        return set() if had is None else {one for one, numbers in had.items() if number in numbers}

    def ended(self, session: int) -> None:
        """A session is no more."""
        for had in self._had.values():
            had.pop(session, None)

    def forget(self, streams: Iterable[Epoch]) -> None:
        """Nothing of these comes any more."""
        for stream in streams:
            self._numbers.pop(stream, None)
            self._ends.pop(stream, None)
            self._forget_had(stream)

    # -- over a checkpoint -----------------------------------------------------------------------

    def saved(self) -> list[SavedGap]:
        """Return what a checkpoint has to say."""
        rows = [_saved(0, stream, numbers) for stream, numbers in self._numbers.items()]
        for stream, had in self._had.items():
            rows += [_saved(session, stream, numbers) for session, numbers in had.items()]
        return rows

    def load(self, rows: Iterable[SavedGap]) -> None:
        """Take what a checkpoint says."""
        for session, origin, epoch, ranges in rows:
            stream = (origin, epoch)
            numbers = Intervals(zip(ranges[::2], ranges[1::2], strict=True))
            if session:
                self._had_by(session, stream).update(numbers)
                if numbers.last == MAX_NUMBER:
                    self._ends[stream] = None
            else:
                self._numbers[stream] = numbers
                self.streams.add(stream)

    def _had_by(self, session: int, stream: Epoch) -> Intervals:
        self.streams.add(stream)
        return self._had.setdefault(stream, {}).setdefault(session, Intervals())

    def _forget_had(self, stream: Epoch) -> None:
        self._had.pop(stream, None)
        if stream not in self._numbers:
            self.streams.discard(stream)


_NOTHING: Final = Intervals()


def _saved(session: int, stream: Epoch, numbers: Intervals) -> SavedGap:
    return SavedGap(session, *stream, tuple(number for both in numbers for number in both))
