"""A clock that outlives the process: what is to end some day is kept with its time on this clock.

A Pi has no battery for its clock. Its wall clock may be years behind at boot, jump when the network
has told the time, and be wrong again after the next power cut. A session or a message that ended
for that would be lost, one that ends late is a nuisance. So this clock never runs ahead of the time
that has truly passed:

* While the machine is up it counts with the kernel's own clock since boot (CLOCK_BOOTTIME), which
  nobody sets. A kill and a restart of the process cost it nothing.
* The time for which the machine was off counts if the kernel says of the wall clock that it is
  synchronised, and said so before. Else this clock stands still meanwhile.
* What a power cut took from the log since the last mark does not count either.

It starts at what the wall clock says when the gateway first runs, and its numbers mean nothing but
their differences. Marks in the journal and in checkpoints carry it from life to life.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from gateway.base import wall_clock
from tree_handler.retained.hybrid_clock import EARLIEST_US, is_plausible

STEP_S: Final = 1.0
"""A wall clock that has moved by so much against the kernel's has been set."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_DIGITS: Final = 15
"""Of the boot's identifier: what SQLite can hold as a number."""
_TIMEX_BYTES: Final = 512
"""More than a `struct timex` has on any machine."""
_TIME_ERROR: Final = 5
"""The result of adjtimex(2) while the clock is not synchronised."""


class Clocks(Protocol):
    """The clocks of a machine, in microseconds."""

    boot: int
    """The number of the machine's boot."""

    def boot_us(self) -> int:
        """Since then, on a clock that nobody sets."""

    def wall_us(self) -> int:
        """Since 1970, on a clock that may be wrong."""

    def wall_ahead_s(self) -> float:
        """Return the wall clock less one that nobody sets, in seconds; asked for each batch."""

    def is_synchronised(self) -> bool:
        """Return whether the wall clock is known to be right."""


class KernelClocks:
    """The clocks of this machine; see `Clocks`."""

    def __init__(self) -> None:
        self.wall_us: Callable[[], int] = wall_clock.now_us
        self.wall_ahead_s: Callable[[], float] = wall_clock.ahead_s
        self.boot = int(_BOOT_ID.read_text().replace("-", "")[:_BOOT_DIGITS], 16)
        self._adjtimex = ctypes.CDLL(None).adjtimex

    def boot_us(self) -> int:
        """Return microseconds since boot, those of a suspended machine included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def is_synchronised(self) -> bool:
        """Return whether a time service keeps the wall clock right, by adjtimex(2)."""
        nothing_to_change = ctypes.create_string_buffer(_TIMEX_BYTES)
        return 0 <= int(self._adjtimex(nothing_to_change)) < _TIME_ERROR


class Mark(NamedTuple):
    """A mark: the readings of several clocks at one moment; all in microseconds.

    Attributes:
        lasting_us: this clock.
        epoch: the gateway's boot epoch.
        boot: see `Clocks`, as the rest.

    """

    lasting_us: int
    epoch: int
    boot: int
    boot_us: int
    wall_us: int
    is_synchronised: bool


class LastingClock:
    """The clock of one life of a gateway.

    Args:
        clocks: of the machine.
        epoch: the gateway's boot epoch.

    Attributes:
        wall_ahead_s: the clocks' own: it changes when the wall clock is set.

    """

    def __init__(self, clocks: Clocks, epoch: int) -> None:
        self._clocks = clocks
        self._epoch = epoch
        self.wall_ahead_s: Callable[[], float] = clocks.wall_ahead_s
        wall_us = clocks.wall_us()
        start_us = wall_us if is_plausible(wall_us) else EARLIEST_US
        self._ahead_us = start_us - clocks.boot_us()
        self._is_new = True

    @property
    def goes_on(self) -> bool:
        """Return whether it goes on from the life before: what was noted of it then still holds."""
        return not self._is_new

    def now_us(self) -> int:
        """Return the time on this clock."""
        return self._clocks.boot_us() + self._ahead_us

    def go_on_from(self, mark: Mark) -> None:
        """Take up the count of the life before, or of a later mark of it."""
        clocks = self._clocks
        passed_us = 0
        if mark.boot == clocks.boot:
            passed_us = clocks.boot_us() - mark.boot_us
        elif mark.is_synchronised:
            wall_us = clocks.wall_us()
            # Asked behind it: a wall clock that has just been set is not called synchronised.
            passed_us = wall_us - mark.wall_us if clocks.is_synchronised() else 0
        ahead_us = mark.lasting_us + max(0, passed_us) - clocks.boot_us()
        if self._is_new or ahead_us > self._ahead_us:
            self._ahead_us = ahead_us
        self._is_new = False

    def mark(self) -> Mark:
        """Return what all clocks say now."""
        clocks = self._clocks
        boot_us = clocks.boot_us()
        return Mark(
            boot_us + self._ahead_us,
            self._epoch,
            clocks.boot,
            boot_us,
            clocks.wall_us(),
            is_synchronised=clocks.is_synchronised(),
        )


class Dating:
    """A dating of the log's content on the lasting clock; rather later than it came.

    What this gateway wrote has the wall clock's time in its header, and behind a mark it is known
    what that clock was worth. What came from others stands before something of the gateway's own:
    it was there by then.

    Args:
        clock: of this life.
        mark: of the checkpoint, if it has one.

    """

    def __init__(self, clock: LastingClock, mark: Mark | None) -> None:
        self._clock = clock
        self._mark = mark
        self._latest_us = 0 if mark is None else mark.lasting_us
        self.begin_us = None if mark is None else mark.lasting_us
        """The time when the checkpoint was made; None if it does not say."""

    def marked(self, mark: Mark) -> None:
        """The journal says what the clocks said."""
        self._mark = mark
        self._clock.go_on_from(mark)

    def written_us(self, epoch: int, wall_us: int) -> int:
        """Return when something of this gateway's own was written.

        Args:
            epoch: the gateway's life that wrote it.
            wall_us: what its wall clock said, or 0.

        """
        mark, now_us = self._mark, self._clock.now_us()
        if mark is None or mark.epoch != epoch or not wall_us:
            return now_us
        at_us = max(mark.lasting_us, self._latest_us, mark.lasting_us + wall_us - mark.wall_us)
        self._latest_us = min(at_us, now_us)
        return self._latest_us

    def ended_us(self, mark_s: float, quiet_mark_s: float) -> int:
        """Return when the life before ended at the latest, as marks would have followed.

        Args:
            mark_s: after something is written the next mark comes within about so long.
            quiet_mark_s: where nothing is written.

        """
        mark, now_us = self._mark, self._clock.now_us()
        if mark is None:
            return now_us
        has_written = self._latest_us - mark.lasting_us > STEP_S * 1_000_000
        by_us = mark.lasting_us + int((mark_s if has_written else quiet_mark_s) * 1_000_000)
        return min(now_us, max(by_us, self._latest_us) + int(mark_s * 1_000_000))
