"""Goal: the server serves one site over both transports and stops cleanly; the client says what
is wrong.

Method: both over loopback, in one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap import resource
from aiocoap.numbers.codes import Code

from coap_engine import codes
from coap_engine.codec import CON, RST, CoapMessage, decode
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.errors import SocketError
from dtls.keystore import Keystore
from gateway.coap.responders import AskForBody, RespondTo
from gateway.coap.server import CoapCounts, CoapListener, CoapServer
from gateway.coap_client import (
    BadUriError,
    CoapClient,
    HandshakeRefusedError,
    NoAnswerError,
    UnreachableError,
    request,
)
from tests.policies import admins, keys_may_all, open_access
from tests.unit.gateway.oscore_world import THERMOMETER, World

KEY = b"0123456789abcdef"
KEYS = Keystore({"meter-1": KEY})


class Value(resource.Resource):
    """A value that counts how often it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.payload = b"21.5"
        self.written = 0
        self.bases: list[str] = []

    async def render_get(self, incoming: aiocoap.Message) -> aiocoap.Message:
        self.bases.append(incoming.remote.uri_base_local)
        return aiocoap.Message(payload=self.payload, content_format=0)

    async def render_put(self, incoming: aiocoap.Message) -> aiocoap.Message:
        self.payload = incoming.payload
        self.written += 1
        return aiocoap.Message(code=aiocoap.CHANGED)


@pytest.fixture
def value() -> Value:
    return Value()


def server_of(value: Value, *hosts: str, anonymous: bool = False) -> CoapServer:
    site = resource.Site()
    site.add_resource(["value"], value)
    site.add_resource(["slow"], Slow())
    each = CoapListener(hosts or ("127.0.0.1",), 0)
    access = open_access() if anonymous else keys_may_all()
    return CoapServer(site, coap=each, coaps=each, keystore=KEYS, access=access)


@pytest.fixture
async def server(value: Value) -> AsyncIterator[CoapServer]:
    async with server_of(value) as running:
        yield running


def plain(server: CoapServer, host: str = "127.0.0.1") -> str:
    return f"coap://{host}:{server.coap_port}/value"


def secure(server: CoapServer, host: str = "127.0.0.1") -> str:
    return f"coaps://{host}:{server.coaps_port}/value"


async def test_one_site_is_read_over_both_transports(server: CoapServer) -> None:
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        for uri in (plain(server), secure(server)):
            response = await client.request("GET", uri)
            assert (response.code, response.payload) == ("2.05", b"21.5")
            assert response.content_format == 0
            assert response.ok


async def test_only_an_authenticated_peer_may_write(server: CoapServer, value: Value) -> None:
    refused = await request("PUT", plain(server), payload=b"99")
    assert (refused.code, refused.ok) == ("4.01", False)
    assert value.written == 0
    accepted = await request(
        "PUT", secure(server), payload=b"99", psk_identity="meter-1", psk_key=KEY
    )
    assert (accepted.code, value.payload) == ("2.04", b"99")


async def test_anybody_may_write_where_the_configuration_says_so(value: Value) -> None:
    async with server_of(value, anonymous=True) as server:
        assert (await request("PUT", plain(server), payload=b"99")).code == "2.04"
    assert value.payload == b"99"


async def test_a_long_payload_travels_in_blocks_both_ways(server: CoapServer) -> None:
    body = b"0123456789" * 1_000
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        assert (await client.request("PUT", secure(server), payload=body)).ok
        assert (await client.request("GET", secure(server))).payload == body


async def test_a_session_is_opened_once_for_many_requests(server: CoapServer) -> None:
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        for _ in range(3):
            await client.request("GET", secure(server))
    assert server.counters is not None
    assert server.counters.handshakes == 1


async def test_requests_that_begin_side_by_side_share_one_session(server: CoapServer) -> None:
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        asked = (client.request("GET", secure(server), timeout_s=3) for _ in range(3))
        assert all(answer.ok for answer in await asyncio.gather(*asked))
    assert server.counters is not None
    assert server.counters.handshakes == 1


