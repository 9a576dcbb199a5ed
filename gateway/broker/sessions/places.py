"""Places in the log of messages that wait for one client, in few bytes.

Messages of one stream that follow each other and are delivered alike are a run, however many they
are. Runs differ in whatever a subscription or a publisher may vary: stream, flags, subscription
identifiers, time of expiry, gaps. So each but the last is packed: its kind by number, and its own
numbers by what they differ from the last run of that kind. That is 3 bytes where two kinds take
turns, 6 where messages expire.

When a message expires the log tells, if it is known since when its interval counts. That is kept,
not the end: messages of one moment are one run, whatever their intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.broker.outbound.message import EXPIRY, Message
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

NEVER: Final = 0
SINCE: Final = 1
AT: Final = 2
"""The ways a run's messages expire: not, so long after a moment as each says, or at a moment."""

SLACK_MS: Final = 100
"""Messages that came within it count as of the first: they expire so much early at most."""
PACKED_BYTES_MAX: Final = 8 << 10
KINDS_MAX: Final = 256
"""With as many runs or kinds the next ones begin other places, so that these can go."""
_BASE_BYTES: Final = 800
_KIND_BYTES: Final = 120
_RUN_BYTES: Final = 24
"""A packed run has no more."""

PackedWay = tuple[Epoch, int, tuple[int, ...]]
"""The stream of messages, the flags they are delivered with, and the subscription identifiers."""


