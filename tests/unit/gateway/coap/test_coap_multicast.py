"""CoAP is found by multicast on loopback (RFC 7252, section 8; RFC 9176, section 4.1)."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiocoap import resource
from missing_peer import skip_or_fail_in_ci
from ports import free_port

from coap_engine import codes
from coap_engine.codec import CON, NON, CoapMessage, decode
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.multicast import MulticastRequests, MulticastRules
from coap_engine.option_numbers import BLOCK2, URI_PATH, URI_QUERY
from dtls.datagrams import PeerAddress
from dtls.errors import SocketError
from dtls.keystore import Keystore
from gateway.coap import multicast
from gateway.coap.access import CoapAccess
from gateway.coap.multicast import (
    GROUP,
    GROUP_V6,
    DiscoveryAnswers,
    GroupSocket,
    LinkAddress,
    MulticastPort,
    is_on,
)
from gateway.coap.server import CoapListener, CoapServer
from gateway.coap.well_known import CountedSite, WellKnownCore
from gateway.trust.policy.policy import Policy, PolicyRules
from resource_directory.registry import Registry
from resource_directory.resources import ResourceDirectory
from resource_directory.service import DirectoryService
from tests.policies import NORTH, access_of

LIMIT_S = 60
CORE: tuple[Option, ...] = ((URI_PATH, b".well-known"), (URI_PATH, b"core"))


class Client:
    """Asks the group over loopback, which has no multicast of IPv6 (tests/network has)."""

    def __init__(self, group: str, port: int, source: str = "127.0.0.1") -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        interface = struct.pack("=4s4si", bytes(4), bytes(4), socket.if_nametoindex("lo"))
        self._sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        self._sock.bind((source, 0))
        self.to: tuple[object, ...] = (group, port)

    def send(self, message: CoapMessage) -> None:
        self._sock.sendto(message.encode(), self.to)

    def has_come(self) -> bool:
        try:
            return bool(self._sock.recv(1))
        except BlockingIOError:
            return False

    async def receive(self) -> tuple[CoapMessage, tuple[object, ...]]:
        loop, come = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._sock, come.set)
        try:
            await come.wait()
        finally:
            loop.remove_reader(self._sock)
        data, sender = self._sock.recvfrom(2_048)
        return decode(data), sender

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()


def get(*options: Option, message_id: int = 1, type_: int = NON) -> CoapMessage:
    given = tuple(sorted((*CORE, *options), key=lambda option: option[0]))
    return CoapMessage(type_, codes.GET, message_id, bytes([message_id]), given)


@dataclass
class Found:
    """A server, and the group that it is found by."""

    server: CoapServer
    group: MulticastPort
    answers: list[CoapResponse | None]
    """The group's answer to each request; None for silence."""

    @property
    def coap_port(self) -> int:
        assert self.server.coap_port is not None
        return self.server.coap_port


@asynccontextmanager
async def found(
    hosts: Sequence[str] = ("127.0.0.1",), access: CoapAccess | None = None
) -> AsyncIterator[Found]:
    """A gateway's CoAP server with a Resource Directory, which is discovered."""
    site = CountedSite()
    directory = ResourceDirectory(DirectoryService(Registry()), lambda: 0.0)
    directory.add_to(site)
    site.add_resource(["sensors", "roof"], resource.Resource())
    core = WellKnownCore(site)
    access = access or access_of()
    server = CoapServer(
        site,
        coap=CoapListener(hosts, 0),
        coaps=None,
        keystore=Keystore({}),
        access=access,
        at_hand=(core,),
    )
    async with server, asyncio.timeout(LIMIT_S):
        assert server.plain is not None
        rules = MulticastRules(leisure_s=0.05)
        discovery, answers = DiscoveryAnswers(access, core), list[CoapResponse | None]()

        def answered(request: CoapRequest, peer: CoapPeer, now: float) -> CoapResponse | None:
            answers.append(discovery(request, peer, now))
            return answers[-1]

        port = MulticastPort(answered, hosts, server.plain, rules=rules)
        port.open()
        try:
            yield Found(server, port, answers)
        finally:
            port.close()


@pytest.mark.parametrize(
    "hosts", [["127.0.0.1"], ["0.0.0.0"], ["::"], ["0.0.0.0", "::"]], ids=" ".join
)
async def test_a_directory_is_found_by_its_types_and_answers_from_its_own_address(
    hosts: list[str],
) -> None:
    async with found(hosts) as served:
        port = served.coap_port
        with Client(GROUP, port) as client:
            client.send(get((URI_QUERY, b"rt=core.rd*")))
            answer, sender = await client.receive()
    assert (answer.type, answer.code, answer.token) == (NON, codes.CONTENT, b"\x01")
    for link in (b"</rd>", b"</rd-lookup/res>", b"</rd-lookup/ep>"):
        assert link in answer.payload
    assert b"roof" not in answer.payload
    assert sender == ("127.0.0.1", port)


async def test_what_has_nothing_useful_to_say_says_nothing_and_the_next_is_answered() -> None:
    async with found() as served:
        with Client(GROUP, served.coap_port) as client:
            client.send(get((URI_QUERY, b"rt=nobody-has-this"), message_id=1))
            client.send(get(message_id=2, type_=CON))
            client.send(CoapMessage(NON, codes.GET, 3, b"\x03", ((URI_PATH, b"sensors"),)))
            client.send(CoapMessage(NON, codes.DELETE, 4, b"\x04", CORE))
            client.send(get((URI_QUERY, b"href=/sensors/*"), message_id=5))
            answer, _ = await client.receive()
            assert (answer.token, answer.payload) == (b"\x05", b"</sensors/roof>")
            assert served.server.counts().events["requests"] == 0