async def test_sessions_of_requests_that_begin_side_by_side_leave_no_socket_open(
    server: CoapServer,
) -> None:
    def sockets() -> int:
        return sum(stat.S_ISSOCK(each.stat().st_mode) for each in open_files())

    def open_files() -> list[Path]:
        return [each for each in Path("/proc/self/fd").iterdir() if each.exists()]

    before = sockets()
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        await asyncio.gather(*(client.request("GET", secure(server)) for _ in range(3)))
        assert sockets() > before
    while sockets() != before:
        await asyncio.sleep(0)


class Reboot(asyncio.DatagramProtocol):
    """An address at which one server stands, and then another one that knows no sessions."""

    def __init__(self, server: CoapServer) -> None:
        self.server = server
        self._client: Any = None
        self._outside: Any = None
        self._inside: dict[CoapServer, Any] = {}

    def connection_made(self, transport: Any) -> None:
        self._outside = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._client = addr
        server = self.server
        if server not in self._inside:
            inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            inside.setblocking(False)
            inside.connect(("127.0.0.1", server.coaps_port))
            self._inside[server] = inside
            asyncio.get_running_loop().add_reader(inside, self._answered, server)
        self._inside[server].send(data)

    def _answered(self, server: CoapServer) -> None:
        data = self._inside[server].recv(65_535)
        if server is self.server:
            self._outside.sendto(data, self._client)

    def close(self) -> None:
        for inside in self._inside.values():
            asyncio.get_running_loop().remove_reader(inside)
            inside.close()
        self._outside.close()


async def test_a_server_that_forgot_its_sessions_is_asked_in_a_new_one(value: Value) -> None:
    loop = asyncio.get_running_loop()
    async with (
        server_of(value) as first,
        server_of(value) as second,
        CoapClient(psk_identity="meter-1", psk_key=KEY) as client,
    ):
        outside, there = await loop.create_datagram_endpoint(
            lambda: Reboot(first), ("127.0.0.1", 0)
        )
        uri = f"coaps://127.0.0.1:{outside.get_extra_info('sockname')[1]}/value"
        assert (await client.request("GET", uri)).ok
        there.server = second
        with pytest.raises(NoAnswerError):
            await client.request("GET", uri, timeout_s=0.2)
        assert (await client.request("GET", uri)).ok
        there.close()


class Slow(resource.Resource):
    """A resource whose answer does not come in time."""

    async def render_get(self, _incoming: aiocoap.Message) -> aiocoap.Message:
        await asyncio.Event().wait()


async def test_a_slow_answer_does_not_end_a_session_in_which_the_server_speaks(
    server: CoapServer, value: Value
) -> None:
    del value
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        assert (await client.request("GET", secure(server))).ok
        slow = secure(server).replace("/value", "/slow")
        with pytest.raises(NoAnswerError):
            await client.request("GET", slow, timeout_s=3)
        assert (await client.request("GET", secure(server))).ok
    assert server.counters is not None
    assert server.counters.handshakes == 1


@pytest.mark.parametrize(
    ("listen_at", "asked"), [("0.0.0.0", "127.0.0.2"), ("::", "::1"), ("::", "127.0.0.2")]
)
async def test_at_the_wildcard_address_the_answer_comes_from_the_address_that_was_asked(
    value: Value, listen_at: str, asked: str
) -> None:
    uri_host = f"[{asked}]" if ":" in asked else asked
    async with (
        server_of(value, listen_at) as server,
        CoapClient(psk_identity="meter-1", psk_key=KEY) as client,
    ):
        # The client's sockets are connected: an answer from elsewhere would not arrive.
        assert (await client.request("GET", plain(server, uri_host), timeout_s=5)).ok
        assert (await client.request("GET", secure(server, uri_host), timeout_s=5)).ok
        assert value.bases == [
            f"coap://{uri_host}:{server.coap_port}",
            f"coaps://{uri_host}:{server.coaps_port}",
        ]


