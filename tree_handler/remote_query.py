"""Requests to resources of other gateways, over topics of the tree (row A6).

Sans-I/O. The asker publishes a query on the target's topic; the target executes it and
publishes the answer on the asker's topic. A correlation id, unique for ever to its asker,
joins the two, and a deadline bounds how long either side remembers it. What stands in the
messages is in `tree_handler.remote_message`.

States of a query at the asker: outstanding, then answered or timed out; an answer in any
other state, or from another gateway than the target, is counted and passed over. At the
target: executing, then answered or past its deadline; a copy of a query that is executing is
counted and not executed again. Where gateways sign (`tree_handler.remote_seals`), what is not
proven is refused, and so is what came before (`tree_handler.asked_before`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from tree_handler.asked_before import AskedBefore, QueryMark, RepeatedError
from tree_handler.errors import ProtocolError
from tree_handler.hierarchy import check_name
from tree_handler.remote_message import (
    MAX_DEADLINE_MS,
    Answer,
    Query,
    ResourceRequest,
    ResourceResponse,
    opened,
)
from tree_handler.remote_seals import ANSWER, QUERY, RemoteSeals, UnprovenError

__all__ = ["ResourceRequest", "ResourceResponse"]

QUERY_TOPIC = "$hedgerow/query/"
REPLY_TOPIC = "$hedgerow/reply/"
MAX_OUTSTANDING = 256
MAX_EXECUTING = 256
MAX_OF_ASKER = 128
"""Queries of one gateway that are executed at one time."""
MAX_DEADLINE_S = MAX_DEADLINE_MS / 1000
SERVICE_UNAVAILABLE = 0xA3
"""CoAP code 5.03 (RFC 7252, 5.9.3.4)."""


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
class Publication:
    """Publish this between gateways, unlogged.

    A logged query could be repaired long after its asker gave up, and be executed then.
    """

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Execute:
    """Execute a request here, then hand the response to `RemoteQueries.answer`.

    Attributes:
        request: what to execute, and for whom.
        reply_topic: where the answer goes.
        correlation: the asker's id of the query.
        deadline_s: when the asker stops waiting, on this gateway's clock.

    """

    request: ResourceRequest
    reply_topic: str
    correlation: str
    deadline_s: float

    @property
    def asker(self) -> str:
        """Id of the gateway that vouches for whom it is."""
        return self.reply_topic.removeprefix(REPLY_TOPIC)


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a query asked here."""

    correlation: str
    response: ResourceResponse


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer came in time."""

    correlation: str


@dataclass(slots=True)
class QueryCounters:
    """What happened, for status and metrics."""

    asked: int = 0
    answered: int = 0
    timed_out: int = 0
    executed: int = 0
    refused: int = 0
    repeated: int = 0
    abandoned: int = 0
    late: int = 0
    unknown: int = 0
    foreign: int = 0
    malformed: int = 0
    unproven: int = 0
    replayed: int = 0


class RemoteQueries:
    """Both ends of remote query for one gateway.

    Args:
        gateway_id: this gateway.
        epoch: its boot epoch: a correlation id must not come again after a restart.
        max_outstanding: queries asked here that wait for their answers.
        max_executing: queries executed here at one time; those beyond get 5.03.
        seals: signs and checks; None where gateways do not sign.

    """

    def __init__(
        self,
        gateway_id: str,
        epoch: int,
        max_outstanding: int = MAX_OUTSTANDING,
        max_executing: int = MAX_EXECUTING,
        seals: RemoteSeals | None = None,
    ) -> None:
        self.gateway_id = check_name("gateway id", gateway_id)
        self.counters = QueryCounters()
        self._epoch = epoch
        self._max_outstanding = max_outstanding
        self._max_executing = max_executing
        self._number = 0
        self._outstanding: dict[str, tuple[str, float]] = {}
        self._executing: dict[tuple[str, str], float] = {}
        self._seals = seals
        self._before = AskedBefore(epoch)

    @property
    def topics(self) -> tuple[str, str]:
        """The topics whose messages `receive` must get."""
        return QUERY_TOPIC + self.gateway_id, REPLY_TOPIC + self.gateway_id

    # -- asking ------------------------------------------------------------------------------

    def ask(
        self,
        target: str,
        request: ResourceRequest,
        now: float,
        deadline_s: float,
        target_epoch: int = 0,
    ) -> tuple[str, Publication]:
        """Ask another gateway; returns the correlation id and what to publish.

        Args:
            target: id of the gateway that owns the resource.
            request: what it shall execute.
            now: the time in seconds.
            deadline_s: how long to wait, in seconds from now.
            target_epoch: the life of that gateway; one that checks it refuses queries for another.

        Raises:
            TooManyError: `max_outstanding` queries wait already.
            ProtocolError: ``target`` is no gateway id or the deadline is out of range.

        """
        check_name("query target", target)
        if not 0 < deadline_s <= MAX_DEADLINE_S:
            raise ProtocolError("query deadline, seconds", deadline_s)
        if len(self._outstanding) >= self._max_outstanding:
            first = min(deadline for _, deadline in self._outstanding.values())
            raise TooManyError(self._max_outstanding, max(0.0, first - now))
        self._number += 1
        correlation = f"{self._epoch}-{self._number}"
        query = Query(
            self.gateway_id,
            correlation,
            math.ceil(deadline_s * 1000),
            request,
            target,
            target_epoch,
            int(now * 1000),
        )
        self._outstanding[correlation] = (target, now + deadline_s)
        self.counters.asked += 1
        return correlation, Publication(QUERY_TOPIC + target, self._said(QUERY, query.encode()))

    def forget(self, correlation: str) -> None:
        """Nobody waits for the answer any more."""
        self._outstanding.pop(correlation, None)

    # -- what comes in -----------------------------------------------------------------------

    def receive(
        self, topic: str, payload: bytes, now: float
    ) -> list[Execute | Answered | Publication]:
        """Take a message from one of `topics`; messages for other gateways are passed over.

        Raises:
            ProtocolError: malformed, not proven, or it came before; the message names what is
                wrong. Counted.

        """
        query_topic, reply_topic = self.topics
        try:
            if topic == query_topic:
                body, signature = opened("query", payload)
                query = Query.decode(body)
                self._check(QUERY, query.asker, body, signature)
                return self._receive_query(query, now)
            if topic == reply_topic:
                body, signature = opened("answer", payload)
                answer = Answer.decode(body)
                self._check(ANSWER, answer.responder, body, signature)
                return self._receive_answer(answer)
        except UnprovenError:
            self.counters.unproven += 1
            raise
        except RepeatedError:
            self.counters.replayed += 1
            raise
        except ProtocolError:
            self.counters.malformed += 1
            raise
        return []

    def answer(self, execute: Execute, response: ResourceResponse) -> Publication:
        """The message that carries the response to an `Execute`."""
        if self._executing.pop((execute.asker, execute.correlation), None) is not None:
            self.counters.executed += 1
        return self._reply(execute.reply_topic, execute.correlation, response)

    # -- time --------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """When `handle_timer` is due; infinity while nothing waits."""
        return min(
            min((deadline for _, deadline in self._outstanding.values()), default=math.inf),
            min(self._executing.values(), default=math.inf),
        )

    def handle_timer(self, now: float) -> list[TimedOut]:
        """Give up what is past its deadline."""
        over = [key for key, (_, deadline) in self._outstanding.items() if deadline <= now]
        for correlation in over:
            del self._outstanding[correlation]
        self.counters.timed_out += len(over)
        for key in [key for key, deadline in self._executing.items() if deadline <= now]:
            del self._executing[key]
            self.counters.abandoned += 1
        return [TimedOut(correlation) for correlation in over]

    # -- within ------------------------------------------------------------------------------

    def _receive_query(self, query: Query, now: float) -> list[Execute | Answered | Publication]:
        reply_topic = REPLY_TOPIC + query.asker
        key = (query.asker, query.correlation)
        if key in self._executing:
            self.counters.repeated += 1
            return []
        if self._seals is not None:
            if query.target == self.gateway_id and query.target_epoch != self._epoch:
                # Its asker has not heard yet that this gateway has restarted, or it is repeated.
                return [self._unavailable(query, b"the gateway has restarted: ask again")]
            self._take_note(query, now)
        if self._is_full_for(query.asker):
            return [self._unavailable(query, b"the gateway executes too many remote queries")]
        deadline = now + query.deadline_ms / 1000
        self._executing[key] = deadline
        return [Execute(query.request, reply_topic, query.correlation, deadline)]

    def _is_full_for(self, asker: str) -> bool:
        if len(self._executing) >= self._max_executing:
            return True
        return sum(key[0] == asker for key in self._executing) >= MAX_OF_ASKER

    def _unavailable(self, query: Query, why: bytes) -> Publication:
        self.counters.refused += 1
        busy = ResourceResponse(SERVICE_UNAVAILABLE, why)
        return self._reply(REPLY_TOPIC + query.asker, query.correlation, busy)

    def _receive_answer(self, answer: Answer) -> list[Execute | Answered | Publication]:
        waiting = self._outstanding.get(answer.correlation)
        if waiting is None:
            if self._was_asked(answer.correlation):
                self.counters.late += 1
            else:
                self.counters.unknown += 1
            return []
        if waiting[0] != answer.responder:
            self.counters.foreign += 1
            return []
        del self._outstanding[answer.correlation]
        self.counters.answered += 1
        return [Answered(answer.correlation, answer.response)]

    def _was_asked(self, correlation: str) -> bool:
        epoch, _, number = correlation.partition("-")
        return (
            epoch == str(self._epoch)
            and number.isascii()
            and number.isdigit()
            and len(number) <= len(str(self._number))
            and 0 < int(number) <= self._number
        )

    def _reply(self, topic: str, correlation: str, response: ResourceResponse) -> Publication:
        answer = Answer(self.gateway_id, correlation, response).encode()
        return Publication(topic, self._said(ANSWER, answer))

    def _said(self, kind: str, body: bytes) -> bytes:
        return body if self._seals is None else self._seals.seal(kind, body)

    def _check(self, kind: str, gateway_id: str, body: bytes, signature: bytes) -> None:
        if self._seals is not None:
            self._seals.check(kind, gateway_id, body, signature)

    def _take_note(self, query: Query, now: float) -> None:
        """Remember a query whose signature is right.

        Raises:
            RepeatedError: it is not to be executed.
            ProtocolError: its correlation is malformed.

        """
        if query.target != self.gateway_id:
            raise RepeatedError("query for another gateway", query.target)
        epoch, number = query.numbers
        asked_s, deadline_s = query.asked_ms / 1000, query.deadline_ms / 1000
        asked = QueryMark(query.asker, epoch, number, asked_s, query.target_epoch, deadline_s)
        self._before.take(asked, now)
