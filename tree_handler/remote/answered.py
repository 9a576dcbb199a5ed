"""Answers to other gateways, kept for requests that come again (sans-I/O).

The answer to a write is kept for a minute, that to a read until nobody waits for it any more: reads
are many, and must not crowd out what tells that a write was carried out.
"""

from __future__ import annotations

from tree_handler.remote.executing import Execute, QueryKey
from tree_handler.remote.kept import KeptAnswers
from tree_handler.remote.message import Publication, Query

KEPT_S = 60.0
"""So long an answer is kept at most."""


class SentAnswers:
    """The answers of one gateway that may be asked for again."""

    def __init__(self) -> None:
        self._reads = KeptAnswers()
        self._writes = KeptAnswers()

    def again(self, key: QueryKey) -> Publication | None:
        """Return what a request was answered with that comes again; None if that is not kept."""
        return self._writes.give(key) or self._reads.give(key)

    def note(self, execute: Execute, answer: Publication, now: float, *, is_first: bool) -> None:
        """An answer was sent; a later one to a subscription takes the place of the first."""
        if execute.request.writes:
            self._writes.keep(execute.key, answer, now + KEPT_S)
        elif is_first or execute.key in self._reads:
            self._keep_read(execute.key, answer, execute.deadline_s, now)

    def note_refusal(self, query: Query, answer: Publication, now: float) -> None:
        """A request was refused, and is not to be carried out when it comes again."""
        key = (query.asker, query.correlation)
        self._keep_read(key, answer, now + query.deadline_ms / 1000, now)

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing is kept."""
        return min(self._reads.next_timer(), self._writes.next_timer())

    def handle_timer(self, now: float) -> None:
        """Let go of what was kept for long enough."""
        self._reads.handle_timer(now)
        self._writes.handle_timer(now)

    def _keep_read(self, key: QueryKey, answer: Publication, until: float, now: float) -> None:
        if now < until:
            self._reads.keep(key, answer, min(until, now + KEPT_S))