async def test_a_repeated_request_is_answered_again_and_carried_out_once(value: Value) -> None:
    put = aiocoap.Message(code=aiocoap.PUT, payload=b"99", uri_path=("value",))
    put.mtype, put.mid, put.token = aiocoap.CON, 7, b"t"
    loop = asyncio.get_running_loop()
    async with server_of(value, anonymous=True) as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.setblocking(False)
            peer.connect(("127.0.0.1", server.coap_port))
            answers = []
            for _ in range(2):
                await loop.sock_sendall(peer, put.encode())
                while (datagram := await loop.sock_recv(peer, 2_000))[1] == 0:
                    pass  # an empty acknowledgement: the answer is yet to come
                answers.append(datagram)
    assert answers[0] == answers[1]
    assert value.written == 1


async def test_bytes_that_are_no_coap_do_not_stop_the_server(
    server: CoapServer, caplog: pytest.LogCaptureFixture
) -> None:
    not_utf8 = b"\x40\x01\x00\x01\xb1\xff"
    ack_of_get = b"\x60\x01\x00\x02"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        for port in (server.coap_port, server.coaps_port):
            for datagram in (b"", b"\x40", b"\xff" * 100, not_utf8, ack_of_get):
                peer.sendto(datagram, ("127.0.0.1", port))
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        assert (await client.request("GET", plain(server))).ok
        assert (await client.request("GET", secure(server))).ok
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_stopping_leaves_no_task_and_tells_the_peers(value: Value) -> None:
    before = asyncio.all_tasks()
    async with CoapClient(psk_identity="meter-1", psk_key=KEY) as client:
        async with server_of(value) as server:
            ports = (server.coap_port, server.coaps_port)
            await client.request("GET", secure(server))
            await client.request("GET", plain(server))
        for port in ports:  # both are free again
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
                again.bind(("127.0.0.1", port))
        with pytest.raises(UnreachableError):
            await client.request("GET", f"coaps://127.0.0.1:{ports[1]}/value", timeout_s=5)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("scheme", ["coap", "coaps"])
async def test_a_port_in_use_is_an_error_that_names_the_address(
    value: Value, server: CoapServer, scheme: str
) -> None:
    taken = {"coap": server.coap_port, "coaps": server.coaps_port}[scheme]
    site = resource.Site()
    second = CoapServer(
        site,
        coap=CoapListener(("127.0.0.1",), taken if scheme == "coap" else 0),
        coaps=CoapListener(("127.0.0.1",), taken if scheme == "coaps" else 0),
        keystore=KEYS,
        access=keys_may_all(),
    )
    with pytest.raises(SocketError, match=f"{scheme}://127.0.0.1:{taken}: .*in use"):
        await second.start()
    assert second.coap_port is second.coaps_port is None


async def test_a_host_that_is_no_address_is_an_error_that_shows_it(value: Value) -> None:
    with pytest.raises(SocketError, match="'gw-north' is not an IP address"):
        await server_of(value, "gw-north").start()


@pytest.mark.parametrize(
    ("uri", "part"),
    [
        ("http://127.0.0.1/", "scheme 'http'"),
        ("coap:///value", "no host"),
        ("coap://127.0.0.1:99999/", "port"),
        ("coap://127.0.0.1:0/", "port 0"),
        ("coap://127.0.0.1/#top", "fragment #top"),
        ("coap://me:secret@127.0.0.1/", "user name"),
        ("coaps://127.0.0.1/", "psk_identity and psk_key"),
    ],
)
async def test_a_bad_uri_is_an_error_that_names_the_part(uri: str, part: str) -> None:
    with pytest.raises(BadUriError, match=part) as caught:
        await request("GET", uri)
    assert "secret" not in str(caught.value)


async def test_an_unknown_method_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(BadUriError, match="'STEAL', one of GET, POST"):
        await request("STEAL", "coap://127.0.0.1/")


