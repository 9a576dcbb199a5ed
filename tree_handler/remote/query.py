"""Requests to resources of other gateways, over messages between gateways (row A6).

Sans-I/O. The asker sends a query on the target's topic; the target executes it and sends the answer
on the asker's topic. A correlation id, unique for ever to its asker, joins the two, and a deadline
bounds how long either side remembers it. What stands in the messages is in
`tree_handler.remote.message`; what is remembered in `tree_handler.remote.asking` at the asker and
in `tree_handler.remote.executing` at the target.

What may be lost is sent again (`tree_handler.remote.repeats`). A copy of a query that is executing
is counted and not executed again; one that was answered is answered again, as long as the answer is
kept (`remote.answered`), and is refused after that (`remote.request_memory`). What looks too old
is asked for once more (`remote.admission`).

An answer that nobody waits for, or from another gateway than the target, is counted and passed
over. Where gateways sign (`tree_handler.remote.seals`), what is not proven is refused.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.remote.admission import QueryAdmission
from tree_handler.remote.answered import SentAnswers
from tree_handler.remote.asking import (
    Lease,
    Outstanding,
    QueryAnswer,
    TimedOut,
    TooManyError,
)
from tree_handler.remote.counters import QueryCounters
from tree_handler.remote.executing import (
    REPLY_TOPIC,
    Execute,
    Executions,
    Stop,
)
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.message import Answer, Cancel, Publication, Query, opened
from tree_handler.remote.options import HOP_LIMIT_REACHED, hops_left
from tree_handler.remote.repeats import Repeats, WayTo
from tree_handler.remote.request_memory import RepeatedError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import ANSWER, CANCEL, QUERY, RemoteSeals, UnprovenError

__all__ = [
    "SERVICE_UNAVAILABLE",
    "Execute",
    "Lease",
    "Publication",
    "QueryAnswer",
    "QueryLimits",
    "Stop",
    "TimedOut",
    "TooManyError",
]

QUERY_TOPIC = "$hedgerow/query/"
CANCEL_TOPIC = "$hedgerow/cancel/"
SERVICE_UNAVAILABLE: Final = 0xA3
"""CoAP code 5.03 (RFC 7252, 5.9.3.4)."""
GATEWAY_TIMEOUT: Final = 0xA4
"""CoAP code 5.04 (RFC 7252, 5.9.3.5)."""
_RESTARTED: Final = b"the gateway has restarted: ask again"
_MAY_BE_DONE: Final = b"the gateway has restarted: it may have been carried out before"
_BUSY: Final = b"the gateway executes too many remote queries"
_STALE: Final = b"it was asked too long ago, by the clock of who asked: ask again"


QueryAction = Execute | Stop | QueryAnswer | Publication
"""An action for the shell, after a message came."""


class RemoteQueries:
    """Both ends of remote query for one gateway.

    Args:
        gateway_id: this gateway.
        epoch: its boot epoch: a correlation id must not come again after a restart.
        limits: see there.
        seals: signs and checks; None where gateways do not sign.
        way_to: says how others are reached; None where nothing is sent again.

    """

    def __init__(
        self,
        gateway_id: str,
        epoch: int,
        limits: QueryLimits = DEFAULT_LIMITS,
        seals: RemoteSeals | None = None,
        way_to: WayTo | None = None,
    ) -> None:
        self.gateway_id = check_name("gateway id", gateway_id)
        self.counters = QueryCounters()
        self._epoch = epoch
        self._number = 0
        self._outstanding = Outstanding(limits)
        self._repeats = Repeats(_nowhere if way_to is None else way_to)
        self._way_to = way_to
        self._executions = Executions(limits)
        self._sent = SentAnswers()
        self._seals = seals
        self._admission = QueryAdmission(gateway_id, epoch)

    @property
    def topics(self) -> tuple[str, str, str]:
        """The topics whose messages `receive` must get."""
        own = self.gateway_id
        return QUERY_TOPIC + own, REPLY_TOPIC + own, CANCEL_TOPIC + own

    # -- asking ------------------------------------------------------------------------------

    def ask(
        self,
        target: str,
        request: ResourceRequest,
        now: float,
        deadline_s: float,
        target_epoch: int = 0,
        *,
        peer: Hashable = None,
        lease: Lease | None = None,
    ) -> tuple[str, Publication]:
        """Ask another gateway; returns the correlation id and what to publish.

        Args:
            target: id of the gateway that owns the resource.
            request: what it shall execute.
            now: the time in seconds.
            deadline_s: how long to wait, in seconds from now.
            target_epoch: the life of that gateway; one that checks it refuses queries for another.
            peer: the local asker whose share it takes; None for nobody's.
            lease: to be told of changes, too.

        With a Hop-Limit it does not go to all, where nobody would count: what is to be published
        waits until the target's place is known, and comes from `moved` then.

        Raises:
            TooManyError: too many wait already.
            ProtocolError: ``target`` is no gateway id, or a time is out of range.

        """
        check_name("query target", target)
        self._outstanding.check(now, deadline_s, peer, lease)
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
            0 if lease is None else lease.subscription,
            0 if lease is None else math.ceil(lease.duration_s * 1000),
        )
        if lease is None:
            self._outstanding.add(correlation, target, now, deadline_s, peer)
        else:
            self._outstanding.subscribe(correlation, target, now, deadline_s, lease)
        self._repeats.add(query, now)
        self.counters.asked += 1
        return correlation, replace(self._asking(query), waits=self._waits(query))

    def forget(self, correlation: str) -> Publication | None:
        """Nobody waits for answers any more: what tells the target so, if it still works on it."""
        self._repeats.end(correlation)
        target = self._outstanding.forget(correlation)
        if target is None:
            return None
        cancel = Cancel(self.gateway_id, correlation).encode()
        return Publication(CANCEL_TOPIC + target, self._said(CANCEL, cancel))

    # -- what comes in -----------------------------------------------------------------------

    def receive(
        self, topic: str, payload: bytes, now: float, on_the_way: int = 0
    ) -> list[QueryAction]:
        """Take a message from one of `topics`; messages for other gateways are passed over.

        Args:
            topic: of it.
            payload: what it says.
            now: the time in seconds.
            on_the_way: how many gateways have passed it on; 0 where that is not known.

        Raises:
            ProtocolError: malformed, not proven, or it came before; the message names what is
                wrong. Counted.

        """
        query_topic, reply_topic, cancel_topic = self.topics
        try:
            if topic == query_topic:
                body, signature = opened("query", payload)
                query = Query.decode(body)
                self._check(QUERY, query.asker, body, signature)
                return self._receive_query(query, now, on_the_way)
            if topic == reply_topic:
                body, signature = opened("answer", payload)
                answer = Answer.decode(body)
                self._check(ANSWER, answer.responder, body, signature)
                return self._receive_answer(answer, now)
            if topic == cancel_topic:
                body, signature = opened("cancel", payload)
                cancel = Cancel.decode(body)
                self._check(CANCEL, cancel.asker, body, signature)
                return self._receive_cancel(cancel)
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

    def moved(self, now: float) -> list[Publication]:
        """Some gateways may be reached otherwise now: what is sent again."""
        return self._ask_again(self._repeats.moved(now))

    def answer(
        self, execute: Execute, response: ResourceResponse, now: float, *, goes_on: bool = False
    ) -> Publication | None:
        """Return the message that carries a response to an `Execute`; None if nobody waits for it.

        Args:
            execute: what was executed.
            response: what came of it, or has changed since.
            now: the time in seconds.
            goes_on: changes will be told of, where that is wanted.

        """
        noted = self._executions.answered(execute.key, goes_on=goes_on)
        if noted is None:
            return None
        number, goes_on = noted
        if number:
            self.counters.notified += 1
        else:
            self.counters.executed += 1
        answer = Answer(self.gateway_id, execute.correlation, response, number, goes_on)
        reply = self._reply(execute.reply_topic, answer)
        self._sent.note(execute, reply, now, is_first=not number)
        return reply

    # -- time --------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing waits."""
        asked = min(self._outstanding.next_timer(), self._repeats.next_timer())
        return min(asked, self._executions.next_timer(), self._sent.next_timer())

    def handle_timer(self, now: float) -> list[TimedOut | Stop | Publication]:
        """Give up what is past its deadline, or its lease; send again what may be lost."""
        due: list[TimedOut | Stop | Publication] = []
        for over in self._outstanding.handle_timer(now):
            self.counters.timed_out += 1
            self._repeats.end(over.correlation)
            due.append(over)
        for stop in self._executions.handle_timer(now):
            self.counters.abandoned += stop.is_late
            due.append(stop)
        self._sent.handle_timer(now)
        due += self._ask_again(self._repeats.handle_timer(now))
        return due

    # -- within ------------------------------------------------------------------------------

    def _receive_query(self, query: Query, now: float, on_the_way: int) -> list[QueryAction]:
        key = (query.asker, query.correlation)
        answer = self._sent.again(key)
        if answer is not None:
            self.counters.answered_again += 1
            return [answer]
        if key in self._executions:
            self.counters.repeated += 1
            return []
        refusal = self._of_another_life(query) or self._of_another_time(query, now)
        if refusal is not None:
            return [refusal]
        why = self._why_not(query, on_the_way)
        if why is not None:
            refusal = self._refused(query, *why)
            self._sent.note_refusal(query, refusal, now)
            return [refusal]
        return [*self._executions.begin(query, REPLY_TOPIC + query.asker, now)]

    def _of_another_life(self, query: Query) -> Publication | None:
        """Refuse a query that is meant for an earlier life of this gateway; None if it is not.

        Its asker has not heard yet that this gateway has restarted, or the query is repeated.
        """
        is_checked = self._seals is not None or query.again > 0
        if not is_checked or query.target != self.gateway_id or query.target_epoch == self._epoch:
            return None
        if query.again and query.request.writes:
            return self._refused(query, GATEWAY_TIMEOUT, _MAY_BE_DONE)
        return self._refused(query, SERVICE_UNAVAILABLE, _RESTARTED)

    def _of_another_time(self, query: Query, now: float) -> Publication | None:
        """Take note of a query; return what asks for it once more if it looks too old, else None.

        Raises:
            ProtocolError: it is not to be executed.

        """
        if self._seals is None and query.target != self.gateway_id:
            return None
        target_epoch = self._epoch if self._seals is None else query.target_epoch
        challenge = self._admission.take(query, target_epoch, now)
        if not challenge:
            return None
        self.counters.challenged += 1
        # A copy that is under way may be carried out: of a write nothing is promised.
        code = GATEWAY_TIMEOUT if query.request.writes else SERVICE_UNAVAILABLE
        return self._refused(query, code, _STALE, challenge)

    def _why_not(self, query: Query, on_the_way: int) -> tuple[int, bytes] | None:
        """Code and text for a query that is not to be executed; None if it is."""
        left = hops_left(query.request.options)
        if left is not None and left <= on_the_way:
            return HOP_LIMIT_REACHED, self.gateway_id.encode()  # RFC 8768, section 4
        if self._executions.is_full_for(query.asker):
            return SERVICE_UNAVAILABLE, _BUSY
        return None

    def _receive_cancel(self, cancel: Cancel) -> list[QueryAction]:
        stops = self._executions.end((cancel.asker, cancel.correlation))
        self.counters.cancelled += len(stops)
        return [*stops]

    def _refused(self, query: Query, code: int, why: bytes, challenge: int = 0) -> Publication:
        self.counters.refused += 1
        response = ResourceResponse(code, why)
        answer = Answer(self.gateway_id, query.correlation, response, challenge=challenge)
        return self._reply(REPLY_TOPIC + query.asker, answer)

    def _receive_answer(self, answer: Answer, now: float) -> list[QueryAction]:
        target = self._outstanding.target_of(answer.correlation)
        if target is None:
            if self._was_asked(answer.correlation):
                self.counters.late += 1
            else:
                self.counters.unknown += 1
            return []
        if target != answer.responder:
            self.counters.foreign += 1
            return []
        if answer.challenge:
            again = self._repeats.challenged(answer.correlation, answer.challenge, now)
            return [*self._ask_again([query for query in again if not self._waits(query)])]
        answered = self._outstanding.take(answer)
        if answered is None:
            self.counters.late += 1
            return []
        self._repeats.end(answer.correlation)
        if answer.number == 0:
            self.counters.answered += 1
        return [answered]

    def _was_asked(self, correlation: str) -> bool:
        epoch, _, number = correlation.partition("-")
        return (
            epoch == str(self._epoch)
            and number.isascii()
            and number.isdigit()
            and len(number) <= len(str(self._number))
            and 0 < int(number) <= self._number
        )

    def _ask_again(self, queries: list[Query]) -> list[Publication]:
        self.counters.asked_again += len(queries)
        return [self._asking(query) for query in queries]

    def _waits(self, query: Query) -> bool:
        if self._way_to is None or hops_left(query.request.options) is None:
            return False
        return self._way_to(query.target) is None

    def _asking(self, query: Query) -> Publication:
        return Publication(QUERY_TOPIC + query.target, self._said(QUERY, query.encode()))

    def _reply(self, topic: str, answer: Answer) -> Publication:
        return Publication(topic, self._said(ANSWER, answer.encode()))

    def _said(self, kind: str, body: bytes) -> bytes:
        return body if self._seals is None else self._seals.seal(kind, body)

    def _check(self, kind: str, gateway_id: str, body: bytes, signature: bytes) -> None:
        if self._seals is not None:
            self._seals.check(kind, gateway_id, body, signature)


def _nowhere(_gateway_id: str) -> None:
    return None