class WaitingRun:
    """Messages of one stream that follow each other and are delivered alike.

    Args:
        way: how they are delivered.
        first: the lowest number.
        last: the highest.
        timing: `NEVER`, `SINCE` or `AT`.
        moment_ms: for the last two, on the loop's clock.

    """

    __slots__ = ("first", "last", "moment_ms", "timing", "way")

    def __init__(
        self, way: PackedWay, first: int, last: int, timing: int = NEVER, moment_ms: int = 0
    ) -> None:
        self.way = way
        self.first = first
        self.last = last
        self.timing = timing
        self.moment_ms = moment_ms

    @classmethod
    def of(cls, message: Message, flags: int, identifiers: tuple[int, ...]) -> WaitingRun:
        """Return the run of a message alone; it stands in the log."""
        assert message.ref is not None
        key, number = message.ref
        way = (key, flags, identifiers)
        expires_at_s = message.expires_at_s
        if expires_at_s is None:
            return cls(way, number, number)
        interval_s = message.properties.get(EXPIRY)
        if interval_s is None:
            return cls(way, number, number, AT, int(expires_at_s * 1000 // 1))
        return cls(way, number, number, SINCE, int((expires_at_s - interval_s) * 1000 // 1))

    @property
    def count(self) -> int:
        """Return how many messages they are."""
        return self.last - self.first + 1

    def copy(self) -> WaitingRun:
        """Return one that does not change with this one."""
        return WaitingRun(self.way, self.first, self.last, self.timing, self.moment_ms)

    def takes(self, other: WaitingRun) -> bool:
        """Return whether another run goes on with this one."""
        if other.first != self.last + 1 or other.timing != self.timing or other.way != self.way:
            return False
        later_ms = other.moment_ms - self.moment_ms
        return later_ms == 0 or (self.timing == SINCE and 0 < later_ms < SLACK_MS)

    def time(self, message: Message) -> None:
        """Let a message of these, as the log has it, expire when it should."""
        if self.timing == NEVER:
            message.expires_at_s = None
        elif self.timing == AT:
            message.expires_at_s = self.moment_ms / 1000
        else:
            message.expires_at_s = self.moment_ms / 1000 + message.properties.get(EXPIRY, 0)


class _Differences:
    """The values that the next run is packed as a difference from."""

    __slots__ = ("last", "moment_ms")

    def __init__(self) -> None:
        self.last: list[int] = []
        """The last number of each kind."""
        self.moment_ms = 0

    def copy(self) -> _Differences:
        """Return one that does not change with this one."""
        made = _Differences()
        made.last = self.last[:]
        made.moment_ms = self.moment_ms
        return made


class Places:
    """Runs in their order, from which the first messages are taken out.

    Attributes:
        count: how many messages they are.
        size_bytes: of memory, about.
        is_shared: whether somebody else has them too, for whom they must not change.

    """

    __slots__ = (
        "_at",
        "_begins",
        "_first",
        "_kinds",
        "_last",
        "_number_of",
        "_packed",
        "_packing",
        "_reading",
        "count",
        "is_shared",
        "size_bytes",
    )

    def __init__(self) -> None:
        self._kinds: list[PackedWay] = []
        self._number_of: dict[PackedWay, int] = {}
        self._begins: dict[Epoch, int] = {}
        """The lowest number that there was of each stream."""
        self._first: WaitingRun | None = None
        """The first run, if some of it is taken out."""
        self._packed = bytearray()
        """Those behind it."""
        self._at = 0
        """The index of the first of them."""
        self._last: WaitingRun | None = None
        """The last run, which may still grow."""
        self._reading = _Differences()
        self._packing = _Differences()
        self.count = 0
        self.size_bytes = _BASE_BYTES
        self.is_shared = False

    @property
    def ways(self) -> Sequence[PackedWay]:
        """The ways in which they are delivered, and perhaps those of some that were taken out."""
        return self._kinds

    @property
    def is_full(self) -> bool:
        """Return whether what comes next is to have other places."""
        is_long = len(self._packed) >= PACKED_BYTES_MAX or len(self._kinds) >= KINDS_MAX
        return is_long or self.is_shared

    def grow(self, message: Message, flags: int, identifiers: tuple[int, ...]) -> bool:
        """Take one more message if it goes on with the last run and does not expire.

        Most do, so no run is made for it.
        """
        last, ref = self._last, message.ref
        if (
            last is None
            or self.is_shared
            or ref is None
            or ref[1] != last.last + 1
            or last.timing != NEVER
            or message.expires_at_s is not None
        ):
            return False
        key, with_flags, with_identifiers = last.way
        if flags != with_flags or identifiers != with_identifiers or ref[0] != key:
            return False
        last.last += 1
        self.count += 1
        return True

    def cost(self, run: WaitingRun) -> int:
        """Return how many bytes more these may take with another run."""
        if self._last is not None and self._last.takes(run):
            return 0
        return _RUN_BYTES + (0 if run.way in self._number_of else _kind_bytes(run.way))

    def add(self, run: WaitingRun) -> None:
        """Put a run behind the others; it is theirs from now on."""
        self.count += run.count
        key, last = run.way[0], self._last
        if run.first < self._begins.get(key, run.first + 1):
            self._begins[key] = run.first
        if last is not None:
            if last.takes(run):
                last.last = run.last
                return
            self._pack(last)
        self._last = run
        if run.way not in self._number_of:
            self._number_of[run.way] = len(self._kinds)
            self._kinds.append(run.way)
            self._packing.last.append(0)
            self._reading.last.append(0)
            self.size_bytes += _kind_bytes(run.way)

    def runs(self) -> Iterator[WaitingRun]:
        """Give a copy of each run, in their order."""
        if self._first is not None:
            yield self._first.copy()
        at, reading = self._at, self._reading.copy()
        while at < len(self._packed):
            run, at = self._unpacked(at, reading)
            yield run
        if self._last is not None:
            yield self._last.copy()

    def ahead(
        self, messages: int, streams: int
    ) -> tuple[list[WaitingRun], dict[Epoch, tuple[int, int]]]:
        """Return the first runs, and the first and last number that they have of each stream.

        Numbers ascend in each, so that what is read first comes first.

        Args:
            messages: with so many it is enough.
            streams: of no more than these.

        """
        found: list[WaitingRun] = []
        spans: dict[Epoch, tuple[int, int]] = {}
        count = 0
        for run in self.runs():
            key = run.way[0]
            had = spans.get(key)
            is_over = len(spans) >= streams if had is None else run.first <= had[1]
            if is_over or count >= messages:
                break
            spans[key] = (run.first if had is None else had[0], run.last)
            found.append(run)
            count += run.count
        return found, spans

    def skip(self, count: int) -> None:
        """Take out the first messages.

        Args:
            count: how many; there are as many.

        """
        self.count -= count
        while count:
            first = self._first
            if first is None and self._at < len(self._packed):
                first, self._at = self._unpacked(self._at, self._reading)
                self._first = first
            run = first or self._last
            assert run is not None
            if count < run.count:
                run.first += count
                break
            count -= run.count
            if first is None:
                self._last = None
            self._first = None
        self.size_bytes -= self._at
        del self._packed[: self._at]
        self._at = 0

    def has(self, key: Epoch, number: int, flags: int | None) -> bool:
        """Return whether a message is among them.

        Args:
            key: its stream.
            number: its number there.
            flags: with which it is delivered; None for any.

        """
        if not any(way[0] == key and flags in (None, way[1]) for way in self._kinds):
            return False
        return any(
            run.first <= number <= run.last and run.way[0] == key and flags in (None, run.way[1])
            for run in self.runs()
        )

    def begin_before(self, kept_from: Mapping[Epoch, int]) -> bool:
        """Return whether some may stand before the numbers of streams that a log still has.

        Of a stream that is not named there it has none.
        """
        return any(first < kept_from.get(key, first + 1) for key, first in self._begins.items())

    def meets(self, numbers: Mapping[Epoch, Intervals]) -> bool:
        """Return whether some of them may be among numbers of streams."""
        none = Intervals()
        return any(first <= numbers.get(key, none).last for key, first in self._begins.items())

    def without(self, numbers: Mapping[Epoch, Intervals]) -> Places:
        """Return these without some numbers of streams."""
        made, none = Places(), Intervals()
        for run in self.runs():
            for first, last in numbers.get(run.way[0], none).missing(run.first, run.last):
                made.add(WaitingRun(run.way, first, last, run.timing, run.moment_ms))
        return made

    def copy(self) -> Places:
        """Return one that does not change with this one."""
        made = Places()
        made._begins = self._begins.copy()
        made._kinds, made._number_of = self._kinds[:], self._number_of.copy()
        made._packed = self._packed[:]
        made._first = None if self._first is None else self._first.copy()
        made._last = None if self._last is None else self._last.copy()
        made._reading, made._packing = self._reading.copy(), self._packing.copy()
        made.count, made.size_bytes = self.count, self.size_bytes
        return made

    def _pack(self, run: WaitingRun) -> None:
        packed, packing, kind = self._packed, self._packing, self._number_of[run.way]
        before = len(packed)
        _put(packed, kind << 2 | run.timing)
        _put_signed(packed, run.first - packing.last[kind] - 1)
        _put(packed, run.last - run.first)
        packing.last[kind] = run.last
        if run.timing != NEVER:
            _put_signed(packed, run.moment_ms - packing.moment_ms)
            packing.moment_ms = run.moment_ms
        self.size_bytes += len(packed) - before

    def _unpacked(self, at: int, reading: _Differences) -> tuple[WaitingRun, int]:
        packed = self._packed
        head, at = _taken(packed, at)
        gap, at = _taken_signed(packed, at)
        more, at = _taken(packed, at)
        kind, timing = head >> 2, head & 3
        first = reading.last[kind] + 1 + gap
        reading.last[kind] = first + more
        moment_ms = 0
        if timing != NEVER:
            later_ms, at = _taken_signed(packed, at)
            moment_ms = reading.moment_ms = reading.moment_ms + later_ms
        return WaitingRun(self._kinds[kind], first, first + more, timing, moment_ms), at


def _kind_bytes(way: PackedWay) -> int:
    return _KIND_BYTES + 8 * len(way[2])


def _put(packed: bytearray, number: int) -> None:
    """Append a number in as few bytes as it needs: 7 bits in each, the lowest first."""
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)


def _put_signed(packed: bytearray, number: int) -> None:
    _put(packed, number << 1 if number >= 0 else (-number << 1) - 1)


def _taken(packed: bytearray, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = packed[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _taken_signed(packed: bytearray, at: int) -> tuple[int, int]:
    number, at = _taken(packed, at)
    return (-(number + 1 >> 1) if number & 1 else number >> 1), at
