"""Recent answers of gateways to look-ups: for the next who asks, and for when one is silent."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from resource_directory.link_format import WebLink

FRESH_S: Final = 5.0
"""So long an answer is told again without asking."""
STALE_S: Final = 600.0
"""And so long where its gateway does not answer any more, marked as what it is."""
LINKS_MAX: Final = 20_000
"""Links that are kept; what was asked for longest ago goes first."""


class KeptLookUps:
    """Answers by gateway, look-up and who asked: nobody is told what another may read."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, tuple[WebLink, ...]]] = {}
        self._links = 0

    def fresh(self, key: Hashable, now: float) -> Sequence[WebLink] | None:
        """Return an answer of just now; None if there is none."""
        at, links = self._kept.get(key, (-FRESH_S, ()))
        return links if now - at < FRESH_S else None

    def stale(self, key: Hashable, now: float) -> tuple[int, Sequence[WebLink]]:
        """Return the last answer and its age in seconds; nothing if that is too long ago."""
        at, links = self._kept.get(key, (now, ()))
        return (int(now - at), links) if now - at < STALE_S else (0, ())

    def keep(self, key: Hashable, links: Sequence[WebLink], now: float) -> None:
        """Keep an answer; beyond `LINKS_MAX` links the oldest answers go."""
        self._drop(key)
        self._kept[key] = now, tuple(links)
        self._links += 1 + len(links)
        while self._links > LINKS_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        _, links = self._kept.pop(key, (0.0, None))
        if links is not None:
            self._links -= 1 + len(links)
