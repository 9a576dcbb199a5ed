"""The CoAP server of a gateway: one site over plain UDP and over DTLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiocoap.protocol import Context

from dtls.context import ServerContext
from dtls.datagrams import listen
from dtls.endpoint import DEFAULT_LIMITS, EndpointCounters, EndpointLimits
from dtls.errors import SocketError
from dtls.keystore import Keystore
from dtls.transport import DtlsTransport
from gateway.coap.access import GuardedSite
from gateway.coap.message_layer import attach
from gateway.coap.udp import UdpTransport


@dataclass(frozen=True, slots=True)
class CoapListener:
    """One port that is listened on.

    Attributes:
        hosts: numeric addresses; ``0.0.0.0`` and ``::`` for all.
        port: 0 for one that is free at all of them.

    """

    hosts: Sequence[str]
    port: int

    def open(self, scheme: str) -> list[socket.socket]:
        """Bind its sockets; see `dtls.datagrams.listen`."""
        return listen(self.hosts, self.port, scheme)


class CoapServer:
    """Serves an aiocoap site; writes need an authenticated peer.

    Args:
        site: an `aiocoap.resource.Site`. ``request.remote.identity`` tells who asks.
        coap: where plain CoAP is; None for none.
        coaps: where CoAP over DTLS is; None for none.
        keystore: keys of the peers that may connect over DTLS.
        anonymous: let anybody write over plain CoAP too.
        limits: how much DTLS peers may take.

    """

    def __init__(
        self,
        site: Any,
        *,
        coap: CoapListener | None,
        coaps: CoapListener | None,
        keystore: Keystore,
        anonymous: bool = False,
        limits: EndpointLimits = DEFAULT_LIMITS,
    ) -> None:
        self._site = GuardedSite(site, anonymous=anonymous)
        self._asked = (coap, coaps)
        self._keystore = keystore
        self._limits = limits
        self._context: Context | None = None
        self._udp: UdpTransport | None = None
        self._dtls: DtlsTransport | None = None

    @property
    def coap_port(self) -> int | None:
        """The port of plain CoAP; None if there is none, or before `start`."""
        return None if self._udp is None else self._udp.port

    @property
    def coaps_port(self) -> int | None:
        """The port of CoAP over DTLS; None if there is none, or before `start`."""
        return None if self._dtls is None else self._dtls.port

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are open, by scheme."""
        ports = {"coap": self.coap_port, "coaps": self.coaps_port}
        return {scheme: port for scheme, port in ports.items() if port is not None}

    @property
    def counters(self) -> EndpointCounters | None:
        """What the DTLS endpoint counted; None if there is none."""
        return None if self._dtls is None else self._dtls.counters

    def peers(self) -> dict[str, int]:
        """Who is there: with something open, and with a session over DTLS; and what is open."""
        return {
            "asking": self._site.peers,
            "open_requests": self._site.open_requests,
            "dtls_sessions": 0 if self._dtls is None else self._dtls.sessions,
        }

    async def start(self) -> None:
        """Open both ports.

        Raises:
            dtls.errors.SocketError: an address can't be listened at; none is open then.

        """
        assert self._context is None, "started already"
        coap, coaps = self._asked
        plain = [] if coap is None else coap.open("coap")
        try:
            secure = [] if coaps is None else coaps.open("coaps")
        except SocketError:
            for sock in plain:
                sock.close()
            raise
        context = Context(
            loop=asyncio.get_running_loop(), serversite=self._site, loggername="coap-server"
        )
        if plain:
            self._udp = attach(context, lambda messages: UdpTransport(plain, messages))
        if secure:
            keys = ServerContext(self._keystore.key_of)
            self._dtls = attach(
                context, lambda messages: DtlsTransport(secure, keys, messages, self._limits)
            )
        self._context = context

    async def stop(self) -> None:
        """End sessions and observations, close the ports, leave no task behind."""
        context, self._context = self._context, None
        if context is None:
            return
        if context.request_interfaces:
            await context.shutdown()
        await self._site.idle()
        self._udp = self._dtls = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
