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
CHARACTERS_MAX: Final = 4 << 20
"""Links that are kept, and their characters with those of the look-ups; what was asked for longest
ago goes first."""


class KeptLookUps:
    """Answers by gateway, look-up and who asked: nobody is told what another may read."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, tuple[WebLink, ...]]] = {}
        self._links = 0
        self._characters = 0

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
        self._count(key, links, 1)
        while self._links > LINKS_MAX or self._characters > CHARACTERS_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        _, links = self._kept.pop(key, (0.0, None))
        if links is not None:
            self._count(key, links, -1)

    def _count(self, key: Hashable, links: Sequence[WebLink], sign: int) -> None:
        self._links += sign * (1 + len(links))
        characters = _characters(key)
        for link in links:
            characters += len(link.href) + _characters(link.attributes)
        self._characters += sign * characters


def _characters(one: object) -> int:
    """Return how many characters the texts have that something is made of."""
    if isinstance(one, str):
        return len(one)
    return sum(map(_characters, one)) if isinstance(one, tuple) else 0
