"""Sessions at real sockets on loopback: what is sent, told and left behind at their ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiocoap import Message, error

from dtls.client_transport import DtlsClientTransport, decode_message
from dtls.context import ClientContext, ServerContext
from dtls.datagrams import PeerAddress, listen
from dtls.endpoint import Endpoint
from dtls.errors import HandshakeTimeoutError
from dtls.identity import PeerIdentity
from dtls.session import DtlsSession
from dtls.transport import DtlsPort

IDENTITY = "meter-1"
KEY = b"0123456789abcdef"
LIMIT_S = 30.0


class SessionNotes:
    """Notes what comes of sessions, and answers nothing."""

    def __init__(self) -> None:
        self.established: list[int] = []
        self.received: list[bytes] = []
        self.closed: list[str] = []
        self.failed: list[str] = []
        self.received_by_turns: list[int] = []

    def session_established(self, number: int, _at: PeerAddress, _who: PeerIdentity) -> None:
        self.established.append(number)

    def handshake_failed(self, _at: PeerAddress, reason: str, _now: float) -> None:
        self.failed.append(reason)

    def session_received(self, _number: int, plaintext: bytes, _now: float) -> None:
        self.received.append(plaintext)

    def session_moved(self, _number: int, _at: PeerAddress) -> None:
        """Nobody moves here."""

    def session_closed(self, _number: int, reason: str, _now: float) -> None:
        self.closed.append(reason)

    def turn_ended(self, _now: float) -> None:
        self.received_by_turns.append(len(self.received))


class ToldMessages:
    """A message manager of aiocoap that notes what it is told."""

    def __init__(self) -> None:
        self.errors: list[tuple[Exception, object]] = []
        self.messages: list[Any] = []
        self.is_told = asyncio.Event()

    def dispatch_error(self, failure: Exception, remote: object) -> None:
        self.errors.append((failure, remote))
        self.is_told.set()

    def dispatch_message(self, message: Any) -> None:
        self.messages.append(message)
        self.is_told.set()


class Ends:
    """A server's port, and a client's transport."""

    def __init__(self) -> None:
        self.notes = SessionNotes()
        self.told = ToldMessages()
        self.port = DtlsPort(
            listen(["127.0.0.1"], 0, "coaps"),
            ServerContext({IDENTITY.encode(): KEY}.get),
            self.notes,
        )
        self.client = DtlsClientTransport(ClientContext(IDENTITY, KEY), self.told)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    made = Ends()
    try:
        async with asyncio.timeout(LIMIT_S):
            yield made
    finally:
        await made.client.shutdown()
        made.port.close()


async def test_a_server_is_known_by_its_authority_and_its_session(ends: Ends) -> None:
    remote = await ends.client.connect("127.0.0.1", ends.port.port, LIMIT_S)
    assert remote.uri_base == f"coaps://127.0.0.1:{ends.port.port}"
    assert repr(remote) == f"<{remote.uri_base}>"
    assert remote.uri_base_local.startswith("coaps://127.0.0.1:")
    assert remote.uri_base_local != remote.uri_base
    assert await ends.client.connect("127.0.0.1", ends.port.port, LIMIT_S) is remote
    assert await ends.client.recognize_remote(remote)
    assert not await ends.client.recognize_remote("coaps://127.0.0.1")
    assert await ends.client.determine_remote(Message()) is None  # type: ignore[func-returns-value]
    assert (ends.port.half_open, ends.port.sessions) == (0, 1)


async def test_when_the_time_of_a_turn_is_over_what_else_came_waits_for_the_next_one(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = await ends.client.connect("127.0.0.1", ends.port.port, LIMIT_S)
    while not ends.notes.established:
        await asyncio.sleep(0)
    monkeypatch.setattr("dtls.transport.time", SimpleNamespace(monotonic=lambda: 1.0))
    expected = []
    for turn_s, by_turns in ((0.0, [1, 2, 3]), (0.25, [6])):
        monkeypatch.setattr("dtls.transport.TURN_S", turn_s)
        expected += by_turns
        ends.notes.received_by_turns.clear()
        for number in range(3):
            remote.association.send(b"%d" % number)
        while len(ends.notes.received) < expected[-1]:
            await asyncio.sleep(0)
        assert ends.notes.received_by_turns == by_turns


async def test_a_handshake_under_way_is_told_at_once_that_the_keys_have_changed(ends: Ends) -> None:
    loop, session = asyncio.get_running_loop(), DtlsSession(ClientContext(IDENTITY, KEY))
    session.start(loop.time())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.setblocking(False)
        peer.connect(("127.0.0.1", ends.port.port))
        for _ in range(2):  # without a cookie, and with it
            (hello,) = session.datagrams_to_send()
            peer.send(hello)
            session.receive_datagram(await loop.sock_recv(peer, 2_048), loop.time())
        assert ends.port.half_open == 1
        with contextlib.suppress(BlockingIOError):
            while peer.recv(2_048):
                pass
        ends.port.follow(ServerContext({}.get))
        assert peer.recv(2_048)
        assert ends.notes.failed == ["the keys have changed meanwhile"]
        assert (ends.port.half_open, ends.notes.established) == (0, [])


async def test_a_message_too_large_or_after_the_end_is_dropped_and_the_session_goes_on(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    remote = await ends.client.connect("127.0.0.1", ends.port.port, LIMIT_S)
    while not ends.notes.established:
        await asyncio.sleep(0)
    (number,) = ends.notes.established
    caplog.set_level(logging.DEBUG, "dtls.transport")
    ends.port.send(number, bytes(5_000))
    ends.port.send(number + 1, b"to nobody")
    assert [(one.levelname, one.getMessage().split(":")[0]) for one in caplog.records] == [
        ("WARNING", f"message to session {number}"),
        ("DEBUG", f"message for session {number + 1}, which is gone"),
    ]
    answer = bytes.fromhex("60450001")
    ends.port.send(number, b"\xff\xff\xff\xff")
    ends.port.send(number, answer)
    ends.port.flush()
    await ends.told.is_told.wait()
    (message,) = ends.told.messages
    assert (int(message.code), message.mid, message.payload) == (69, 1, b"")
    assert message.remote is remote
    ends.port.close()
    ends.port.send(number, answer)
    ends.port.flush()
    ends.told.is_told.clear()
    await ends.told.is_told.wait()
    ((failure, at),) = ends.told.errors
    assert isinstance(failure, error.RemoteServerShutdown)
    assert at is remote
    assert len(ends.told.messages) == 1
    assert ends.notes.closed == []


async def test_who_asks_while_another_one_waits_for_the_handshake_gives_up_in_its_own_time() -> (
    None
):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client = DtlsClientTransport(ClientContext(IDENTITY, KEY), ToldMessages())
        at = silent.getsockname()
        first = asyncio.ensure_future(client.connect(*at, LIMIT_S))
        await asyncio.sleep(0)
        with pytest.raises(HandshakeTimeoutError) as late:
            await client.connect(*at, 0.001)
        assert str(late.value) == str(HandshakeTimeoutError(0.001, answered=False))
        assert not first.done()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await client.shutdown()


async def test_where_a_socket_can_not_be_connected_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[socket.socket] = []

    class Noted(socket.socket):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            opened.append(self)

    client = DtlsClientTransport(ClientContext(IDENTITY, KEY), ToldMessages())
    monkeypatch.setattr(socket, "socket", Noted)
    with pytest.raises(PermissionError):  # nobody may talk to all without saying so
        await client.connect("255.255.255.255", 5684, LIMIT_S)
    assert [one.fileno() for one in opened] == [-1]


async def test_a_server_whose_port_is_gone_is_told_of_and_asked_in_another_session() -> None:
    loop, told = asyncio.get_running_loop(), ToldMessages()
    context = ServerContext({IDENTITY.encode(): KEY}.get)
    endpoint = Endpoint(context, secrets.token_bytes)
    client = DtlsClientTransport(ClientContext(IDENTITY, KEY), told)

    def serve(at: socket.socket) -> None:
        datagram, sender = at.recvfrom(2_048)
        endpoint.receive_datagram(datagram, sender, loop.time())
        for answer, _ in endpoint.datagrams_to_send():
            at.sendto(answer, sender)

    async with asyncio.timeout(LIMIT_S):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.setblocking(False)
            server.bind(("127.0.0.1", 0))
            at = server.getsockname()
            loop.add_reader(server, serve, server)
            remote = await client.connect(*at, LIMIT_S)
            assert remote.association.is_usable
            loop.remove_reader(server)
        remote.association.send(b"to nobody")
        await told.is_told.wait()
        ((failure, of),) = told.errors
        assert isinstance(failure, ConnectionRefusedError)
        assert of is remote
        assert not remote.association.is_usable
        with pytest.raises(ConnectionRefusedError):
            await client.connect(*at, LIMIT_S)
        await client.shutdown()
    assert len(told.errors) == 1


@pytest.mark.parametrize("data", [b"", b"\x40", b"\xff" * 8, b"\x40\x01\x00\x01\xb1\xff"])
def test_bytes_that_are_no_message_are_none(data: bytes) -> None:
    """The last one has a Uri-Path that is no UTF-8."""
    assert decode_message(data, None) is None
