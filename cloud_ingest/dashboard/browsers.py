"""Browsers that are told which tables changed; only so many. Pure but for asyncio's event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

BROWSERS_MAX: Final = 128
PER_VISITOR_MAX: Final = 12


class ListeningBrowser:
    """One browser; what it was not told yet is added up, however slow it is."""

    def __init__(self, visitor: str, is_gone: Callable[[], bool]) -> None:
        self.visitor = visitor
        self.is_gone = is_gone
        self._untold: set[str] = set()
        self._is_new = asyncio.Event()

    def tell(self, tables: Iterable[str]) -> None:
        """Add to what it is to be told."""
        self._untold.update(tables)
        self._is_new.set()

    async def next(self, most_s: float) -> list[str]:
        """Return what it is to be told; nothing after so many seconds."""
        try:
            async with asyncio.timeout(most_s):
                await self._is_new.wait()
        except TimeoutError:
            return []
        told = sorted(self._untold)
        self._untold.clear()
        self._is_new.clear()
        return told


class ListeningBrowsers:
    """The browsers that wait to be told which tables change: so many, and so many of one
    visitor."""

    def __init__(self) -> None:
        self._all: set[ListeningBrowser] = set()

    def __len__(self) -> int:
        """Return how many wait, with those of which nobody has noticed yet that they went."""
        return len(self._all)

    def come(self, visitor: str, is_gone: Callable[[], bool]) -> ListeningBrowser | None:
        """Take in a browser that has come; return None where there are too many.

        Args:
            visitor: whose it is.
            is_gone: whether its connection has ended. Nobody else is told of that until something
                is sent there again, and who reloads a page has left one behind.

        """
        self._all = {one for one in self._all if not one.is_gone()}
        own = sum(one.visitor == visitor for one in self._all)
        if len(self._all) >= BROWSERS_MAX or own >= PER_VISITOR_MAX:
            return None
        made = ListeningBrowser(visitor, is_gone)
        self._all.add(made)
        return made

    def go(self, listening: ListeningBrowser) -> None:
        """Forget a browser that has gone."""
        self._all.discard(listening)

    def tell(self, tables: Iterable[str]) -> None:
        """Tell all of them which tables changed."""
        told = tuple(tables)
        for one in self._all:
            one.tell(told)
