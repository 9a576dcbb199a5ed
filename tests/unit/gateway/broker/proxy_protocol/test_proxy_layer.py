"""The layer that waits for a proxy's header: what it hands over, and what it lets through."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import pytest
from loop_clock import Clock
from memory_transport import MemoryTransport

from gateway.broker.limits import counted_refusals
from gateway.broker.proxy_protocol.layer import (
    HEADER_S,
    REFUSED,
    SILENT,
    WAITING_MAX,
    ProxiedConnection,
    ProxiedTransport,
    Proxies,
)

PROXY, CLIENT = ("127.0.0.1", 40_000), ("192.0.2.7", 50_000)
HEADER = b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883\r\n"


class Below(MemoryTransport):
    """The transport of a proxy's connection, which notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.protocol: asyncio.BaseProtocol = asyncio.Protocol()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": PROXY, "sockname": ("127.0.0.1", 1883)}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append(("limits", high, low))

    def get_write_buffer_size(self) -> int:
        return 77

    def is_reading(self) -> bool:
        return True

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        self.calls.append(("pause",))

    def resume_reading(self) -> None:
        self.calls.append(("resume",))

    def write_eof(self) -> None:
        self.calls.append(("eof",))

    def close(self) -> None:
        self.calls.append(("close",))

    def abort(self) -> None:
        super().abort()
        self.calls.append(("abort",))


class Served(asyncio.Protocol):
    """The protocol that serves the listener, which notes what it gets."""

    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data


class Waiting:
    """A proxy's connection, from its first byte on."""

    def __init__(self, proxies: Proxies | None = None) -> None:
        self.clock = Clock()
        here = (ipaddress.ip_network("127.0.0.1"),)
        self.proxies = proxies or Proxies(here, counted_refusals(self.clock.time), self.clock)
        self.counts = self.proxies.refusals.counts
        self.served = Served()
        self.connection = ProxiedConnection(self.proxies, lambda: self.served)
        self.below = Below()
        self.connection.connection_made(self.below)


def test_all_but_the_peers_address_is_asked_of_the_transport_below_and_told_to_it() -> None:
    below = Below()
    shown = ProxiedTransport(below, CLIENT)
    names = ("peername", "sockname", "ssl_object")
    found = [shown.get_extra_info(name, "unknown") for name in names]
    assert found == [CLIENT, ("127.0.0.1", 1883), "unknown"]
    served = Served()
    shown.set_protocol(served)
    assert below.protocol is served
    assert shown.get_protocol() is served
    asked = (
        *(shown.get_write_buffer_size(), shown.is_reading()),
        *(shown.can_write_eof(), shown.is_closing()),
    )
    assert asked == (77, True, True, False)
    shown.set_write_buffer_limits(9, 3)
    shown.pause_reading()
    shown.resume_reading()
    shown.write(b"data")
    shown.write_eof()
    shown.close()
    shown.abort()
    told = [("limits", 9, 3), ("pause",), ("resume",), ("eof",), ("close",), ("abort",)]
    assert (below.calls, bytes(below.written)) == (told, b"data")
    assert shown.is_closing()


def test_what_comes_behind_a_header_goes_to_what_serves_the_listener() -> None:
    one = Waiting()
    one.connection.data_received(HEADER[:10])
    assert one.served.transport is None
    one.connection.data_received(HEADER[10:] + b"CONNECT")
    assert one.below.protocol is one.served
    assert one.served.transport is not None
    assert one.served.transport.get_extra_info("peername") == CLIENT
    assert one.served.data == b"CONNECT"
    one.clock.pass_s(HEADER_S)
    assert (one.below.is_closed, dict(one.counts)) == (False, {})


def test_bytes_behind_a_header_that_was_refused_are_nobodys() -> None:
    one = Waiting()
    one.connection.data_received(b"\x10 no header at all")
    one.connection.data_received(HEADER)
    assert (one.below.calls, one.served.transport) == ([("abort",)], None)
    assert one.counts == {REFUSED: 1}
    gone = Waiting()
    gone.connection.connection_lost(None)
    gone.connection.data_received(HEADER)
    gone.clock.pass_s(HEADER_S)
    assert (gone.below.calls, gone.served.transport, dict(gone.counts)) == ([], None, {})


@pytest.mark.parametrize("end", ["header", "refused", "gone", "silent"])
def test_a_connection_that_waits_no_more_makes_room_for_one_and_no_more(end: str) -> None:
    first = Waiting()
    for _ in range(WAITING_MAX - 1):
        assert first.proxies.begins()
    assert not first.proxies.begins()
    if end == "header":
        first.connection.data_received(HEADER)
    elif end == "refused":
        first.connection.data_received(b"\x10 no header at all")
    elif end == "silent":
        first.clock.pass_s(HEADER_S)
        assert first.counts[SILENT] == 1
    first.connection.connection_lost(None)
    assert first.proxies.begins()
    assert not first.proxies.begins()
