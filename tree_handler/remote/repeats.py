"""Repetition of requests to other gateways: which are sent again, and when (sans-I/O).

A request, or its answer, is lost when a link on its way ends. So who asked sends it again under the
same number until it is answered: at once when the way to its target is another one, and after
`FIRST_S`, then twice as long, and so on. The target executes it once (`request_memory`) and gives
its answer again (`remote_kept`). Where the target is not in reach nothing is sent: it would go to
all.

A read goes to the latest life of its target. A write does not go to another life than the one that
it was meant for: what that one has carried out the next one does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tree_handler.deadlines import Deadlines
from tree_handler.remote.message import Query
from tree_handler.routing.locator import GatewayLocation

FIRST_S: Final = 0.5
"""So long an answer is waited for before a request is sent again the first time."""
MAX_CHALLENGES: Final = 4
"""So often one request is sent again because its target wants it shown that it is new."""


WayTo = Callable[[str], GatewayLocation | None]
"""Returns the way to a gateway as it is now; None if there is none."""


class _Sent:
    """One request that waits for its answer."""

    __slots__ = ("challenges", "deadline", "query", "wait_s", "way")

    def __init__(self, query: Query, way: GatewayLocation | None, deadline: float) -> None:
        self.query = query
        self.way = way
        self.deadline = deadline
        self.wait_s = FIRST_S
        self.challenges = 0


class Repeats:
    """All requests of one gateway that may be sent again.

    Args:
        way_to: says how a gateway is reached.

    """

    def __init__(self, way_to: WayTo) -> None:
        self._way_to = way_to
        self._sent: dict[str, _Sent] = {}
        self._due: Deadlines[str] = Deadlines()

    def add(self, query: Query, now: float) -> None:
        """One was sent."""
        sent = _Sent(query, self._way_to(query.target), now + query.deadline_ms / 1000)
        self._sent[query.correlation] = sent
        self._due.set(query.correlation, now + sent.wait_s)

    def end(self, correlation: str) -> None:
        """One was answered, or nobody waits for its answer."""
        if self._sent.pop(correlation, None) is not None:
            self._due.drop(correlation)

    def challenged(self, correlation: str, challenge: int, now: float) -> list[Query]:
        """Send one again at once, whose target wants it shown that it is new."""
        sent = self._sent.get(correlation)
        if sent is None or sent.challenges >= MAX_CHALLENGES:
            return []
        sent.challenges += 1
        left_ms = int((sent.deadline - now) * 1000)
        if left_ms <= 0:
            return []
        sent.query = replace(
            sent.query, deadline_ms=left_ms, asked_ms=int(now * 1000), challenge=challenge
        )
        return [sent.query]

    def moved(self, now: float) -> list[Query]:
        """Some gateways may be reached otherwise now: what is sent again."""
        again: list[Query] = []
        ways: dict[str, GatewayLocation | None] = {}
        for correlation, sent in list(self._sent.items()):
            target = sent.query.target
            if target not in ways:
                ways[target] = self._way_to(target)
            way = ways[target]
            if way != sent.way:
                sent.way, sent.wait_s = way, FIRST_S
                again += self._again(correlation, sent, now)
        return again

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing waits."""
        return self._due.next()

    def handle_timer(self, now: float) -> list[Query]:
        """Return what is sent again now."""
        again: list[Query] = []
        for correlation in self._due.take_due(now):
            sent = self._sent[correlation]
            sent.wait_s *= 2
            again += self._again(correlation, sent, now)
        return again

    def _again(self, correlation: str, sent: _Sent, now: float) -> list[Query]:
        query, way = sent.query, sent.way
        if way is not None and way.epoch > query.target_epoch and query.request.writes:
            self.end(correlation)
            return []
        self._due.set(correlation, now + sent.wait_s)
        left_ms = int((sent.deadline - now) * 1000)
        if way is None or left_ms <= 0:
            return []
        same_life = way.epoch <= query.target_epoch
        query = sent.query = replace(
            query,
            deadline_ms=left_ms,
            asked_ms=int(now * 1000),
            target_epoch=max(way.epoch, query.target_epoch),
            again=query.again + 1,
            challenge=query.challenge if same_life else 0,
        )
        return [query]
