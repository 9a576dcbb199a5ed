"""Trouble that recurs between this gateway and another, and when a log is to say so.

It is said once and then rarely, however often it happens; what is not said is counted. Whoever can
come from many addresses gets no more lines by that. Sans-I/O: times are the caller's, in seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from light_dataclasses import dataclass
from tree_handler.rate_limit import RateLimit

AGAIN_S: Final = 600.0
"""Trouble that lasts is said again after so long."""
GRACE_S: Final = 2.0
"""A neighbour that does not answer may only be starting; before this nothing is said."""
OTHER_LIFE_PATIENCE_S: Final = 10.0
"""A gateway that has restarted may find its own last life still in the tree for a moment."""
MAX_REASONS: Final = 8
"""Different reasons of one neighbour that are each said at once."""
MAX_STRANGERS: Final = 64
"""Of those whose links were refused so many are remembered, the latest."""
STRANGERS_AT_ONCE: Final = 20
STRANGERS_PER_S: Final = 1 / 30
"""Lines about all strangers together."""


class DialFailures:
    """The failures of dialling one neighbour.

    Attributes:
        since_s: when it first failed, on the wall clock; None while nothing is wrong.
        times: attempts that have failed since.
        why: the latest reason.

    """

    def __init__(self) -> None:
        self.since_s: float | None = None
        self.times = 0
        self.why = ""
        self._began_s = 0.0
        self._said_at_s = 0.0
        self._said: set[str] = set()

    def failed(self, why: str, now_s: float, wall_s: float, patience_s: float = 0.0) -> bool:
        """Note an attempt that failed.

        Args:
            why: the reason, in words.
            now_s: monotonic time.
            wall_s: the same on the wall clock.
            patience_s: so long it may mend by itself, and is not said.

        Returns:
            Whether it is to be said now.

        """
        if self.since_s is None:
            self.since_s, self._began_s = wall_s, now_s
        self.times += 1
        self.why = why
        is_news = why not in self._said and len(self._said) < MAX_REASONS
        if is_news and now_s - self._began_s < patience_s:
            return False
        if not is_news and now_s - self._said_at_s < AGAIN_S:
            return False
        self._said.add(why)
        self._said_at_s = now_s
        return True

    @property
    def is_said(self) -> bool:
        """Return whether the latest reason was said."""
        return self.why in self._said

    def over(self) -> None:
        """Forget the failures: there is a link now."""
        self.since_s, self.times, self.why = None, 0, ""
        self._said.clear()


@dataclass(slots=True)
class _Stranger:
    why: str
    first_s: float
    last_s: float
    last_at_s: float
    first_at_s: float
    said_at_s: float | None = None
    times: int = 0


class RefusedPeers:
    """Those that wanted a link and were refused: the latest, and when each is said."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Stranger] = OrderedDict()
        self._lines = RateLimit(STRANGERS_PER_S, STRANGERS_AT_ONCE)
        self._lines_now = RateLimit(1.0, 1)

    def refused(
        self,
        address: str,
        kind: str,
        why: str,
        now_s: float,
        wall_s: float,
        patience_s: float = 0.0,
    ) -> bool:
        """Note a link that was refused; returns whether it is to be said now.

        Args:
            address: where it came from, without port.
            kind: what is wrong, of a few.
            why: the same with what the other end said of itself.
            now_s: monotonic time.
            wall_s: the same on the wall clock.
            patience_s: so long it may mend by itself, and is not said.

        """
        key = address, kind
        known = self._known.get(key)
        if known is None or now_s - known.last_at_s >= AGAIN_S:
            known = self._known[key] = _Stranger(why, wall_s, wall_s, now_s, now_s)
        self._known.move_to_end(key)
        if len(self._known) > MAX_STRANGERS:
            self._known.popitem(last=False)
        known.why, known.last_s, known.last_at_s = why, wall_s, now_s
        known.times += 1
        is_said = known.said_at_s is not None and now_s - known.said_at_s < AGAIN_S
        if is_said or now_s - known.first_at_s < patience_s:
            return False
        if not (self._lines_now.allow(kind, now_s) and self._lines.allow("", now_s)):
            return False
        known.said_at_s = now_s
        return True

    def status(self, now_s: float) -> list[dict[str, Any]]:
        """Return those of the last ten minutes, the latest first, ready for JSON; times of the
        wall."""
        return [
            {
                "address": address,
                "why": one.why,
                "since_s": one.first_s,
                "last_s": one.last_s,
                "times": one.times,
            }
            for (address, _), one in reversed(self._known.items())
            if now_s - one.last_at_s < AGAIN_S
        ]
