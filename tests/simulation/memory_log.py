"""A broker's log in memory, and the clocks of its machine, for simulated lives with crashes.

The log loses at a crash what was not synced (durability sync) or nothing (write). What a crash
leaves is a `Disk`, which the next life finds. It may be trimmed as far as the broker allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gateway.broker.hooks import Committed
from gateway.log.message_log import AfterSync, LogError
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header, Row
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over
from tree_handler.replication.epoch_order import note
from tree_handler.retained.hybrid_clock import EARLIEST_US

NAME = "gw"


class CrashError(Exception):
    """The process is killed here."""


@dataclass
class MachineClocks:
    """The clocks of a machine, which go on when they are told to: a `Clocks`."""

    boot: int = 1
    wall: int = EARLIEST_US + 10**12
    since_boot: int = 0
    is_right: bool = True
    passed_s: float = 0.0
    """While the machine was up, over all its boots."""

    def boot_us(self) -> int:
        return self.since_boot

    def wall_us(self) -> int:
        return self.wall

    def wall_ahead_s(self) -> float:
        return (self.wall - self.since_boot) / 1e6

    def is_synchronised(self) -> bool:
        return self.is_right

    def pass_s(self, passed_s: float) -> None:
        """Time passes while the machine is up."""
        self.passed_s += passed_s
        self.since_boot += int(passed_s * 1e6)
        self.wall += int(passed_s * 1e6)

    def power_cut(self, off_s: float, *, is_right: bool = True) -> None:
        """The machine is off for a while; afterwards its wall clock is right, or stood still."""
        self.boot += 1
        self.since_boot = 0
        self.is_right = is_right
        if is_right:
            self.wall += int(off_s * 1e6)


@dataclass
class Disk:
    """The frames that a log left.

    Attributes:
        frames: in their order; zeros stand where one was damaged.
        begin: the position of the first of them.
        have: all numbers that ever were in it, by stream.

    """

    frames: list[bytes] = field(default_factory=list)
    begin: int = 0
    have: dict[Epoch, Intervals] = field(default_factory=dict)

    def whole(self) -> Iterator[tuple[int, bytes, Header]]:
        """The frames that can be read, each with its position."""
        at = self.begin
        for frame in list(self.frames):
            if frame[0]:
                yield at, frame, batch.check(frame)
            at += len(frame)

    def damage(self, first: int, count: int) -> list[bytes]:
        """Let zeros stand where some frames stood, by their places in the log; those frames."""
        gone = [frame for frame in self.frames[first : first + count] if frame[0]]
        self.frames[first : first + count] = [
            bytes(len(frame)) for frame in self.frames[first : first + count]
        ]
        self._lost(gone)
        return gone

    def lose_last(self) -> bytes:
        """The last frame is gone, though the disk had said that it has it."""
        frame = self.frames.pop()
        self._lost([frame] if frame[0] else [])
        return frame

    def _lost(self, gone: list[bytes]) -> None:
        for header in (h for h in map(batch.check, gone) if h.numbered):
            have = self.have.get(header.stream)
            if have is not None:
                lost = Intervals([(header.first, header.last)])
                others = [h for _, _, h in self.whole() if h.numbered and h.stream == header.stream]
                lost = lost.without(Intervals((h.first, h.last) for h in others))
                have = self.have[header.stream] = have.without(lost)
                if not len(have):
                    del self.have[header.stream]


class MemoryGoing:
    """Frames that may go, as they were when asked for."""

    def __init__(self, frames: list[bytes], behind: int) -> None:
        self.behind = behind
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        for frame in self._frames:
            if not frame[0]:
                continue
            header = batch.check(frame)
            whole = [(header.first, header.last)]
            is_meant = header.logged and header.stream == key
            if is_meant and ranges.missing(header.first, header.last) != whole:
                yield frame, header


class MemoryLog:
    """The log of one life of the broker, over what the lives before left."""

    def __init__(
        self, disk: Disk, epoch: int, crash_in: int, clocks: MachineClocks, *, sync: bool
    ) -> None:
        self._clocks = clocks
        self.own: Epoch = (NAME, epoch)
        self.disk = disk
        self.is_dead = False
        self.is_full = False
        self.max_bytes = 256 << 20
        self.missing_bytes = 0
        self.failing: set[str] = set()
        """Calls that the disk answers with an error: "read", "start_sync", "sync", "goes_next"."""
        self.allowed = disk.begin
        """The position before which frames may be trimmed."""
        self.trims = 0
        self._synced = self.position
        self._sync = sync
        self.crash_in = crash_in
        self._next = 1
        self._waiting: list[AfterSync] = []

    @property
    def frames(self) -> list[bytes]:
        """The frames that stand in it."""
        return self.disk.frames

    # -- durable.History

    @property
    def position(self) -> int:
        return self.disk.begin + sum(map(len, self.frames))

    def ends_early(self, missing_bytes: int) -> None:
        self.missing_bytes += missing_bytes

    def remember(self, frame: bytes, done: AfterSync) -> None:
        self._append([("", 0, frame)], Flags.LOCAL)
        self._settle(done)

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        for at, frame, header in self.disk.whole():
            if at >= position:
                yield frame, header

    def _may_fail(self, call: str) -> None:
        if call in self.failing:
            raise LogError(f"{call}: too many open files")

    def read(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        self._may_fail("read")
        found = [(frame, header) for _, frame, header in self.disk.whole()]
        for frame, header in sorted(found, key=lambda one: one[1].first):
            is_meant = header.logged and header.stream == key
            if is_meant and header.first <= last and header.last >= first:
                yield frame, header

    def where(self, key: Epoch, number: int) -> int:
        for at, _, header in self.disk.whole():
            is_meant = header.logged and header.stream == key
            if is_meant and header.first <= number <= header.last:
                return at
        return self.position

    def due(self) -> dict[Epoch, int]:
        have = reversed(self.disk.have.items())
        return {key: numbers.contiguous_from(1) for key, numbers in have}

    def lacks(
        self, key: Epoch, first: int, last: int, *, may_wait: bool = False
    ) -> list[tuple[int, int]]:
        return self.disk.have.get(key, Intervals()).missing(first, last)

    def start_sync(self) -> Callable[[], None]:
        self._may_fail("start_sync")
        position = self.position

        def finish() -> None:
            self._may_fail("sync")
            self._synced = max(self._synced, position)

        return finish

    def is_over(self, stream: Epoch) -> bool:
        return epochs_over.is_over(self.disk.have, stream)

    def goes_next(self, position: int, ahead_bytes: int) -> MemoryGoing:
        """Anything may go at any time."""
        self._may_fail("goes_next")
        found, at = [], self.disk.begin
        for frame in self.frames:
            if at >= position:
                found.append(frame)
            at += len(frame)
        return MemoryGoing(found, max(at, position))

    def may_trim(self, before: int) -> None:
        self.allowed = before

    # -- hooks.Commit

    def commit(self, logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        first = self._next if logged else 0
        try:
            if logged:
                self._append(logged, Flags.LOGGED)
        except LogError as error:
            assert done is not None
            done(0, error)
            return
        if done is not None:
            self._settle(lambda error: done(first, error))

    def receive(self, stream: Epoch, first: int, row: Row) -> None:
        """Another gateway's message comes; that one's clock stands at 1970."""
        frame, _ = batch.make(*stream, first, [row], flags=Flags.LOGGED, origin_time_us=0)
        self._take(frame)

    def open(self, stream: Epoch) -> None:
        """From now on messages of another gateway's epoch are given out."""
        self.frames.append(note(*stream)[0])

    # -- disk

    def synced(self) -> None:
        """All that was appended is on the disk."""
        self._synced = self.position
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)

    def trim(self, kept_bytes: int) -> None:
        """Delete the oldest of what may go, beyond so many bytes in all."""
        disk = self.disk
        while disk.frames and (
            disk.begin + len(disk.frames[0]) <= self.allowed
            and self.position - disk.begin > kept_bytes
        ):
            disk.begin += len(disk.frames.pop(0))
            self.trims += 1

    def kept_from(self) -> dict[Epoch, int]:
        lowest = {key: numbers.last + 1 for key, numbers in self.disk.have.items()}
        for _, _, header in self.disk.whole():
            if header.logged:
                key = header.stream
                lowest[key] = min(header.first, lowest.get(key, header.first))
        return lowest

    def survives(self) -> Disk:
        """Lose what was not synced, where that counts; return the disk that the next life finds."""
        while self._sync and self.position > max(self._synced, self.disk.begin):
            self.lose_last()
        return self.disk

    def lose_last(self) -> int:
        """The disk loses its last frame, though it had said that it has it; its length."""
        frame = self.disk.lose_last()
        self._synced = min(self._synced, self.position)
        return len(frame)

    def _take(self, frame: bytes) -> None:
        self.frames.append(frame)
        header = batch.check(frame)
        if header.logged:
            have = self.disk.have.setdefault(header.stream, Intervals())
            have.add(header.first, header.last)

    def _append(self, rows: Sequence[Row], flags: int) -> None:
        made_us = self._clocks.wall_us()
        frame, _ = batch.make(*self.own, self._next, rows, flags=flags, origin_time_us=made_us)
        self._write(frame)
        if flags & Flags.LOGGED:
            self._next += len(rows)

    def _write(self, frame: bytes) -> None:
        if self.is_dead:
            raise CrashError
        if self.is_full:
            raise LogError("no space left")
        self.crash_in -= 1
        if self.crash_in != 0:
            self._take(frame)
        if self.crash_in in (0, -1):  # before it is written, or right after
            self.is_dead = True
            raise CrashError

    def _settle(self, done: AfterSync) -> None:
        if self._sync:
            self._waiting.append(done)
        else:
            done(None)
