"""The shell around `tree_handler.remote.query`: who waits for what, what is executed, one timer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol

from gateway.base.due_timer import DueTimer
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.steady_clock import steady_clock
from gateway.coap.remote.reply import NO_REPLY, OnReply, RemoteReply
from tree_handler.errors import ProtocolError
from tree_handler.rate_limit import RateLimit
from tree_handler.remote.query import (
    Execute,
    Lease,
    Publication,
    QueryAnswer,
    RemoteQueries,
    Stop,
    TimedOut,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

LOG_LINES_PER_S = 1.0
"""Of each kind of message that is refused; metrics count them all."""

SendQuery = Callable[[str, str, bytes], None]
"""Takes the gateway that a message is for, its topic and payload; must not wait."""

_log = logging.getLogger(__name__)


class Executor(Protocol):
    """A part that executes requests of other gateways: `LocalExecution.begin`."""

    def begin(
        self,
        request: ResourceRequest,
        via: str,
        tell: Callable[[ResourceResponse, bool], None],
        *,
        observes: bool = False,
    ) -> Callable[[], None]:
        """Execute a request. ``tell`` takes a response, and whether others may follow; the
        result ends it."""


class RemoteExchange:
    """Asks other gateways, and executes what they ask.

    Args:
        queries: the core.
        send: takes messages to other gateways.
        executor: executes a request here, for a gateway that vouches for whom it is.
        clock: tells how long a request was on its way, which it may be while the machine sleeps;
            a `steady_clock` if it is not given.

    """

    def __init__(
        self,
        queries: RemoteQueries,
        send: SendQuery,
        executor: Executor,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.queries = queries
        self._now = clock or steady_clock()
        self._send_to = send
        self._executor = executor
        self._waiting: dict[str, OnReply] = {}
        self._executing: dict[tuple[str, str], Callable[[], None]] = {}
        loop = asyncio.get_running_loop()
        self._timer = DueTimer(loop, self._now, queries.next_timer, self._handle_timer)
        self._failures = Failures(CountedLines(_log, self._now))
        self._lines = RateLimit(LOG_LINES_PER_S, 1)
        self._idle = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Queries of this gateway that may yet be answered."""
        return len(self._waiting)

    def begin(
        self,
        target: tuple[str, int],
        request: ResourceRequest,
        deadline_s: float,
        told: OnReply,
        *,
        peer: Hashable = None,
        lease: Lease | None = None,
    ) -> Callable[[], None]:
        """Have a request executed by another gateway.

        Args:
            target: its id, and the life of it that is known here.
            request: what it shall execute.
            deadline_s: how long to wait.
            told: takes what comes of it, in a later turn.
            peer: the local asker whose share it takes; None for nobody's.
            lease: to be told of changes, too.

        Returns:
            What ends it, here and at the other gateway: nothing is told after that.

        Raises:
            TooManyError: too many queries wait already.
            ProtocolError: the target is no gateway id.

        """
        now = self._now()
        correlation, publication = self.queries.ask(
            target[0], request, now, deadline_s, target[1], peer=peer, lease=lease
        )
        self._waiting[correlation] = told
        if not publication.waits:
            self._send(publication)
        self._timer.set()
        return lambda: self._end(correlation)

    async def ask(
        self, target: str, target_epoch: int, request: ResourceRequest, deadline_s: float
    ) -> ResourceResponse:
        """Have a request executed by another gateway, and wait for its answer; see `begin`.

        Raises:
            TimeoutError: no answer within ``deadline_s`` seconds.
            TooManyError: too many queries wait already.

        """
        answer: asyncio.Future[ResourceResponse] = asyncio.get_running_loop().create_future()

        def told(reply: RemoteReply) -> None:
            if answer.done():
                return
            if reply.response is None:
                answer.set_exception(TimeoutError("no answer in time"))
            else:
                answer.set_result(reply.response)

        end = self.begin((target, target_epoch), request, deadline_s, told)
        try:
            return await answer
        finally:
            end()

    def receive(self, topic: str, payload: bytes, on_the_way: int = 0) -> None:
        """Take a message from one of ``queries.topics``; see `RemoteQueries.receive`."""
        now = self._now()
        try:
            actions = self.queries.receive(topic, payload, now, on_the_way)
        except ProtocolError as error:
            if self._lines.allow(type(error).__name__, now):
                _log.warning("%s: %s", topic, error)
            return
        for action in actions:
            match action:
                case Execute():
                    self._execute(action)
                case Stop(key):
                    self._stop(key)
                case QueryAnswer(correlation, response, goes_on, replaced):
                    self._waiting.pop(replaced, None)
                    self._tell(correlation, RemoteReply(response, goes_on))
                case Publication():
                    self._send(action)
        self._timer.set()

    def moved(self, now: float) -> None:
        """Some gateways may be reached otherwise now, on the clock of the links."""
        for publication in self.queries.moved(self._now()):
            self._send(publication)
        self._timer.set()

    async def idle(self) -> None:
        """Wait until nothing is executed for others any more."""
        while self._executing:
            self._idle.clear()
            await self._idle.wait()

    async def stop(self) -> None:
        """End what is executing and whoever waits."""
        self._timer.stop()
        waiting, self._waiting = self._waiting, {}
        for told in waiting.values():
            told(NO_REPLY)
        for key in list(self._executing):
            self._stop(key)

    def _execute(self, execute: Execute) -> None:
        is_over = False

        def tell(response: ResourceResponse, goes_on: bool) -> None:
            nonlocal is_over
            now = self._now()
            publication = self.queries.answer(execute, response, now, goes_on=goes_on)
            if not goes_on:
                is_over = True
                self._stop(execute.key)
            if publication is not None:
                self._send(publication)
            self._timer.set()

        end = self._executor.begin(execute.request, execute.asker, tell, observes=execute.observes)
        if is_over:
            end()
        else:
            self._executing[execute.key] = end

    def _stop(self, key: tuple[str, str]) -> None:
        end = self._executing.pop(key, None)
        if end is not None:
            end()
            self._idle.set()

    def _tell(self, correlation: str, reply: RemoteReply) -> None:
        told = self._waiting.get(correlation)
        if not reply.goes_on:
            self._waiting.pop(correlation, None)
        if told is not None:
            told(reply)

    def _end(self, correlation: str) -> None:
        self._waiting.pop(correlation, None)
        cancel = self.queries.forget(correlation)
        if cancel is not None:
            self._send(cancel)

    def _send(self, publication: Publication) -> None:
        self._send_to(publication.receiver, publication.topic, publication.payload)

    def _handle_timer(self, now: float) -> None:
        for over in self.queries.handle_timer(now):
            self._failures.tried("end of a query", partial(self._is_over, over))

    def _is_over(self, over: Publication | TimedOut | Stop) -> None:
        match over:
            case Publication():
                self._send(over)
            case TimedOut(correlation):
                self._tell(correlation, NO_REPLY)
            case Stop(key, is_late):
                self._stop(key)
                if is_late:
                    # The asker has given up too: nobody is left to be told.
                    _log.warning("remote query of %s not done in time: %s", *key)
