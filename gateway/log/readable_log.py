"""The readable part of a log: its segments, in the order of positions or by numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from gateway.log import loading, scan
from gateway.log.damage import Damage
from gateway.log.errors import LogError
from gateway.log.inner_starts import InnerStarts
from gateway.log.segment import Segment
from gateway.log.sequential import read_piece
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.lowest_numbers import LowestNumbers


class ReadableLog:
    """Segments of one folder, oldest first. What the disk has damaged is read around and named.

    Args:
        folder: of the log.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.have: dict[Epoch, Intervals] = {}
        """Every number that the log holds, or held before it was trimmed, by stream: of logged
        messages, and of those that it states as passed over. Not of streams that are over, and
        not what damage has cost it."""
        self._segments: list[Segment] = []
        self._lowest: LowestNumbers | None = None
        """The lowest numbers in sealed segments; None until somebody asks: a start reads indexes,
        and a survey finds less."""
        self._inner = InnerStarts(folder)
        self._damage = Damage(self._inner)

    @property
    def position(self) -> int:
        """Return the position of the next batch, over all segments that ever were."""
        newest = self._segments[-1]
        return newest.start + newest.length

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        """Yield all batches from a position on, oldest first.

        Raises:
            LogError: a segment can't be read.

        """
        for segment in list(self._segments):
            if segment.start + segment.length <= position:
                continue
            try:
                data = self._damage.whole(segment.path)[0][: segment.length]
            except OSError as error:
                raise LogError(f"{segment.path}: {error.strerror}") from error
            for at, header in self._damage.readable(segment.path, data):
                if segment.start + at >= position:
                    yield data[at : at + header.end], header

    def is_whole_from(self, position: int) -> bool:
        """Return whether all that stood from a position on is there, as far as it was read."""
        met = self._damage.segments.items()
        is_bad = any(len(bad) and int(path.stem) + bad.last >= position for path, bad in met)
        return self._segments[0].start <= position and not is_bad

    def reading_on(
        self, position: int, limit_bytes: int
    ) -> Callable[[], tuple[list[tuple[bytes, Header]], int]]:
        """Read on from where a batch starts: a call, which may be made in a thread, for some of
        the next batches and the position behind them. What was trimmed is passed over.

        The call raises LogError if the segment can't be read.
        """
        segment = next(
            s for s in self._segments if position < s.start + s.length or s is self._segments[-1]
        )
        path, start, end = segment.path, segment.start, segment.length
        at = max(position, start) - start

        def read() -> tuple[list[tuple[bytes, Header]], int]:
            found, behind = read_piece(path, at, end, limit_bytes, self._damage)
            return found, start + behind

        return read

    @property
    def length(self) -> int:
        """Bytes in all segments."""
        return sum(segment.length for segment in self._segments)

    def where(self, key: Epoch, number: int) -> int:
        """Return where the segment begins that holds a number of a stream.

        The log's end if none does.
        """
        found = (s.start for s in reversed(self._segments) if number in s.holds.get(key, ()))
        return next(found, self.position)

    def kept_from(self) -> dict[Epoch, int]:
        """Return the lowest logged number still here, by stream; beyond the last if none."""
        *sealed, newest = self._segments
        if self._lowest is None:
            self._lowest = LowestNumbers((one.start, one.holds) for one in sealed)
        lowest = self._lowest.of_all(newest.holds)
        for key, numbers in self.have.items():
            if key not in lowest:
                lowest[key] = numbers.last + 1
        return lowest

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        """Return the batches of one stream that hold any number of ``ranges``, as appended:
        statements of numbers passed over too.

        What is read is fixed by the call; the reading itself may go on in a thread. What the disk
        has damaged is left out.

        Raises:
            LogError: a segment can't be read.

        """
        return scan.batches(self._segments, key, ranges, self._damage)

    def in_sequence(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        """Return the batches of one stream that hold any number of ``first..last``, by their
        numbers.

        Repair brings them in any order, and so the log has them. A part at a time is read.

        Raises:
            LogError: a segment can't be read.

        """
        return scan.in_sequence(self.read, key, first, last)

    def control(self) -> Iterator[tuple[bytes, Header]]:
        """Yield all batches between gateways that the log holds, oldest first (membership at
        start).

        Raises:
            LogError: a segment can't be read now.

        """
        for segment in self._segments:
            yield from self._damage.batches_at(segment.path, segment.control)

    @property
    def doubts(self) -> int | None:
        """Return how often damage was looked through so far; None while a segment is still to be.

        What a read did not find is not there if this is the same, and not None, before it and
        after it: what could not be read may be whole, as a look meanwhile may have found.
        """
        return None if self.to_survey() is not None else self._damage.doubts

    def survey(self) -> dict[Epoch, Intervals] | None:
        """Look through a segment in which damage was met since the start; return what the log has
        not any more, which neighbours may have. None if there is no such segment.

        Raises:
            LogError: it can't be read.

        """
        look = self.start_survey()
        if look is None:
            return None
        try:
            found = look()
        except OSError as error:
            raise LogError(f"{error.filename}: {error.strerror}") from error
        return self.end_survey(found)

    def start_survey(self) -> Callable[[], Segment] | None:
        """Return the look through a segment as a call for a thread, ended by `end_survey`."""
        if (found := self.to_survey()) is None:
            return None
        self._damage.look_anew(found.path)
        return partial(loading.looked_through, found.path, self._damage, found.length)

    def to_survey(self) -> Segment | None:
        """Return a segment of which is not known yet what damage has cost it."""
        unknown = self._damage.unknown
        return next((one for one in self._segments if one.path in unknown), None)

    def survey_again(self, path: Path) -> None:
        """Note that a look through a segment did not find all that can be read of it."""
        self._damage.doubt(path)

    def is_refused(self, path: Path) -> bool:
        """Return whether the disk refused blocks of a segment when they were read last."""
        return self._damage.is_refused(path)

    def has_trimmed(self, name: str) -> bool:
        """Return whether a file is none of the log's segments any more."""
        return all(str(one.path) != name for one in self._segments)

    def end_survey(self, found: Segment) -> dict[Epoch, Intervals]:
        """Return what the log has not any more, as a look through a segment has found.

        Raises:
            LogError: what came to stand in it meanwhile can't be read: it is to be looked through
                once more.

        """
        segment = next((one for one in self._segments if one.path == found.path), None)
        if segment is None:  # it was trimmed meanwhile
            self._damage.trimmed(found.path)
            return {}
        try:
            held = loading.surveyed(segment, found, self._damage)
        except LogError:
            self.survey_again(found.path)
            raise
        self._lowest = None
        lost = _not_in(self._segments, held)
        for key in lost.keys() & self.have.keys():
            self.have[key] = self.have[key].without(lost[key])
        self._damage.lost(lost)
        return lost

    def ends_early(self, missing_bytes: int) -> None:
        """Somebody knows that the log went on for so much more: it is told and counted."""
        newest = self._segments[-1]
        why = f"the log went on for {missing_bytes} bytes more"
        self._damage.missed(newest.path, newest.length, missing_bytes, why)

    @property
    def damaged_bytes(self) -> int:
        """Bytes that hold no batch any more, as far as this process has met them."""
        return self._damage.bytes

    @property
    def lost_messages(self) -> int:
        """Messages of which this process found that damage has cost the log them."""
        return self._damage.messages

    @property
    def still_lost_messages(self) -> int:
        """The number of lost messages that the log has not taken since."""
        return sum(
            (ranges.without(self.have[key]) if key in self.have else ranges).count()
            for key, ranges in self._damage.numbers.items()
        )


def only_in(going: Iterable[Segment], kept: Iterable[Segment]) -> dict[Epoch, Intervals]:
    """Return the numbers that some segments hold, and no other."""
    held: dict[Epoch, Intervals] = {}
    for one in going:
        for key, numbers in one.holds.items():
            held.setdefault(key, Intervals()).update(numbers)
    return _not_in(kept, held)


def _not_in(segments: Iterable[Segment], numbers: dict[Epoch, Intervals]) -> dict[Epoch, Intervals]:
    """Return what none of these segments holds."""
    left = dict(numbers)
    for one in segments:
        if not left:
            break
        for key in [k for k in left if k in one.holds and left[k].may_meet(one.holds[k])]:
            left[key] = left[key].without(one.holds[key])
            if not left[key]:
                del left[key]
    return left
