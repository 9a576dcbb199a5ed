"""The least that clocks of gateways' lives read, and when: for each gateway its latest few lives.

An origin may sign that it has had any number of lives. It crowds out none but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.entry import MAX_CLOCK_US

DRIFT_BITS: Final = 11
"""Two clocks are taken to differ by less than 1 in 2 ** 11: 490 us a second, so much as a time
service may make a clock faster or slower while it puts it right."""
MAX_LIVES: Final = 8
"""Of one gateway."""
MAX_GATEWAYS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A lower bound of what another gateway's clock read.

    Attributes:
        clock_us: that.
        at_us: when, on this gateway's clock.
        is_sure: whether it is more than hearsay.

    """

    clock_us: int
    at_us: int
    is_sure: bool = True

    def by(self, now_us: int) -> int:
        """Return what it reads now, at least."""
        return min(MAX_CLOCK_US, self.clock_us + surely_passed(now_us - self.at_us))


def surely_passed(passed_us: int) -> int:
    """Return how much has passed in any case, if a clock that may be too fast says so much."""
    return 0 if passed_us <= 0 else passed_us - (passed_us >> DRIFT_BITS) - 1


class ClockReadings:
    """One reading for each life."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, ClockReading]] = {}

    def __contains__(self, stream: Epoch) -> bool:
        """Return whether there is one of a life."""
        return stream[1] in self.of(stream[0])

    def __iter__(self) -> Iterator[Epoch]:
        """Return the lives of which there is one."""
        return ((name, epoch) for name, lives in self._of.items() for epoch in lives)

    def of(self, gateway_id: str) -> dict[int, ClockReading]:
        """Return those of a gateway, by life; not the caller's to change."""
        return self._of.get(gateway_id, _NONE)

    def get(self, stream: Epoch) -> ClockReading | None:
        """Return that of a life; None if there is none."""
        return self.of(stream[0]).get(stream[1])

    def put(self, stream: Epoch, reading: ClockReading) -> None:
        """Note one; where that is one too many, the one goes that has been there for longest."""
        gateway_id, epoch = stream
        lives = self._of.get(gateway_id)
        if lives is None:
            if len(self._of) >= MAX_GATEWAYS:
                del self._of[next(iter(self._of))]
            lives = self._of[gateway_id] = {}
        lives[epoch] = reading
        if len(lives) > MAX_LIVES:
            del lives[next(iter(lives))]

    def forget(self, is_over: Callable[[Epoch, ClockReading], bool]) -> None:
        """Let go of those of which this says so."""
        for name in list(self._of):
            lives = self._of[name]
            for epoch in list(lives):
                if is_over((name, epoch), lives[epoch]):
                    del lives[epoch]
            if not lives:
                del self._of[name]

    def clear(self) -> None:
        """Let go of all."""
        self._of.clear()


_NONE: Final[dict[int, ClockReading]] = {}
