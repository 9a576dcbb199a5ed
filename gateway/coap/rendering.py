"""Has aiocoap resources answer requests, each in a task, without aiocoap's message layer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiocoap.pipe import Pipe, error_to_message

Tell = Callable[[Any, bool], None]
"""Takes a response, and whether it is the last one."""

_log = logging.getLogger("coap-server")


class Renderings:
    """Requests that a site is answering.

    Args:
        site: an aiocoap site.

    """

    def __init__(self, site: Any) -> None:
        self._site = site
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many there are, observations among them."""
        return len(self._tasks)

    def begin(self, request: Any, tell: Tell) -> Callable[[], None]:
        """Have a request answered: errors of resources are responses, too.

        Args:
            request: an incoming aiocoap message, whole.
            tell: is called with each response, the first one and those to an observer.

        Returns:
            What ends it: nothing is told after that.

        """
        pipe = Pipe(request, _log)

        def on_event(event: Any) -> bool:
            tell(event.message, event.is_last)
            return not event.is_last

        lose_interest: Callable[[], None] = pipe.on_event(on_event)
        rendered = error_to_message(pipe, _log)
        task = asyncio.create_task(self._render(rendered), name=f"render {request.code}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
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

    async def idle(self) -> None:
        """Wait until there are none any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _render(self, pipe: Any) -> None:
        try:
            await self._site.render_to_pipe(pipe)
        except Exception as failure:  # a resource is a developer's own code: it may raise anything
            pipe.add_exception(failure)
