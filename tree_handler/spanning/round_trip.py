"""Cost of a link: its smoothed round-trip time in steps (row B5; RFC 6298 section 2).

The cost is what BPDUs add up, in whole milliseconds, rounded up: of two ways of the same length
the one over fewer links is better. After the first samples the cost stays until the smoothed
time has moved by the switch margin and by twice its deviation, so that jitter changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ALPHA = 1 / 8
"""Weight of a sample in SRTT (RFC 6298 section 2.3)."""
BETA = 1 / 4
"""Weight of a sample in RTTVAR (RFC 6298 section 2.3)."""
MAX_RTT_MS = 60_000.0
"""A longer sample says that a process stood still, not how far a neighbour is."""
SETTLED_SAMPLES = 8
"""Of so many first samples the median counts, and the cost follows it: any may be an accident."""


class RoundTrip:
    """The round-trip time of one link.

    Args:
        unmeasured_ms: what the link costs before its first sample.
        margin: the cost follows when it is off by this fraction of itself ...
        margin_ms: ... and by so many milliseconds.

    """

    __slots__ = (
        "_costed_ms",
        "_first_ms",
        "_margin",
        "_margin_ms",
        "cost_ms",
        "rttvar_ms",
        "srtt_ms",
    )

    def __init__(self, unmeasured_ms: int, margin: float, margin_ms: float) -> None:
        self.srtt_ms: float | None = None
        """Smoothed round-trip time, None before the first sample."""
        self.rttvar_ms = 0.0
        """Mean deviation of the samples."""
        self.cost_ms = unmeasured_ms
        """The cost that the link adds to a path."""
        self._margin = margin
        self._margin_ms = margin_ms
        self._first_ms: list[float] = []
        self._costed_ms = 0.0  # what SRTT was when the cost was set

    def sample(self, rtt_ms: float) -> bool:
        """Take one measurement. One that is far off counts as twice the usual time at most.

        Returns:
            Whether the cost is another one now, or `settled` has become true.

        Raises:
            ValueError: if it is negative or not finite.

        """
        if not (math.isfinite(rtt_ms) and rtt_ms >= 0):
            raise ValueError(f"rtt_ms: {rtt_ms!r}")
        rtt_ms = min(rtt_ms, MAX_RTT_MS)
        if not self.settled:
            self._first_ms.append(rtt_ms)
            self.srtt_ms = _median(self._first_ms)
            deviations_ms = [abs(self.srtt_ms - first_ms) for first_ms in self._first_ms]
            self.rttvar_ms = max(self.srtt_ms / 2, _median(deviations_ms))
            return self._set_cost(self.srtt_ms) or self.settled
        assert self.srtt_ms is not None
        # A process that stood still for a moment must not look like a longer way.
        most_ms = self.srtt_ms + max(4 * self.rttvar_ms, self.srtt_ms, self._margin_ms)
        rtt_ms = min(rtt_ms, most_ms)
        self.rttvar_ms += BETA * (abs(self.srtt_ms - rtt_ms) - self.rttvar_ms)
        self.srtt_ms += ALPHA * (rtt_ms - self.srtt_ms)
        margin_ms = max(self._margin * self._costed_ms, self._margin_ms, 2 * self.rttvar_ms)
        if abs(self.srtt_ms - self._costed_ms) <= margin_ms:
            return False
        return self._set_cost(self.srtt_ms)

    def _set_cost(self, srtt_ms: float) -> bool:
        before_ms = self.cost_ms
        self._costed_ms = srtt_ms
        self.cost_ms = max(1, math.ceil(srtt_ms))
        return self.cost_ms != before_ms

    @property
    def settled(self) -> bool:
        """Return whether there were samples enough to compare this link with another."""
        return len(self._first_ms) >= SETTLED_SAMPLES

    @property
    def slowest_ms(self) -> float:
        """Return the longest time of an answer: SRTT + 4 RTTVAR (RFC 6298, 2.2); 0: unmeasured."""
        return 0.0 if self.srtt_ms is None else self.srtt_ms + 4 * self.rttvar_ms


def _median(values: Sequence[float]) -> float:
    """Return the middle one of some values, or the mean of the two in the middle.

    Python's `statistics` has it too, and brings rational numbers, which a start has no use for.
    """
    half, is_odd = divmod(len(values), 2)
    inner = sorted(values)
    return inner[half] if is_odd else (inner[half - 1] + inner[half]) / 2
