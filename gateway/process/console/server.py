"""A small HTTP listener for ``/metrics`` and ``/healthz``, over TLS where there is a certificate.

It answers one request a connection, with pages that are made within the call. The size of a
request and the time for all of it are bounded, and so are connections: one that asks nothing makes
room for another (`ConnectionRoom`). Where the gateway has a page for browsers (`WebFace`), that
answers all other paths, connections go on behind an answer, and an answer may be waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

from gateway.base import event_loop
from gateway.process.console.page_access import DenialStatus, PageAccess
from gateway.process.console.pages import HttpRequest, Page, RequestError, plain
from gateway.trust.shares.connection_room import ConnectionRoom, ConnectionStage
from gateway.trust.shares.failed_attempts import network_of
from gateway.trust.tls.peer_certificate import CertificateError, PeerCertificate

if TYPE_CHECKING:
    from gateway.process.console.exchange import ExchangeRules
    from gateway.trust.tls.context import Tls

CONNECTIONS_MAX = 16
CONNECTIONS_PER_ADDRESS = 8
HEAD_S = 3.0
"""From the connection to the end of the request's head, TLS included."""
TIME_S = 5.0
"""From the connection to the last byte of the answer."""
WEB_CONNECTIONS_MAX = 64
"""With a page: a browser has up to six."""
CONNECTIONS_PER_VISITOR = 16
"""Connections of one who has logged in: they stay, while further ones make room as a stranger's
do."""
BODY_S = 10.0
"""With a page, from the first byte of a request to its last, TLS included."""
ANSWER_S = 40.0
"""With a page, from a request to its answer: some wait for news."""
READ_S = 20.0
"""With a page, for the reader of an answer to read it."""
IDLE_S = 30.0
"""With a page, from an answer that is read to the next request."""

_log = logging.getLogger(__name__)

PagesByPath = Mapping[str, Callable[[], Page]]
Guest = Callable[[HttpRequest], Awaitable[Page]]
"""Answers whatever is asked below a path, of whoever asks: it decides itself."""


class WebFace(Protocol):
    """A page for browsers, with all that it asks for."""

    rules: ExchangeRules
    """The rules for what a connection may ask."""

    def answer(self, request: HttpRequest, host: str) -> Page | Awaitable[Page]:
        """Answer a request.

        Args:
            request: it.
            host: the address that it comes from.

        """

    def knows(self, request: HttpRequest) -> str:
        """Return who its sender is; empty for who has not logged in."""