async def test_what_strangers_may_not_read_they_do_not_find() -> None:
    access = access_of(public=("/sensors",))
    async with found(access=access) as served:
        with Client(GROUP, served.coap_port) as client:
            client.send(get())
            while not served.answers:
                await asyncio.sleep(0)
            access.follow(Policy(PolicyRules(public=("/",)), NORTH))
            client.send(get(message_id=2))
            answer, _ = await client.receive()
            assert answer.token == b"\x02"
            assert served.answers[0] is None


async def test_the_rest_of_a_long_answer_is_asked_for_by_unicast() -> None:
    async with found() as served:
        with Client(GROUP, served.coap_port) as client:
            client.send(get((BLOCK2, b"\x01")))  # blocks of 32 bytes
            answer, sender = await client.receive()
            body, number = answer.payload, 0
            while dict(answer.options)[BLOCK2][-1] & 8:
                number += 1
                client.to = sender
                client.send(get((BLOCK2, bytes([number << 4 | 1])), message_id=number + 1))
                answer, _ = await client.receive()
                body += answer.payload
    assert body.count(b"<") == 4


async def test_the_port_is_nobody_else_s_though_a_group_is_joined_beside_it() -> None:
    async with found(["0.0.0.0"]) as served:
        with pytest.raises(SocketError, match="in use"):
            CoapListener(["0.0.0.0"], served.coap_port).open("coap")


def test_only_those_on_the_link_are_on_it() -> None:
    v4 = LinkAddress("eth0", 2, "192.0.2.1", ipaddress.ip_network("192.0.2.0/24"))
    v6 = LinkAddress("eth0", 2, "2001:db8::1", ipaddress.ip_network("2001:db8::/64"))
    assert is_on(v4, "192.0.2.77")
    assert not is_on(v4, "198.51.100.7")
    assert is_on(v6, "2001:db8::77")
    assert is_on(v6, "fe80::1%eth0")
    assert not is_on(v6, "2001:db8:1::77")


async def test_who_is_not_on_the_link_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that lets the group through is one whose networks are elsewhere than its senders."""
    near = multicast.links(["127.0.0.1"])[0]
    narrow = LinkAddress(near.name, near.index, near.address, ipaddress.ip_network("127.0.0.0/31"))
    monkeypatch.setattr(multicast, "links", lambda _hosts: [narrow])
    async with found() as served:
        with (
            Client(GROUP, served.coap_port, source="127.0.0.9") as far,
            Client(GROUP, served.coap_port) as close,
        ):
            far.send(get())
            close.send(get())
            await close.receive()
            assert not far.has_come()


async def test_without_an_interface_for_it_the_server_serves_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = LinkAddress("gone0", 999_999, "192.0.2.1", ipaddress.ip_network("192.0.2.0/24"))
    monkeypatch.setattr(multicast, "links", lambda _hosts: [gone])
    async with found() as served:
        assert served.coap_port
    assert "CoAP is not discovered by multicast on gone0" in caplog.text


async def test_where_the_interface_is_gone_nothing_is_heard_until_it_is_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with found() as served:
        with Client(GROUP, served.coap_port) as client:
            with monkeypatch.context() as gone:
                gone.setattr(multicast, "links", lambda _hosts: [])
                served.group.open()
                client.send(get(message_id=1))
            served.group.open()
            client.send(get(message_id=2))
            answer, _ = await client.receive()
            assert answer.token == b"\x02"
            assert len(served.answers) == 1


@pytest.mark.parametrize(("host", "option"), [("127.0.0.1", 49), ("::1", 29)])
def test_what_comes_over_other_interfaces_is_not_for_who_joined_on_one(
    host: str, option: int
) -> None:
    """The options are Linux's IP_MULTICAST_ALL and IPV6_MULTICAST_ALL, which are on at first."""
    index = socket.if_nametoindex("lo")
    link = LinkAddress("lo", index, host, ipaddress.ip_network(host))
    core = MulticastRequests(lambda *_: None, lambda _size: b"\0\0")
    try:
        group = GroupSocket(core, free_port(), [link])
    except OSError as error:
        skip_or_fail_in_ci(f"no group can be joined on lo from {host}: {error}")
    try:
        level = socket.IPPROTO_IPV6 if link.is_v6 else socket.IPPROTO_IP
        with socket.socket(fileno=os.dup(group.fileno())) as same:
            assert same.getsockopt(level, option) == 0
            assert same.getsockname()[0] == (GROUP_V6 if link.is_v6 else GROUP)
    finally:
        group.close()


def test_what_can_not_be_read_or_sent_on_a_link_ends_nothing() -> None:
    link = multicast.links(["127.0.0.1"])[0]
    core = MulticastRequests(lambda *_: None, lambda _size: b"\0\0")
    group = GroupSocket(core, free_port(), [link])
    group.send(b"lost", PeerAddress(("127.0.0.1", 0)))
    group.close()
    group.receive(0.0)
    group.send(b"lost", PeerAddress(("127.0.0.1", 5683)))
    assert core.datagrams_to_send() == []


async def test_an_interface_that_has_other_networks_now_is_heard_from_those(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    near = multicast.links(["127.0.0.1"])[0]
    narrow = LinkAddress(near.name, near.index, near.address, ipaddress.ip_network("127.0.0.0/31"))
    with monkeypatch.context() as before:
        before.setattr(multicast, "links", lambda _hosts: [narrow])
        async with found() as served:
            before.setattr(multicast, "links", lambda _hosts: [near])
            served.group.open()
            with Client(GROUP, served.coap_port, source="127.0.0.9") as far:
                far.send(get())
                answer, _ = await far.receive()
                assert answer.token == b"\x01"
