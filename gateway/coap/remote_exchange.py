"""The shell around `tree_handler.remote_query`: futures, tasks and one timer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tree_handler.errors import ProtocolError
from tree_handler.rate_limit import RateLimit
from tree_handler.remote_message import ResourceRequest, ResourceResponse
from tree_handler.remote_query import Answered, Execute, Publication, RemoteQueries

LOG_LINES_PER_S = 1.0
"""Of each kind of message that is refused; metrics count them all."""

_log = logging.getLogger(__name__)


class RemoteExchange:
    """Asks other gateways, and executes what they ask.

    Args:
        queries: the core.
        publish: takes (topic, payload) to other gateways; must not wait.
        execute: executes a request here, for a gateway that vouches for whom it is.

    """

    def __init__(
        self,
        queries: RemoteQueries,
        publish: Callable[[str, bytes], None],
        execute: Callable[[ResourceRequest, str], Awaitable[ResourceResponse]],
    ) -> None:
        self.queries = queries
        self._publish = publish
        self._execute = execute
        self._waiting: dict[str, asyncio.Future[ResourceResponse]] = {}
        self._executing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._lines = RateLimit(LOG_LINES_PER_S, 1)

    async def ask(
        self, target: str, target_epoch: int, request: ResourceRequest, deadline_s: float
    ) -> ResourceResponse:
        """Have a request executed by another gateway.

        Args:
            target: its id.
            target_epoch: the life of it that is known here.
            request: what it shall execute.
            deadline_s: how long to wait.

        Raises:
            TimeoutError: no answer within ``deadline_s`` seconds.
            TooManyError: too many queries wait already.

        """
        loop = asyncio.get_running_loop()
        correlation, publication = self.queries.ask(
            target, request, loop.time(), deadline_s, target_epoch
        )
        answer: asyncio.Future[ResourceResponse] = loop.create_future()
        self._waiting[correlation] = answer
        try:
            self._send(publication)
            self._schedule()
            return await answer
        finally:
            del self._waiting[correlation]
            self.queries.forget(correlation)

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a message from one of ``queries.topics``."""
        now = asyncio.get_running_loop().time()
        try:
            actions = self.queries.receive(topic, payload, now)
        except ProtocolError as error:
            if self._lines.allow(type(error).__name__, now):
                _log.warning("%s: %s", topic, error)
            return
        for action in actions:
            match action:
                case Execute():
                    task = asyncio.create_task(self._run(action), name=f"query {action.request}")
                    self._executing.add(task)
                    task.add_done_callback(self._executing.discard)
                case Answered():
                    answer = self._waiting.get(action.correlation)
                    if answer is not None and not answer.done():
                        answer.set_result(action.response)
                case Publication():
                    self._send(action)
        self._schedule()

    async def idle(self) -> None:
        """Wait until nothing is executed for others any more."""
        while self._executing:
            await asyncio.wait(self._executing)

    async def stop(self) -> None:
        """End what is executing and whoever waits; nothing is left running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for answer in self._waiting.values():
            answer.cancel()
        tasks = list(self._executing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, execute: Execute) -> None:
        try:
            async with asyncio.timeout_at(execute.deadline_s):
                response = await self._execute(execute.request, execute.asker)
        except TimeoutError:
            # The asker has given up too: nobody is left to be told.
            _log.warning("remote query not done in time: %s", execute.request)
            return
        self._send(self.queries.answer(execute, response))

    def _send(self, publication: Publication) -> None:
        self._publish(publication.topic, publication.payload)

    def _tick(self) -> None:
        self._timer = None
        for timed_out in self.queries.handle_timer(asyncio.get_running_loop().time()):
            answer = self._waiting.get(timed_out.correlation)
            if answer is not None and not answer.done():
                answer.set_exception(TimeoutError("no answer in time"))
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.queries.next_timer()
        if due != float("inf"):
            self._timer = asyncio.get_running_loop().call_at(due, self._tick)
