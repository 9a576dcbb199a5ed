"""Has aiocoap resources answer requests, each in a task, without aiocoap's message layer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiocoap.pipe import Pipe, error_to_message

OnRendered = Callable[[Any, bool], None]
"""Takes a response, and whether it is the last one."""

RefuseByNow = Callable[[], Any]
"""Returns the message for who may not have a resource asked any more; None for who may."""

AT_ONCE: Final = 4
"""So many resources are asked in one turn of the loop: each may take a millisecond."""
STRANGERS_AT_ONCE: Final = 1
"""For strangers, who wait for each other and for nobody else."""

_log = logging.getLogger("coap-server")


class _Turns:
    """Lets few begin in each turn of the loop, so that who else has something to do gets a turn.

    Args:
        at_once: how many.

    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Wait until it is one's turn."""
        loop = asyncio.get_running_loop()
        if self._begun < self._at_once and not self._waiting:
            if not self._begun:
                loop.call_soon(self._next)
            self._begun += 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < self._at_once:
            turn = self._waiting.popleft()
            if not turn.done():  # who waited may have been cancelled
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next)


class Renderings:
    """Requests that a site is answering.

    Args:
        site: an aiocoap site.

    """

    def __init__(self, site: Any) -> None:
        self._site = site
        self._turns = _Turns(AT_ONCE)
        self._turns_of_strangers = _Turns(STRANGERS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self,
        request: Any,
        tell: OnRendered,
        over: Callable[[], None] | None = None,
        *,
        refused_by_now: RefuseByNow | None = None,
        is_stranger: bool = False,
    ) -> Callable[[], None]:
        """Have a request answered: errors of resources are responses, too.

        Args:
            request: an incoming aiocoap message, whole.
            tell: is called with each response, the first one and those to an observer.
            over: is called when the resource does nothing for it any more, for whatever reason.
            refused_by_now: is asked when the request's turn has come; None where nobody is asked.
            is_stranger: whoever asks has a turn with other strangers.

        Returns:
            What ends it: nothing is told after that.

        """
        pipe = Pipe(request, _log)

        def on_event(event: Any) -> bool:
            tell(event.message, event.is_last)
            return not event.is_last

        lose_interest: Callable[[], None] = pipe.on_event(on_event)
        rendered = error_to_message(pipe, _log)
        turns = self._turns_of_strangers if is_stranger else self._turns
        rendering = self._render(rendered, turns, refused_by_now)
        task = asyncio.create_task(rendering, name=f"render {request.code}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if over is not None:
            task.add_done_callback(lambda _: over())
        rendered.on_interest_end(task.cancel)
        return lose_interest

    async def answer(self, request: Any) -> Any:
        """Give the first response to a request."""
        first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def tell(response: Any, _is_last: bool) -> None:
            if not first.done():
                first.set_result(response)

        end = self.begin(request, tell)
        try:
            return await first
        finally:
            end()

    async def stop(self) -> None:
        """End all of them; none is left."""
        for task in self._tasks:
            task.cancel()
        await self.idle()

    async def idle(self) -> None:
        """Wait until there are none any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _render(self, pipe: Any, turns: _Turns, refused_by_now: RefuseByNow | None) -> None:
        await turns.begin()
        try:
            if refused_by_now is not None and (refusal := refused_by_now()) is not None:
                pipe.add_response(refusal, is_last=True)
                return
            await self._site.render_to_pipe(pipe)
        except Exception as failure:  # a resource is a developer's own code: it may raise anything
            pipe.add_exception(failure)
