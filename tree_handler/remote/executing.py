"""Requests that a gateway executes for others, and observers that it tells of changes.

Sans-I/O. A query is executing until it is answered, past its deadline or cancelled. One with a
lease that is answered and goes on is told of changes until the lease is over, another query takes
its place, or it is cancelled. Nothing that a gateway asks holds more than its part of either.
"""

from __future__ import annotations

from typing import Final

from light_dataclasses import dataclass
from tree_handler.deadlines import Deadlines
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.message import Query
from tree_handler.remote.resource import ResourceRequest

REPLY_TOPIC: Final = "$hedgerow/reply/"

QueryKey = tuple[str, str]
"""The gateway that asked, and its id of the query."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Execute a request here, then hand the response to `RemoteQueries.answer`.

    Attributes:
        request: what to execute, and for whom.
        reply_topic: where the answer goes.
        correlation: the asker's id of the query.
        deadline_s: when the asker stops waiting, on this gateway's clock.
        observes: it wants to be told of changes, too.

    """

    request: ResourceRequest
    reply_topic: str
    correlation: str
    deadline_s: float
    observes: bool = False

    @property
    def asker(self) -> str:
        """Id of the gateway that vouches for whom it is."""
        return self.reply_topic.removeprefix(REPLY_TOPIC)

    @property
    def key(self) -> QueryKey:
        """Tells it from all others."""
        return self.asker, self.correlation


@dataclass(frozen=True, slots=True)
class Stop:
    """Nobody waits for what comes of an `Execute` any more: end it.

    Attributes:
        key: of it.
        is_late: its deadline has passed.

    """

    key: QueryKey
    is_late: bool = False


class _Running:
    """One query that is executed, or told of changes."""

    __slots__ = ("is_told", "lease_until", "number", "subscription")

    def __init__(self, subscription: int, lease_until: float) -> None:
        self.subscription = subscription
        self.lease_until = lease_until
        self.number = 0
        """Of the next answer."""
        self.is_told = False


class Executions:
    """All that one gateway executes for others.

    Args:
        limits: see there.

    """

    def __init__(self, limits: QueryLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._running: dict[QueryKey, _Running] = {}
        self._due: Deadlines[QueryKey] = Deadlines()
        self._executing: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._total = [0, 0]
        """Executing and told."""
        self._subscribed: dict[tuple[str, int], str] = {}

    def __contains__(self, key: QueryKey) -> bool:
        """Return whether it is under way."""
        return key in self._running

    def is_full_for(self, asker: str) -> bool:
        """Return whether nothing more is executed for a gateway now."""
        return (
            self._total[0] >= self._limits.executed
            or self._executing.get(asker, 0) >= self._limits.executed_of_gateway
        )

    def begin(self, query: Query, reply_topic: str, now: float) -> list[Execute | Stop]:
        """Execute a query, for which there is room."""
        asker, correlation = query.asker, query.correlation
        key = (asker, correlation)
        actions: list[Execute | Stop] = []
        observes = query.subscription > 0
        if observes:
            before = self._subscribed.get((asker, query.subscription))
            if before is not None:
                if _number(before) > _number(correlation):  # it was overtaken by a later one
                    observes = False
                else:
                    actions += self.end((asker, before))
            observes = observes and self._has_room_to_tell(asker)
        running = _Running(query.subscription if observes else 0, now + query.lease_ms / 1000)
        if observes:
            self._subscribed[asker, query.subscription] = correlation
        self._running[key] = running
        self._count(self._executing, 0, asker, 1)
        deadline = now + query.deadline_ms / 1000
        self._due.set(key, deadline)
        actions.append(Execute(query.request, reply_topic, correlation, deadline, observes))
        return actions

    def answered(self, key: QueryKey, *, goes_on: bool) -> tuple[int, bool] | None:
        """Note an answer: its number, and whether others may follow; None if nobody waits."""
        running = self._running.get(key)
        if running is None:
            return None
        number = running.number
        running.number += 1
        if not goes_on or not running.subscription:
            self.end(key)
            return number, False
        if not running.is_told:
            running.is_told = True
            self._count(self._executing, 0, key[0], -1)
            self._count(self._told, 1, key[0], 1)
            self._due.set(key, running.lease_until)
        return number, True

    def end(self, key: QueryKey, *, is_late: bool = False) -> list[Execute | Stop]:
        """Execute it no longer, nor tell of its changes."""
        running = self._running.pop(key, None)
        if running is None:
            return []
        asker, correlation = key
        self._due.drop(key)
        if running.is_told:
            self._count(self._told, 1, asker, -1)
        else:
            self._count(self._executing, 0, asker, -1)
        subscribed = (asker, running.subscription)
        if self._subscribed.get(subscribed) == correlation:
            del self._subscribed[subscribed]
        return [Stop(key, is_late)]

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing is under way."""
        return self._due.next()

    def handle_timer(self, now: float) -> list[Stop]:
        """End what is past its deadline, or its lease."""
        stops: list[Stop] = []
        for key in self._due.take_due(now):
            is_late = not self._running[key].is_told
            self.end(key)
            stops.append(Stop(key, is_late))
        return stops

    def _has_room_to_tell(self, asker: str) -> bool:
        return (
            self._total[1] < self._limits.told
            and self._told.get(asker, 0) < self._limits.told_of_gateway
        )

    def _count(self, counts: dict[str, int], which: int, asker: str, more: int) -> None:
        self._total[which] += more
        count = counts.get(asker, 0) + more
        if count:
            counts[asker] = count
        else:
            del counts[asker]


def _number(correlation: str) -> tuple[int, int]:
    epoch, _, number = correlation.partition("-")
    if not (epoch.isdecimal() and number.isdecimal()):
        return (0, 0)  # of a gateway that does not sign, which may call it as it likes
    return int(epoch), int(number)
