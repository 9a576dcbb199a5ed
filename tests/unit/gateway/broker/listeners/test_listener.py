"""Listeners that can't be opened: which, and why."""

from __future__ import annotations

import errno
import os

import pytest
from log_world import LogWorld
from ports import free_port

from gateway.broker.listeners.listener import (
    Listener,
    ListenError,
    Listeners,
    NoCertificateError,
)
from gateway.broker.listeners.websocket_rules import WebSocketRules


@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
async def test_a_secure_listener_without_a_certificate_is_not_opened_and_named(scheme: str) -> None:
    listeners = Listeners(LogWorld().core.service, None, WebSocketRules())
    listener = Listener(scheme, ("127.0.0.1",), 8_883)
    with pytest.raises(
        NoCertificateError, match=f"^{scheme} on port 8883: no certificate$"
    ) as told:
        await listeners.open(listener)
    assert told.value.listener is listener
    assert listeners.ports == {}


@pytest.mark.parametrize(
    ("host", "address"), [("192.0.2.7", "192.0.2.7:1883"), ("2001:db8::7", "[2001:db8::7]:1883")]
)
def test_an_address_that_can_not_be_listened_on_is_named_with_its_port(
    host: str, address: str
) -> None:
    listener = Listener("mqtt", (host,), 1_883)
    error = ListenError(listener, host, OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)))
    assert (error.errno, error.strerror) == (errno.EADDRINUSE, "Address already in use")
    assert (error.address, error.listener) == (address, listener)
    assert ListenError(listener, host, OSError("no such host")).strerror == "no such host"


@pytest.mark.parametrize(
    ("scheme", "is_secure", "is_websocket"),
    [("mqtt", False, False), ("mqtts", True, False), ("ws", False, True), ("wss", True, True)],
)
def test_a_scheme_says_what_stands_between_a_socket_and_a_client(
    scheme: str, *, is_secure: bool, is_websocket: bool
) -> None:
    listener = Listener(scheme, (), 0)
    assert (listener.is_secure, listener.is_websocket) == (is_secure, is_websocket)


async def test_a_listener_of_which_one_address_is_not_this_machines_listens_on_none() -> None:
    listeners = Listeners(LogWorld().core.service, None, WebSocketRules())
    port = free_port()
    listener = Listener("mqtt", ("127.0.0.1", "192.0.2.7"), port)
    with pytest.raises(ListenError) as told:
        await listeners.open(listener)
    assert (told.value.address, told.value.errno) == (f"192.0.2.7:{port}", errno.EADDRNOTAVAIL)
    assert listeners.ports == {}
    await listeners.open(Listener("mqtt", ("127.0.0.1",), port))
    assert listeners.ports == {"mqtt": port}
    listeners.close()
    assert listeners.ports == {}
    again = Listeners(LogWorld().core.service, None, WebSocketRules())
    await again.open(Listener("mqtt", ("127.0.0.1", "127.0.0.2"), port))
    again.close()
