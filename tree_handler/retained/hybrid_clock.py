"""A hybrid logical clock: orders writes by time as far as clocks can be trusted, by cause always.

A stamp is a physical part, microseconds since 1970, and a logical one that tells stamps of the
same microsecond apart (Kulkarni et al., "Logical Physical Clocks", 2014). Stamps of different
gateways are compared by themselves alone, so all gateways decide alike whatever their own clocks
say. What a wrong clock may do is bounded where a stamp is *made*:

* **What was seen is surpassed.** A write of something whose last version is known gets a stamp
  above that version, however far ahead it lies. So who deletes what he sees deletes it.
* **No poison.** What others send moves this clock only up to `MAX_AHEAD_US` beyond the own wall
  clock. A stamp of the year 2150 is accepted as the version that it is and surpassed for that one
  thing; stamps of everything else stay in the present. A clock that was itself pulled ahead, or
  set ahead and then right, comes back with its next stamp.
* **A clock that stands at 1970** (or beyond `LATEST_US`) is known to be wrong and not asked: stamps
  then count on from the newest that was seen, as a Lamport clock does, until the clock is set. So
  its writes win over all that its gateway had seen.

A clock that is wrong by less than that, and behind, loses against writes that it has not seen and
that were made within its error. Nobody could tell.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_AHEAD_US = 24 * 3600 * 1_000_000
"""Stamps of others pull this clock at most so far beyond the own wall clock."""
EARLIEST_US = 1_767_225_600_000_000
"""2026-01-01: no gateway runs this program earlier, so a wall clock before it is wrong."""
LATEST_US = EARLIEST_US + 50 * 365 * 24 * 3600 * 1_000_000
"""A wall clock beyond it is wrong too: half a century, since a release may stay where it is."""
LOGICAL_MAX = (1 << 32) - 1
LOGICAL_HIGH = 1 << 31
"""No clock counts so far by itself."""


class Stamp(NamedTuple):
    """A hybrid timestamp of a write; compared as a tuple."""

    physical_us: int
    logical: int


class RetainedVersion(NamedTuple):
    """A version, which tells the newer one of two writes; compared as a tuple.

    No two writes of one thing have the same. In one life of a gateway stamps grow; one that lost
    its disk may come to the same stamps again, and has another boot epoch.
    """

    physical_us: int
    logical: int
    origin: str
    epoch: int

    @property
    def stamp(self) -> Stamp:
        """The version's time, without who wrote."""
        return Stamp(self.physical_us, self.logical)


NEVER = Stamp(0, 0)
"""Before every stamp."""


class HybridClock:
    """The clock of one gateway; see the module.

    Attributes:
        ahead: stamps seen that were too far ahead to follow.

    """

    def __init__(self) -> None:
        self.ahead = 0
        self._last = Stamp(EARLIEST_US, 0)
        self._beyond = 0
        """The last logical part given to a stamp beyond this clock."""

    def stamp(self, wall_us: int, after: Stamp = NEVER) -> Stamp:
        """Return a new stamp, above all of this clock's before and above ``after``.

        Above all before: but for those that lay too far ahead of a wall clock that was set right.

        Args:
            wall_us: the wall clock, microseconds since 1970.
            after: the stamp of what is replaced.

        """
        ceiling = _ceiling(wall_us)
        now_us = wall_us if is_plausible(wall_us) else 0
        if self._last.physical_us > ceiling:
            self._last = Stamp(now_us or EARLIEST_US, 0)
        if after > self._last and after.physical_us <= ceiling:
            self._last = after
        self._last = Stamp(now_us, 0) if now_us > self._last.physical_us else _next(self._last)
        if self._last > after:
            return self._last
        # Not from this clock, so two of the same turn must be told apart here: by a count that
        # grows with each, and that nobody's stamp can drive to its end.
        if after.logical < LOGICAL_HIGH:
            self._beyond = max(self._beyond, after.logical) + 1
            return Stamp(after.physical_us, self._beyond)
        self._beyond += 1
        return Stamp(after.physical_us + 1, self._beyond)

    def observe(self, stamp: Stamp, wall_us: int) -> None:
        """Follow a stamp that was seen, if it is not too far ahead."""
        if stamp <= self._last:
            return
        if stamp.physical_us <= _ceiling(wall_us):
            self._last = stamp
        else:
            self.ahead += 1


def is_plausible(wall_us: int) -> bool:
    """Return whether a wall clock may be right."""
    return EARLIEST_US <= wall_us <= LATEST_US


def _ceiling(wall_us: int) -> int:
    return wall_us + MAX_AHEAD_US if is_plausible(wall_us) else LATEST_US


def _next(stamp: Stamp) -> Stamp:
    if stamp.logical < LOGICAL_MAX:
        return Stamp(stamp.physical_us, stamp.logical + 1)
    return Stamp(stamp.physical_us + 1, 0)