@pytest.mark.parametrize("scheme", ["coap", "coaps"])
async def test_nobody_listening_is_told_at_once(scheme: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    with pytest.raises(UnreachableError, match="refused"):
        await request("GET", f"{scheme}://127.0.0.1:{port}/", psk_identity="meter-1", psk_key=KEY)


@pytest.mark.parametrize("scheme", ["coap", "coaps"])
async def test_silence_ends_with_the_time_that_was_given(scheme: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        uri = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(NoAnswerError, match=r"0\.1 s"):
            await request("GET", uri, psk_identity="meter-1", psk_key=KEY, timeout_s=0.1)


async def test_an_unknown_identity_and_a_wrong_key_are_told_apart(server: CoapServer) -> None:
    with pytest.raises(HandshakeRefusedError, match="unknown psk identity"):
        await request("GET", secure(server), psk_identity="stranger", psk_key=KEY)
    with pytest.raises(HandshakeRefusedError, match="the key"):
        await asked_with_a_wrong_key(secure(server))


async def asked_with_a_wrong_key(uri: str) -> None:
    """Ask, for longer each time until the server has said its part in time."""
    for timeout_s in (0.5, 5.0, 60.0):
        with contextlib.suppress(NoAnswerError):
            await request(
                "GET", uri, psk_identity="meter-1", psk_key=KEY[::-1], timeout_s=timeout_s
            )


async def test_who_has_no_key_any_more_is_disconnected_at_once_and_others_go_on(
    server: CoapServer,
) -> None:
    other = KEY[::-1]
    server.renew(Keystore({"meter-1": KEY, "meter-2": other}), None, admins())
    one = CoapClient(psk_identity="meter-1", psk_key=KEY)
    two = CoapClient(psk_identity="meter-2", psk_key=other)
    async with one, two:
        for client in (one, two):
            assert (await client.request("GET", secure(server))).ok
        server.renew(Keystore({"meter-2": other}), None, admins())
        assert server.peers()["dtls_sessions"] == 1
        with pytest.raises(HandshakeRefusedError, match="unknown psk identity"):
            await request("GET", secure(server), psk_identity="meter-1", psk_key=KEY)
        assert (await two.request("GET", secure(server))).ok
        server.renew(Keystore({"meter-2": KEY}), None, admins())  # the same name, with another key
        assert server.peers()["dtls_sessions"] == 0
    assert server.counters is not None
    assert server.counters.handshakes == 2


async def test_a_key_without_identity_is_an_error() -> None:
    with pytest.raises(BadUriError, match="go together"):
        CoapClient(psk_key=KEY)


class Suspicious(asyncio.DatagramProtocol):
    """A server that answers nobody whose address it has not seen proven (RFC 9175)."""

    def __init__(self) -> None:
        self.asked: list[bytes | None] = []
        self.observed: list[int | None] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        asked = aiocoap.Message.decode(data)
        self.asked.append(asked.opt.echo)
        self.observed.append(asked.opt.observe)
        answer = aiocoap.Message(code=aiocoap.UNAUTHORIZED, echo=b"shown")
        if asked.opt.echo == b"shown":
            answer = aiocoap.Message(code=aiocoap.CONTENT, payload=b"21.5")
        answer.mtype, answer.mid, answer.token = aiocoap.ACK, asked.mid, asked.token
        self.transport.sendto(answer.encode(), addr)


async def test_a_request_is_repeated_with_the_echo_that_the_server_asks_for() -> None:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(Suspicious, local_addr=("127.0.0.1", 0))
    try:
        port = transport.get_extra_info("sockname")[1]
        response = await request("GET", f"coap://127.0.0.1:{port}/value")
        assert (response.code, response.payload) == ("2.05", b"21.5")
        assert server.asked == [None, b"shown"]
    finally:
        transport.close()


async def observed_once(uri: str, timeout_s: float = 10.0, **keys: Any) -> bytes:
    """Observe, and return the first answer."""
    async with CoapClient(**keys) as client:
        async for response in client.observe(uri, timeout_s=timeout_s):
            return response.payload
    raise AssertionError("there was an answer, or an error")


async def test_an_observation_begins_again_with_the_echo_that_the_server_asks_for() -> None:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(Suspicious, local_addr=("127.0.0.1", 0))
    try:
        port = transport.get_extra_info("sockname")[1]
        assert await observed_once(f"coap://127.0.0.1:{port}/value") == b"21.5"
        assert server.asked[:2] == [None, b"shown"]
        assert server.observed[:2] == [0, 0]
    finally:
        transport.close()


@pytest.mark.parametrize("scheme", ["coap", "coaps"])
async def test_an_observation_that_nobody_answers_ends_with_the_time_that_was_given(
    scheme: str,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        uri = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(NoAnswerError, match=r"0\.05 s"):
            await observed_once(uri, 0.05, psk_identity="meter-1", psk_key=KEY)
    with pytest.raises(UnreachableError, match="refused"):
        await observed_once(uri, psk_identity="meter-1", psk_key=KEY)


@pytest.mark.parametrize(
    ("uri", "why"), [("coap://[::1/x", "host: "), ("coap://127.0.0.1/%ff", "%ff: ")]
)
async def test_a_uri_that_can_not_be_taken_apart_is_an_error_that_shows_it(
    uri: str, why: str
) -> None:
    with pytest.raises(BadUriError) as told:
        await request("GET", uri)
    assert why in str(told.value)


def test_an_identity_that_no_wire_can_carry_is_an_error_of_the_client() -> None:
    with pytest.raises(BadUriError, match="PSK identity: 'x"):
        CoapClient(psk_identity="x" * 129, psk_key=KEY)


def test_before_its_start_a_server_has_counted_nothing(value: Value) -> None:
    server = server_of(value)
    assert server.counts() == CoapCounts({}, {}, {}, {})
    assert (server.ports, server.counters) == ({}, None)


class Failing:
    """Raises for a path, and asks who asks for another one."""

    def __init__(self) -> None:
        self.segments = frozenset((b"fails", b"back"))
        self.heard: list[CoapResponse | None] = []
        self.done: list[Callable[[CoapResponse], None]] = []

    def answer(self, asked: CoapRequest, _peer: CoapPeer, _now: float) -> Any:
        if asked.values(11) == [b"fails"]:
            raise ZeroDivisionError("no answer")
        return self

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        self.done.append(done)

        def heard(response: CoapResponse | None) -> None:
            self.heard.append(response)
            done(CoapResponse(codes.CONTENT, (), b"heard"))

        ask(CoapRequest(codes.GET), heard)
        return lambda: None

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        return False

    def ended(self, exchange: int) -> None:
        """It tells nothing."""


class RawAsker(asyncio.DatagramProtocol):
    """Sends what the test says, and notes what comes."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[CoapMessage] = asyncio.Queue()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, _addr: object) -> None:
        self.came.put_nowait(decode(data))

    def send(self, message: CoapMessage) -> None:
        self.transport.sendto(message.encode())


async def test_what_fails_or_is_not_answered_by_its_asker_is_told_and_others_are_served() -> None:
    failing = Failing()
    server = CoapServer(
        resource.Site(),
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=KEYS,
        access=open_access(),
        at_hand=(failing,),
    )
    loop = asyncio.get_running_loop()
    async with server, asyncio.timeout(30):
        transport, asker = await loop.create_datagram_endpoint(
            RawAsker, remote_addr=("127.0.0.1", server.coap_port)
        )
        try:
            asker.send(CoapMessage(CON, codes.GET, 1, b"1", ((11, b"fails"),)))
            failed = await asker.came.get()
            assert (failed.token, failed.code) == (b"1", codes.INTERNAL_SERVER_ERROR)
            asker.send(CoapMessage(CON, codes.GET, 2, b"2", ((11, b"back"),)))
            back = await asker.came.get()
            assert (back.type, back.code) == (CON, codes.GET)
            asker.send(CoapMessage(RST, 0, back.message_id))
            answer = await asker.came.get()
            assert (answer.token, answer.payload) == (b"2", b"heard")
            assert failing.heard == [None], "who is asked and rejects it has said nothing"
            asker.send(CoapMessage(CON, codes.GET, 3, b"3", ((11, b"back"),)))
            await asker.came.get()
            for done in (failing.done[-1], lambda _: None):
                done(CoapResponse(codes.CONTENT, (), b"too late"))
                await server.stop()
            await asyncio.sleep(0)
            assert asker.came.empty(), "who is stopped says nothing more"
        finally:
            transport.close()


class Told:
    """A value that is observed, and told of when the test says so."""

    def __init__(self) -> None:
        self.segments = frozenset((b"told",))
        self.observers: dict[int, RespondTo] = {}
        self.ends: list[int] = []

    def answer(self, _asked: CoapRequest, _peer: CoapPeer, _now: float) -> CoapResponse:
        return CoapResponse(codes.CONTENT, (), b"1")

    def observe(self, exchange: int, _request: CoapRequest, respond: RespondTo) -> bool:
        self.observers[exchange] = respond
        return True

    def ended(self, exchange: int) -> None:
        self.ends.append(exchange)


async def test_who_observes_no_more_is_told_nothing_nor_is_anybody_after_the_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = Told()
    server = CoapServer(
        resource.Site(),
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=KEYS,
        access=open_access(),
        at_hand=(told,),
    )
    loop = asyncio.get_running_loop()
    async with server, asyncio.timeout(30):
        transport, asker = await loop.create_datagram_endpoint(
            RawAsker, remote_addr=("127.0.0.1", server.coap_port)
        )
        try:
            for number, observe in ((1, b""), (2, b"\x01"), (3, b"")):
                options = ((6, observe), (11, b"told"))
                asker.send(CoapMessage(CON, codes.GET, number, b"1", options))
                assert (await asker.came.get()).payload == b"1"
            (first, respond), (second, _) = told.observers.items()
            assert told.ends == [first]
            respond(first, CoapResponse(codes.CONTENT, (), b"to nobody"), False)
            respond(second, CoapResponse(codes.CONTENT, (), b"2"), False)
            assert (await asker.came.get()).payload == b"2"
            respond(second, CoapResponse(codes.NOT_FOUND, (), b"last"), False)
            assert (await asker.came.get()).payload == b"last"
            assert told.ends == [first, second]
            respond(second, CoapResponse(codes.CONTENT, (), b"3"), False)
            await server.stop()
            respond(second, CoapResponse(codes.CONTENT, (), b"4"), False)
            await asyncio.sleep(0)
            assert asker.came.empty()
        finally:
            transport.close()
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_a_device_that_gets_a_context_is_served_from_then_on_and_no_more_without_one() -> (
    None
):
    device, site = World(), resource.Site()
    site.add_resource(["value"], Value())
    here = CoapListener(("127.0.0.1",), 0)
    server = CoapServer(site, coap=here, coaps=None, keystore=KEYS, access=keys_may_all())
    loop, numbers = asyncio.get_running_loop(), itertools.count(1)

    async def asked(**more: Any) -> tuple[CoapMessage, Any]:
        request, sealed = device.protect(Code.GET, uri_path=("value",), **more)
        about = next(numbers), b"t", request.options
        asker.send(CoapMessage(CON, request.code, *about, request.payload))
        return await asker.came.get(), sealed

    async with server, asyncio.timeout(30):
        transport, asker = await loop.create_datagram_endpoint(
            RawAsker, remote_addr=("127.0.0.1", server.coap_port)
        )
        try:
            assert (await asked())[0].code == codes.BAD_OPTION
            contexts = {THERMOMETER.known_by: device.context}
            server.renew(KEYS, None, admins(), contexts)
            challenge, sealed = await asked()
            echo = device.open(response_of(challenge), sealed).opt.echo
            answer, sealed = await asked(echo=echo)
            assert device.open(response_of(answer), sealed).payload == b"21.5"
            server.renew(KEYS, None, admins())
            refused, _ = await asked()
            assert (refused.code, refused.payload) == (
                codes.UNAUTHORIZED, b"Security context not found",
            )  # fmt: skip
        finally:
            transport.close()


def response_of(message: CoapMessage) -> CoapResponse:
    return CoapResponse(message.code, message.options, message.payload)
