"""The time of one life of a gateway: a clock that may run wrong, and the timers that go by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Protocol

from light_dataclasses import dataclass
from tree_handler.simulation.network import Clock


@dataclass(frozen=True, slots=True)
class LocalClock:
    """The monotonic clock of one life: it starts anywhere and runs at its own rate.

    Attributes:
        rate: seconds that it counts in a second.
        ahead_s: what it shows at virtual time 0.

    """

    rate: float = 1.0
    ahead_s: float = 0.0

    def reading(self, virtual_s: float) -> float:
        """Return what it shows at a virtual time."""
        return self.ahead_s + self.rate * virtual_s

    def virtual_s(self, reading: float) -> float:
        """Return the virtual time at which it shows this."""
        return (reading - self.ahead_s) / self.rate


@dataclass(frozen=True, slots=True)
class StillClock(LocalClock):
    """A clock that stands still while virtual time leaps: for what says the same again and again.

    A tree goes by differences of time alone, so one in a still network is after any number of its
    hellos as it was before.

    Attributes:
        clock: virtual time.

    """

    clock: Clock = field(default_factory=Clock)

    def reading(self, virtual_s: float) -> float:
        """Return what the clock shows at a virtual time; it stands still while time leaps."""
        return self.ahead_s + self.rate * (virtual_s - self.clock.leapt_s)

    def virtual_s(self, reading: float) -> float:
        """Return the virtual time at which the clock shows this."""
        return (reading - self.ahead_s) / self.rate + self.clock.leapt_s


TRUE_CLOCK = LocalClock()


class Life(Protocol):
    """The owner of a timer: one that has ended does nothing, one that stands still is late."""

    alive: bool
    paused_until_s: float


class Timer:
    """Calls one core of a life when it is due.

    Args:
        life: which must be there and not stand still.
        clock: virtual time.
        local: the clock by which it is due.
        due: called with what the local clock shows, never before the time that was set.

    """

    def __init__(
        self, life: Life, clock: Clock, local: LocalClock, due: Callable[[float], None]
    ) -> None:
        self._life = life
        self._clock = clock
        self._local = local
        self._due = due
        self._due_s = math.nan

    def set(self, due_s: float) -> None:
        """Go off at this time by the local clock, instead of the one that was set before."""
        if due_s != self._due_s:
            self._due_s = due_s
            if due_s != math.inf:
                self._clock.at(self._local.virtual_s(due_s), partial(self._go_off, due_s))

    def _go_off(self, due_s: float) -> None:
        life = self._life
        if not life.alive or due_s != self._due_s:
            return
        if life.paused_until_s > self._clock.now:
            self._clock.at(life.paused_until_s, partial(self._go_off, due_s))
            return
        self._due_s = math.nan
        # Rounding must not bring it too early.
        self._due(max(due_s, self._local.reading(self._clock.now)))
