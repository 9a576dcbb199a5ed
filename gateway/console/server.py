"""A small HTTP listener for ``/metrics`` and ``/healthz``.

It answers one request a connection, with pages that are made within the call. Connections, the
size of a request and the time for all of it are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from gateway.console.request import METHODS, RequestError, parse

CONNECTIONS_MAX = 16
TIME_S = 5.0
"""From the connection to the last byte of the answer."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    content_type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Page]]


class Console:
    """The listener.

    Args:
        pages: by path.

    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._exchanges: set[_Exchange] = set()
        self._server: asyncio.Server | None = None
        self.refused = 0
        """Connections over the limit."""

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one.

        Raises:
            OSError: the address is in use or not this machine's.

        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, backlog=CONNECTIONS_MAX)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more and close what is open."""
        if self._server is not None:
            self._server.close()
        for exchange in list(self._exchanges):
            exchange.abort()

    def _accept(self) -> asyncio.Protocol:
        return _Exchange(self)

    def opened(self, exchange: _Exchange) -> bool:
        """A connection has come; whether it is served."""
        if len(self._exchanges) >= CONNECTIONS_MAX:
            self.refused += 1
            return False
        self._exchanges.add(exchange)
        return True

    def closed(self, exchange: _Exchange) -> None:
        """A connection has gone."""
        self._exchanges.discard(exchange)

    def page(self, path: str) -> Page:
        """The page at a path."""
        make = self._pages.get(path)
        return _plain(HTTPStatus.NOT_FOUND) if make is None else make()


class _Exchange(asyncio.Protocol):
    def __init__(self, console: Console) -> None:
        self._console = console
        self._data = b""
        self._is_answered = False
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._console.opened(self):
            self._transport.abort()
            return
        self._deadline = asyncio.get_running_loop().call_later(TIME_S, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._data += data
        try:
            request = parse(self._data)
        except RequestError as error:
            self._answer(_plain(error.status), has_body=True)
            return
        if request is not None:
            self._answer(self._console.page(request.path), has_body=request.method == "GET")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._console.closed(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, page: Page, *, has_body: bool) -> None:
        assert self._transport is not None
        self._is_answered = True
        lines = [
            f"HTTP/1.1 {page.status.value} {page.status.phrase}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(page.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append(f"Allow: {', '.join(METHODS)}")
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        self._transport.write(head + page.body if has_body else head)
        self._transport.close()


def _plain(status: HTTPStatus) -> Page:
    return Page("text/plain; charset=utf-8", f"{status.phrase}\n".encode(), status)
