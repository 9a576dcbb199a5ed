"""From values to places in a drawing, and the round values at which an axis is marked."""

from __future__ import annotations

import math
from collections.abc import Iterable

from light_dataclasses import dataclass

_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear one. What lies beyond its ends is drawn at its ends.

    Attributes:
        low: the value at ``start``.
        high: the value at ``end``; where it is not above ``low``, all is drawn in the middle.
        start: a coordinate.
        end: a coordinate, on either side of ``start``.

    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        return _between(self.start, self.end, value, self.low, self.high)

    def ticks(self, most: int) -> list[float]:
        """Round values within it, evenly spaced: at most ``most``, and one more."""
        if not self.high > self.low:
            return [self.low]
        step = _step((self.high - self.low) / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(at * step, 12) for at in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class LogScale:
    """A logarithmic one, between two powers of ten. What lies beyond is drawn at its ends.

    Attributes:
        low: the power at ``start``.
        high: the power at ``end``.
        start: a coordinate.
        end: a coordinate.

    """

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def of(cls, values: Iterable[float], start: float, end: float) -> LogScale:
        """From the power of ten below the least of some values to the one above the greatest."""
        powers = [math.log10(value) for value in values if value > 0 and math.isfinite(value)]
        low = math.floor(min(powers, default=0.0))
        return cls(low, max(math.ceil(max(powers, default=0.0)), low + 1), start, end)

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value; one that has no logarithm is drawn at the low end."""
        power = math.log10(value) if value > 0 else self.low
        return _between(self.start, self.end, power, self.low, self.high)

    def ticks(self) -> list[float]:
        """Return the powers of ten within it."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def _between(start: float, end: float, value: float, low: float, high: float) -> float:
    if not high > low:
        return (start + end) / 2
    return start + (end - start) * min(max((value - low) / (high - low), 0.0), 1.0)


def _step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return power * next((step for step in _STEPS if power * step >= least * (1 - 1e-9)), _STEPS[-1])
