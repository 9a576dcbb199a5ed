"""Lines about what happens again and again: all of it is counted, little of it is said."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from tree_handler.rate_limit import RateLimit

LINES_PER_S: Final = 1.0


class CountedLines:
    """Counts what was refused, dropped or lost, by kind, and says each kind once a second at most.

    Args:
        log: where it is said.
        now: the loop's clock, in seconds.
        at_once: so many lines of a kind there may be within a second, if it was quiet before.

    """

    def __init__(self, log: logging.Logger, now: Callable[[], float], at_once: int = 1) -> None:
        self._log = log
        self._now = now
        self.counts: Counter[str] = Counter()
        """The number of events, by kind."""
        self._lines = RateLimit(LINES_PER_S, at_once)

    def count(
        self,
        kind: str,
        who: str,
        times: int = 1,
        source: str = "",
        *,
        level: int = logging.WARNING,
        error: BaseException | None = None,
    ) -> None:
        """Note one more.

        Args:
            kind: of what.
            who: for the line; it may say why.
            times: how many more it is.
            source: whose line it is, where no source is to take those of others.
            level: of the line.
            error: whose traceback goes with the first line of the kind.

        """
        is_first = not self.counts[kind]
        self.counts[kind] += times
        if self._lines.allow(kind + source, self._now()):
            told = error if is_first else None
            self._log.log(level, "%s: %s (%d so far)", who, kind, self.counts[kind], exc_info=told)
