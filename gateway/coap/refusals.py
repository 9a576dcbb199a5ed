"""Log of what CoAP's peers were refused: one line a second, whatever they send."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

LOOK_S = 1.0

_log = logging.getLogger(__name__)


class RefusalLog:
    """Tells what was refused since it last did.

    Args:
        counts: how often what was refused since the start, by kind.

    """

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts
        self._told = dict(counts())
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None

    def look_soon(self) -> None:
        """Something came from peers: look within a second."""
        if self._look is None:
            self._look = self._loop.call_later(LOOK_S, self._tell)

    def close(self) -> None:
        """Tell what was not told yet."""
        if self._look is not None:
            self._look.cancel()
            self._tell()

    def _tell(self) -> None:
        self._look = None
        counts = dict(self._counts())
        more = {kind: n - self._told.get(kind, 0) for kind, n in counts.items()}
        self._told = counts
        told = [f"{kind} {more[kind]} ({counts[kind]} so far)" for kind in counts if more[kind]]
        if told:
            _log.warning("CoAP refused %s", ", ".join(told))