class Console:
    """The listener.

    Args:
        pages: makes the page of each path.
        visitors: decide who may see which; None where everybody may.
        tls: what it shows, and whose certificates it takes; None for HTTP without TLS.
        web: answers all other paths; None where nothing does.

    Attributes:
        web: as given.

    """

    def __init__(
        self,
        pages: PagesByPath,
        visitors: PageAccess | None = None,
        tls: Tls | None = None,
        web: WebFace | None = None,
    ) -> None:
        self.web = web
        self._pages = pages
        self._visitors = visitors
        self._guests: dict[str, Guest] = {}
        self._tls = tls
        self._open: set[_Connection] = set()
        self._room: ConnectionRoom[_Connection] = ConnectionRoom(
            CONNECTIONS_MAX if web is None else WEB_CONNECTIONS_MAX,
            CONNECTIONS_PER_ADDRESS,
            lambda one: one.standing,
        )
        self._server: asyncio.Server | None = None
        self._visitors_open: Counter[str] = Counter()
        self.refused = 0
        """Connections over the limit."""

    @property
    def connections(self) -> int:
        """Return how many are open."""
        return len(self._open)

    async def start(self, host: str, port: int, *, hops: int | None = None) -> int:
        """Listen.

        Args:
            host: an address of this machine.
            port: 0 takes a free one.
            hops: so far answers go, as of `event_loop.listen`.

        Returns:
            the port that is listened on.

        Raises:
            OSError: the address is in use or not this machine's.

        """
        accepted = (lambda: _Connection(self)) if self._tls is None else self._in_tls()
        self._server = await event_loop.listen(
            accepted, host, port, backlog=CONNECTIONS_MAX, hops=hops
        )
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

    def _in_tls(self) -> Callable[[], asyncio.Protocol]:
        """Return what makes a connection inside TLS."""
        from gateway.trust.tls.certificates import identify  # noqa: PLC0415  # only where there is one
        from gateway.trust.tls.layer import TlsLayer  # noqa: PLC0415  # as above

        def accepted() -> asyncio.Protocol:
            connection, tls = _Connection(self), self._tls
            assert tls is not None

            def secured(der: bytes | None) -> bool:
                try:
                    connection.certificate = None if der is None else identify(der)
                except CertificateError as error:
                    _log.debug("a visitor of the console: %s", error)
                    return False
                return True

            return TlsLayer(
                connection,
                tls.context,
                accepted=connection.accepted,
                secured=secured,
                failed=connection.failed,
            )

        return accepted

    def opened(self, connection: _Connection) -> bool:
        """Count a connection that has come, and return whether it is served."""
        self._open.add(connection)
        for one in self._room.opened(connection, network_of(connection.host)):
            self.refused += 1
            self.closed(one)
            if one is not connection:
                one.abort()
        return connection in self._open

    def has_come(self, visitor: str) -> bool:
        """Count a connection of who has logged in, and return whether it stays."""
        if self._visitors_open[visitor] >= CONNECTIONS_PER_VISITOR:
            return False
        self._visitors_open[visitor] += 1
        return True

    def closed(self, connection: _Connection) -> None:
        """Forget a connection that has gone."""
        if connection in self._open and connection.visitor:
            self._visitors_open[connection.visitor] -= 1
            self._visitors_open += Counter()  # those of whom none is left are forgotten
        self._open.discard(connection)
        self._room.closed(connection)

    def refusal(
        self, request: HttpRequest, host: str, certificate: PeerCertificate | None
    ) -> DenialStatus | Awaitable[DenialStatus]:
        """Return why a request is refused, or None: see `PageAccess.refusal`."""
        if self._visitors is None:
            return None
        return self._visitors.refusal(request, host, certificate)

    def serve_below(self, path: str, guest: Guest) -> None:
        """Have somebody answer what is asked below a path, by POST as well."""
        self._guests[path] = guest

    def guest(self, path: str) -> Guest | None:
        """Return who answers at a path by himself; None where `page` or the web face does."""
        for begin, guest in self._guests.items():
            if path.startswith(begin):
                return guest
        return None

    def is_for_browsers(self, path: str) -> bool:
        """Return whether a path is the page's, which decides itself who may see what."""
        return self.web is not None and path not in self._pages

    def page(self, path: str) -> Page:
        """Return the page at a path, or one that says that there is none."""
        make = self._pages.get(path)
        return plain(HTTPStatus.NOT_FOUND) if make is None else make()


