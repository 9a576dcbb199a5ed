"""Queries and subscriptions that a gateway has sent to others, and who waits for their answers.

Sans-I/O. A query is outstanding until its answer, its deadline, or until nobody waits for it. A
subscription is a query whose answers go on: each has a number, and what is older than the last is
passed over. It has a lease; asking again with its number takes its place at both ends.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from mypy_extensions import mypyc_attr

from light_dataclasses import dataclass
from tree_handler.deadlines import Deadlines
from tree_handler.errors import ProtocolError
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.message import MAX_DEADLINE_MS, MAX_LEASE_MS, Answer
from tree_handler.remote.resource import ResourceResponse

MAX_DEADLINE_S: Final = MAX_DEADLINE_MS / 1000
MAX_LEASE_S: Final = MAX_LEASE_MS / 1000


@mypyc_attr(native_class=False)
class TooManyError(RuntimeError):
    """As many queries are outstanding as may be.

    Attributes:
        retry_after_s: when the first of them is over at the latest.

    """

    def __init__(self, limit: int, retry_after_s: float) -> None:
        super().__init__(f"{limit} remote queries outstanding")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Lease:
    """A wish to be told of changes.

    Attributes:
        subscription: the asker's number of it, from 1; the same for each renewal.
        duration_s: for how long.

    """

    subscription: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """An answer to a query asked here.

    Attributes:
        correlation: of the query.
        response: what came of it.
        goes_on: it is a subscription, and others will follow.
        replaced: the query of that subscription whose place it took; empty for none.

    """

    correlation: str
    response: ResourceResponse
    goes_on: bool = False
    replaced: str = ""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer came in time, or a lease is over."""

    correlation: str


class _Unanswered:
    """One query that waits for answers."""

    __slots__ = ("is_answered", "lease", "number", "peer", "target", "until")

    def __init__(self, target: str, peer: Hashable, lease: Lease | None, until: float) -> None:
        self.target = target
        self.peer = peer
        self.lease = lease
        self.until = until
        """The time when the lease is over."""
        self.number = -1
        """Of the last answer."""
        self.is_answered = False


class Outstanding:
    """All queries of one gateway that wait.

    Args:
        limits: see there.

    """

    def __init__(self, limits: QueryLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._waiting: dict[str, _Unanswered] = {}
        self._due: Deadlines[str] = Deadlines()
        self._of_peer: dict[Hashable, int] = {}
        self._unanswered = 0
        self._subscribed: dict[int, str] = {}
        """The query that is told of now, by the number of the subscription."""

    def check(
        self, now: float, deadline_s: float, peer: Hashable = None, lease: Lease | None = None
    ) -> None:
        """Check that one more may be asked.

        Raises:
            TooManyError: too many wait already.
            ProtocolError: the deadline or the lease is out of range.

        """
        if not 0 < deadline_s <= MAX_DEADLINE_S:
            raise ProtocolError("query deadline, seconds", deadline_s)
        if lease is not None and not 0 < lease.duration_s <= MAX_LEASE_S:
            raise ProtocolError("query lease, seconds", lease.duration_s)
        retry_after_s = max(0.0, min(self._due.next() - now, MAX_DEADLINE_S))
        limits = self._limits
        if self._unanswered >= limits.asked:
            raise TooManyError(limits.asked, retry_after_s)
        if peer is not None and self._of_peer.get(peer, 0) >= limits.asked_of_peer:
            raise TooManyError(limits.asked_of_peer, retry_after_s)
        if (
            lease is not None
            and lease.subscription not in self._subscribed
            and len(self._subscribed) >= limits.subscriptions
        ):
            raise TooManyError(limits.subscriptions, retry_after_s)

    def add(
        self, correlation: str, target: str, now: float, deadline_s: float, peer: Hashable = None
    ) -> None:
        """One more is asked, for which `check` was called."""
        self._add(correlation, _Unanswered(target, peer, None, 0.0), now + deadline_s)

    def subscribe(
        self, correlation: str, target: str, now: float, deadline_s: float, lease: Lease
    ) -> None:
        """Wait for the answer to a subscription."""
        waiting = _Unanswered(target, None, lease, now + lease.duration_s)
        self._add(correlation, waiting, now + deadline_s)

    def forget(self, correlation: str) -> str | None:
        """Nobody waits for answers any more: the gateway to be told so, if it still works on it."""
        waiting = self._waiting.get(correlation)
        if waiting is None:
            return None
        self._drop(correlation, waiting)
        lease = waiting.lease
        if lease is not None and self._subscribed.get(lease.subscription) == correlation:
            del self._subscribed[lease.subscription]
        return waiting.target

    def target_of(self, correlation: str) -> str | None:
        """Return who was asked what is outstanding; None for what is not."""
        waiting = self._waiting.get(correlation)
        return None if waiting is None else waiting.target

    def take(self, answer: Answer) -> QueryAnswer | None:
        """Take an answer of the gateway that was asked; None if it is older than the last."""
        correlation = answer.correlation
        waiting = self._waiting[correlation]
        if answer.number <= waiting.number:
            return None
        waiting.number = answer.number
        lease = waiting.lease
        goes_on = answer.goes_on and lease is not None
        if not goes_on or lease is None:
            self.forget(correlation)
            return QueryAnswer(correlation, answer.response)
        replaced = ""
        if not waiting.is_answered:
            self._answered(waiting)
            self._due.set(correlation, waiting.until)
            before = self._subscribed.get(lease.subscription)
            if before is not None and before in self._waiting:
                replaced = before
                self._drop(before, self._waiting[before])
            self._subscribed[lease.subscription] = correlation
        return QueryAnswer(correlation, answer.response, True, replaced)

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing waits."""
        return self._due.next()

    def handle_timer(self, now: float) -> list[TimedOut]:
        """Give up what is past its deadline, or its lease."""
        over = []
        for correlation in self._due.take_due(now):
            self.forget(correlation)
            over.append(TimedOut(correlation))
        return over

    def _add(self, correlation: str, waiting: _Unanswered, deadline: float) -> None:
        self._waiting[correlation] = waiting
        self._due.set(correlation, deadline)
        self._unanswered += 1
        if waiting.peer is not None:
            self._of_peer[waiting.peer] = self._of_peer.get(waiting.peer, 0) + 1

    def _answered(self, waiting: _Unanswered) -> None:
        if waiting.is_answered:
            return
        waiting.is_answered = True
        self._unanswered -= 1
        peer = waiting.peer
        if peer is not None:
            left = self._of_peer[peer] - 1
            if left:
                self._of_peer[peer] = left
            else:
                del self._of_peer[peer]

    def _drop(self, correlation: str, waiting: _Unanswered) -> None:
        del self._waiting[correlation]
        self._due.drop(correlation)
        self._answered(waiting)
