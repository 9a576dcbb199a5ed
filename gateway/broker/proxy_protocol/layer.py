"""The layer on a socket until a proxy has said from where the connection came.

A connection of an address that is named as a proxy's must begin with a header, within `HEADER_S`;
then what serves the listener takes over, over a transport that tells the client's address as its
peer's. All others are served as they are: a header of theirs is no MQTT, TLS or HTTP.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.timers import Alarm, Timers
from gateway.broker.proxy_protocol.header import HeaderReader, ProxyHeader, ProxyHeaderError

ProxyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

HEADER_S: Final = 5.0
"""A proxy sends its header with its first segment; one that is lost comes again after 3 s."""
WAITING_MAX: Final = 1_000
"""Connections without their header; one more is closed."""
REFUSED: Final = "connection with a wrong PROXY header"
SILENT: Final = "connection without PROXY header"
TOO_MANY: Final = "connection over the limit of those without PROXY header"


class Proxies:
    """The proxies that a listener has in front of it.

    Args:
        networks: their addresses.
        refusals: is told what was refused.
        timers: the event loop.

    Attributes:
        refusals, timers: as given.

    """

    def __init__(
        self, networks: Iterable[ProxyNetwork], refusals: CountedLines, timers: Timers
    ) -> None:
        self._networks = tuple(networks)
        self._waiting = 0
        self.refusals = refusals
        self.timers = timers

    def has(self, address: str) -> bool:
        """Return whether an address is one of theirs."""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = parsed.ipv4_mapped if parsed.version == 6 else None
        return any((mapped or parsed) in network for network in self._networks)

    def begins(self) -> bool:
        """Count a connection that has no header yet; False if they are too many."""
        if self._waiting >= WAITING_MAX:
            return False
        self._waiting += 1
        return True

    def ended(self) -> None:
        """It has its header, or has gone."""
        self._waiting -= 1


class ProxiedConnection(asyncio.Protocol):
    """One connection of a listener that has proxies in front of it.

    Args:
        proxies: which.
        serve: makes what serves the connection itself.

    """

    def __init__(self, proxies: Proxies, serve: Callable[[], asyncio.Protocol]) -> None:
        self._proxies = proxies
        self._serve = serve
        self._reader = HeaderReader()
        self._transport: asyncio.Transport | None = None
        self._address = "?"
        self._deadline: Alarm | None = None
        """Runs while the header is waited for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = made = cast(asyncio.Transport, transport)
        self._address = str((made.get_extra_info("peername") or ("?",))[0])
        if not self._proxies.has(self._address):
            self._hand_over(made, made, b"")
        elif self._proxies.begins():
            silent = partial(self._refuse, SILENT)
            self._deadline = self._proxies.timers.call_later(HEADER_S, silent)
        else:
            self._refuse(TOO_MANY)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        transport = self._transport
        if transport is None or self._deadline is None:
            return
        try:
            header = self._reader.receive(data)
        except ProxyHeaderError as error:
            self._refuse(REFUSED, str(error))
            return
        if header is not None:
            self._waits_no_more()
            self._hand_over(transport, _told(transport, header), header.rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        self._waits_no_more()

    def _refuse(self, kind: str, why: str = "") -> None:
        who = f"{self._address}: {why}" if why else self._address
        self._proxies.refusals.count(kind, who)
        self._waits_no_more()
        if self._transport is not None:
            self._transport.abort()

    def _waits_no_more(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()
            self._proxies.ended()

    def _hand_over(
        self, transport: asyncio.Transport, shown: asyncio.Transport, rest: bytes
    ) -> None:
        serving = self._serve()
        self._transport = None
        transport.set_protocol(serving)
        serving.connection_made(shown)
        if rest and not transport.is_closing():
            serving.data_received(rest)


def _told(transport: asyncio.Transport, header: ProxyHeader) -> asyncio.Transport:
    if header.source is None:
        return transport
    return ProxiedTransport(transport, header.source)


class ProxiedTransport(asyncio.Transport):
    """A transport that tells another address as its peer's.

    Args:
        below: the proxy's.
        source: address and port of the client.

    """

    def __init__(self, below: asyncio.Transport, source: tuple[str, int]) -> None:
        super().__init__()
        self._below = below
        self._source = source

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport below knows, but for the peer's address."""
        return self._source if name == "peername" else self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether it is closing or closed."""
        return self._below.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Serve another protocol from now on."""
        self._below.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return what it serves."""
        return self._below.get_protocol()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is told to pause."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return bytes that are not sent yet."""
        return self._below.get_write_buffer_size()

    def is_reading(self) -> bool:
        """Return whether it reads."""
        return self._below.is_reading()

    def pause_reading(self) -> None:
        """Do not read for now."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._below.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        self._below.write(data)

    def can_write_eof(self) -> bool:
        """Return whether one side can be closed."""
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        """Close this side."""
        self._below.write_eof()

    def close(self) -> None:
        """Send what is written, and close."""
        self._below.close()

    def abort(self) -> None:
        """Close at once."""
        self._below.abort()