class _Connection(asyncio.Protocol):
    def __init__(self, console: Console) -> None:
        from gateway.process.console.exchange import ONE_LOOK, HttpExchange  # noqa: PLC0415  # HTTP, for who visits

        self._console = console
        web = console.web
        rules = ONE_LOOK if web is None else web.rules
        self._exchange = HttpExchange(rules, lambda path: console.guest(path) is not None)
        self._is_asked = False
        self.visitor = ""
        """The visitor that has logged in there, and has a connection that stays."""
        self._is_read = True
        """True if its reader has read all that was written."""
        self._early = b""
        self._begun_s = 0.0
        self._answering: asyncio.Task[None] | None = None
        self._raw: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self.certificate: PeerCertificate | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def accepted(self, transport: asyncio.Transport) -> bool:
        self._raw = transport
        if not self._console.opened(self):
            transport.abort()
            return False
        self._begun_s = asyncio.get_running_loop().time()
        self._due(HEAD_S if self._console.web is None else BODY_S)
        return True

    @property
    def standing(self) -> ConnectionStage:
        """Return the progress of the connection; one whose answer nobody reads makes room too."""
        if self.visitor:
            return ConnectionStage.ACCEPTED
        return ConnectionStage.ASKING if self._is_asked else ConnectionStage.SILENT

    @property
    def host(self) -> str:
        """The address that it comes from."""
        peer = None if self._raw is None else self._raw.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    def failed(self, error: Exception) -> None:
        _log.debug("a visitor of the console: TLS handshake failed: %s", error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if self._raw is not None or self.accepted(made):
            self._transport = made
            if self._console.web is not None:
                made.set_write_buffer_limits(0)  # to be told when an answer is read

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        if self._is_asked:
            self._keep_for_later(data)
            return
        if not self._exchange.is_begun and self._begun_s == 0.0:
            self._due(BODY_S)  # behind an answer
        self._read(lambda: self._exchange.feed(data))

    def _keep_for_later(self, data: bytes) -> None:
        """Read no more until an answer is there: what is sent ahead of it waits in the kernel."""
        if self._console.web is not None and self._transport is not None:
            self._early += data
            self._transport.pause_reading()

    def _read(self, read: Callable[[], HttpRequest | None]) -> None:
        try:
            request = read()
        except RequestError as error:
            self._answer(plain(error.status), is_last=True)
            return
        if request is not None:
            self._begin_answer()
            self._serve(request, self.host)

    def _due(self, after_s: float) -> None:
        """Have the connection end after so many seconds, and not when was said before."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(after_s, self.abort)

    def _begin_answer(self) -> None:
        self._is_asked = True
        if self._console.web is not None:
            self._due(ANSWER_S)
        else:
            left_s = self._begun_s + TIME_S - asyncio.get_running_loop().time()
            self._due(max(0.0, left_s))

    def _serve(self, request: HttpRequest, host: str) -> None:
        if (guest := self._console.guest(request.path)) is not None:
            self._answering = asyncio.ensure_future(self._waited_for(guest(request)))
            return
        web = self._console.web
        if web is not None and self._console.is_for_browsers(request.path):
            if not self.visitor and (known := web.knows(request)) and self._console.has_come(known):
                self.visitor = known
            page = web.answer(request, host)
            if isinstance(page, Page):
                self._answer(page)
            else:
                self._answering = asyncio.ensure_future(self._waited_for(page))
            return
        refusal = self._console.refusal(request, host, self.certificate)
        if refusal is None or isinstance(refusal, HTTPStatus):
            self._answer(self._page(request, refusal))
        else:
            self._answering = asyncio.ensure_future(self._decided(request, refusal))

    async def _waited_for(self, page: Awaitable[Page]) -> None:
        try:
            made = await page
        except Exception:
            _log.exception("a page could not be made")
            made = plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._answer(made)

    async def _decided(self, request: HttpRequest, refusal: Awaitable[DenialStatus]) -> None:
        self._answer(self._page(request, await refusal))

    def _page(self, request: HttpRequest, refusal: DenialStatus) -> Page:
        return self._console.page(request.path) if refusal is None else plain(refusal)

    def _answer(self, page: Page, *, is_last: bool = False) -> None:
        if not self._is_asked:
            self._begin_answer()
        if self._transport is None:
            return
        is_last = is_last or self._console.web is None
        if not is_last:
            self._due(READ_S)
        self._transport.write(self._exchange.answer(page, is_last=is_last))
        if self._exchange.goes_on:
            self._go_on()
        else:
            self._transport.close()

    def _go_on(self) -> None:
        """Wait for the next request, for as long as such a connection may be idle.

        It is not looked at before the answer to this one has been read: who asks and does not read
        has one answer waiting.
        """
        self._answering, self._begun_s = None, 0.0
        if self._is_read:
            self._due(IDLE_S)
            # In a later turn: who sends many requests at once takes its turns among others.
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._transport is None or self._is_closing:
            return
        self._is_asked = False
        early, self._early = self._early, b""
        if early:
            self._transport.resume_reading()
        self._read(self._exchange.again)
        if early:
            self.data_received(early)

    def pause_writing(self) -> None:
        self._is_read = False

    def resume_writing(self) -> None:
        self._is_read = True
        if self._console.web is not None and self._exchange.goes_on:
            self._go_on()

    @property
    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._console.closed(self)

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()
