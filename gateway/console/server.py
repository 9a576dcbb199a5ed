"""A small HTTP listener for ``/metrics`` and ``/healthz``, over TLS where there is a certificate.

It answers one request a connection, with pages that are made within the call. The size of a
request and the time for all of it are bounded, and so are connections: one that asks nothing makes
room for another (`ConnectionRoom`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import cast

from gateway import event_loop
from gateway.console.pages import HttpRequest, Page, RequestError, plain
from gateway.console.visitors import DenialStatus, Visitors
from gateway.shares.connection_room import ConnectionRoom, Standing
from gateway.shares.failed_attempts import network_of
from gateway.tls.certificates import CertificateError, PeerCertificate, identify
from gateway.tls.context import Tls
from gateway.tls.layer import TlsLayer

CONNECTIONS_MAX = 16
CONNECTIONS_PER_ADDRESS = 8
HEAD_S = 3.0
"""From the connection to the end of the request's head, TLS included."""
TIME_S = 5.0
"""From the connection to the last byte of the answer."""

_log = logging.getLogger(__name__)

PagesByPath = Mapping[str, Callable[[], Page]]
Guest = Callable[[HttpRequest], Awaitable[Page]]
"""Answers whatever is asked below a path, of whoever asks: it decides itself."""


class Console:
    """The listener.

    Args:
        pages: makes the page of each path.
        visitors: decide who may see which; None where everybody may.
        tls: what it shows, and whose certificates it takes; None for HTTP without TLS.

    """

    def __init__(
        self, pages: PagesByPath, visitors: Visitors | None = None, tls: Tls | None = None
    ) -> None:
        self._pages = pages
        self._visitors = visitors
        self._guests: dict[str, Guest] = {}
        self._tls = tls
        self._open: set[_Connection] = set()
        self._room: ConnectionRoom[_Connection] = ConnectionRoom(
            CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS, lambda one: one.standing
        )
        self._server: asyncio.Server | None = None
        self.refused = 0
        """Connections over the limit."""

    async def start(self, host: str, port: int) -> int:
        """Listen.

        Args:
            host: an address of this machine.
            port: 0 takes a free one.

        Returns:
            the port that is listened on.

        Raises:
            OSError: the address is in use or not this machine's.

        """
        self._server = await event_loop.listen(self._accept, host, port, backlog=CONNECTIONS_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more and close what is open."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._open):
            connection.abort()

    def follow(self, tls: Tls | None) -> None:
        """Go by other certificates from the next connection on; TLS neither comes nor goes."""
        if self._tls is not None and tls is not None:
            self._tls = tls

    def _accept(self) -> asyncio.Protocol:
        connection = _Connection(self)
        if self._tls is None:
            return connection
        return TlsLayer(
            connection,
            self._tls.context,
            accepted=connection.accepted,
            secured=connection.secured,
            failed=connection.failed,
        )

    def opened(self, connection: _Connection) -> bool:
        """Count a connection that has come, and return whether it is served."""
        self._open.add(connection)
        for one in self._room.opened(connection, network_of(connection.host)):
            self.refused += 1
            self._open.discard(one)
            if one is not connection:
                one.abort()
        return connection in self._open

    def closed(self, connection: _Connection) -> None:
        """Forget a connection that has gone."""
        self._open.discard(connection)
        self._room.closed(connection)

    def refusal(
        self, request: HttpRequest, host: str, certificate: PeerCertificate | None
    ) -> DenialStatus | Awaitable[DenialStatus]:
        """See `Visitors.refusal`."""
        if self._visitors is None:
            return None
        return self._visitors.refusal(request, host, certificate)

    def serve_below(self, path: str, guest: Guest) -> None:
        """Have somebody answer what is asked below a path, by POST as well."""
        self._guests[path] = guest

    def guest(self, path: str) -> Guest | None:
        """Return who answers at a path by himself; None where `page` does."""
        for begin, guest in self._guests.items():
            if path.startswith(begin):
                return guest
        return None

    def page(self, path: str) -> Page:
        """Return the page at a path, or one that says that there is none."""
        make = self._pages.get(path)
        return plain(HTTPStatus.NOT_FOUND) if make is None else make()


class _Connection(asyncio.Protocol):
    def __init__(self, console: Console) -> None:
        from gateway.console.exchange import HttpExchange  # noqa: PLC0415  # HTTP, for who visits

        self._console = console
        self._exchange = HttpExchange(lambda path: console.guest(path) is not None)
        self._is_asked = False
        self._begun_s = 0.0
        self._answering: asyncio.Task[None] | None = None
        self._raw: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self._certificate: PeerCertificate | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def accepted(self, transport: asyncio.Transport) -> bool:
        self._raw = transport
        if not self._console.opened(self):
            transport.abort()
            return False
        loop = asyncio.get_running_loop()
        self._begun_s = loop.time()
        self._deadline = loop.call_at(self._begun_s + HEAD_S, self.abort)
        return True

    @property
    def standing(self) -> Standing:
        """Whether it has asked; one whose answer nobody reads makes room as well."""
        return Standing.ASKING if self._is_asked else Standing.SILENT

    @property
    def host(self) -> str:
        """The address that it comes from."""
        peer = None if self._raw is None else self._raw.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    def secured(self, der: bytes | None) -> bool:
        if der is not None:
            try:
                self._certificate = identify(der)
            except CertificateError as error:
                _log.debug("a visitor of the console: %s", error)
                return False
        return True

    def failed(self, error: Exception) -> None:
        _log.debug("a visitor of the console: TLS handshake failed: %s", error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if self._raw is not None or self.accepted(made):
            self._transport = made

    def data_received(self, data: bytes) -> None:
        if self._is_asked or self._transport is None:
            return
        try:
            request = self._exchange.feed(data)
        except RequestError as error:
            self._answer(plain(error.status))
            return
        if request is not None:
            self._begin_answer()
            self._serve(request, self.host)

    def _begin_answer(self) -> None:
        self._is_asked = True
        if self._deadline is not None:
            self._deadline.cancel()
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_at(self._begun_s + TIME_S, self.abort)

    def _serve(self, request: HttpRequest, host: str) -> None:
        if (guest := self._console.guest(request.path)) is not None:
            self._answering = asyncio.ensure_future(self._hosted(guest(request)))
            return
        refusal = self._console.refusal(request, host, self._certificate)
        if refusal is None or isinstance(refusal, HTTPStatus):
            self._answer(self._page(request, refusal))
        else:
            self._answering = asyncio.ensure_future(self._decided(request, refusal))

    async def _hosted(self, page: Awaitable[Page]) -> None:
        self._answer(await page)

    async def _decided(self, request: HttpRequest, refusal: Awaitable[DenialStatus]) -> None:
        self._answer(self._page(request, await refusal))

    def _page(self, request: HttpRequest, refusal: DenialStatus) -> Page:
        return self._console.page(request.path) if refusal is None else plain(refusal)

    def _answer(self, page: Page) -> None:
        if not self._is_asked:
            self._begin_answer()
        if self._transport is not None:
            self._transport.write(self._exchange.answer(page))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._console.closed(self)

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()
