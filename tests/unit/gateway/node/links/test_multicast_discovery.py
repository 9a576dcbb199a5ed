"""Gateways on one machine find each other over loopback multicast (row C1)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from missing_peer import skip_or_fail_in_ci
from ports import free_port

from gateway.node.links.discovery import (
    GROUP,
    GROUP_V6,
    DiscoveryError,
    Group,
    MulticastDiscovery,
)
from tree_handler.discovery import Announcement, AnnouncementTimes, Discovery

KEY = b"k" * 32


class Gateway:
    """One that announces itself, and what it has heard."""

    def __init__(self, name: str, group: Group, tree: str = "demo", key: bytes = KEY) -> None:
        self.own = Announcement(tree, name, 1, "127.0.0.1", 1883)
        self.core = Discovery(
            self.own, key, asyncio.get_running_loop().time(), AnnouncementTimes(0.2, 0.1)
        )
        self.heard: asyncio.Queue[Announcement] = asyncio.Queue()
        self.shell = MulticastDiscovery(self.core, group, self.heard.put_nowait)

    async def hears(self, *others: Gateway) -> set[str]:
        """Wait until each of the others was heard; the ids of all that were heard until then."""
        missing = {other.own.gateway_id for other in others}
        heard: set[str] = set()
        while not missing <= heard:
            heard.add((await self.heard.get()).gateway_id)
        return heard


@pytest.fixture
def group() -> Group:
    return Group("127.0.0.1", port=free_port())


@contextlib.asynccontextmanager
async def running(*gateways: Gateway) -> AsyncIterator[None]:
    try:
        for gateway in gateways:
            await gateway.shell.join()
            gateway.shell.begin()
        yield
    finally:
        for gateway in gateways:
            await gateway.shell.stop()


async def test_gateways_of_one_tree_find_each_other(group: Group) -> None:
    gateways = [Gateway(name, group) for name in ("gw-a", "gw-b", "gw-c")]
    async with running(*gateways):
        for gateway in gateways:
            await gateway.hears(*(other for other in gateways if other is not gateway))
            assert gateway.core.counters.own > 0


async def test_a_newcomer_may_join_at_any_time(group: Group) -> None:
    first, second, newcomer = (Gateway(name, group) for name in ("gw-a", "gw-b", "gw-c"))
    async with running(first, second):
        await first.hears(second)
        async with running(newcomer):
            await newcomer.hears(first, second)
            await first.hears(newcomer)


async def test_foreign_trees_and_forgers_on_the_same_group_are_not_found(group: Group) -> None:
    a, b = Gateway("gw-a", group), Gateway("gw-b", group)
    foreign = Gateway("gw-x", group, tree="other")
    forger = Gateway("gw-y", group, key=b"x" * 32)
    async with running(foreign, forger, a, b):
        heard = await a.hears(b)
        while not (a.core.counters.foreign and a.core.counters.refused):
            heard |= await a.hears(b)
        assert heard == {"gw-b"}
        assert foreign.heard.empty()
        assert forger.heard.empty()


async def test_a_stopped_gateway_is_silent_and_leaves_nothing_behind(group: Group) -> None:
    tasks = asyncio.all_tasks()
    a, b, c = (Gateway(name, group) for name in ("gw-a", "gw-b", "gw-c"))
    async with running(a, c):
        async with running(b):
            await a.hears(b)
        sent = b.core.counters.sent
        for _ in range(3):
            await a.hears(c)
        assert b.core.counters.sent == sent
    assert asyncio.all_tasks() == tasks


async def test_one_that_is_stopped_twice_or_before_it_began_stays_stopped(group: Group) -> None:
    gateway = Gateway("gw-a", group)
    await gateway.shell.stop()
    await gateway.shell.join()
    for _ in range(2):
        await gateway.shell.stop()
    assert gateway.core.counters.sent == 0


async def test_an_interface_that_is_not_there_is_named() -> None:
    shell = Gateway("gw-a", Group("192.0.2.1", port=17_883)).shell
    with pytest.raises(
        DiscoveryError, match=r"discovery group 239\.255\.72\.71:17883 on 192\.0\.2\.1"
    ):
        await shell.join()
    await shell.stop()


async def test_a_group_is_named_where_no_descriptor_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    shell = Gateway("gw-a", Group("127.0.0.1", port=17_883)).shell
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", full)
        with pytest.raises(DiscoveryError, match=r"17883 on 127\.0\.0\.1.*Too many open files"):
            await shell.join()


@pytest.mark.parametrize(
    ("group", "named"),
    [
        (("127.0.0.1", "ff12::1"), "ff12::1 is no group of IPv4"),
        (("::1", "239.0.0.1"), "239.0.0.1 is no group of IPv6"),
        (("127.0.0.1", "239.0.0.1", 65_536), "65536 is not a port"),
        (("239.0.0.1",), "239.0.0.1 is not the address of an interface"),
        (("eth0",), "'eth0'"),
        (("0.0.0.0",), "0.0.0.0 is not the address of an interface"),
        (("127.0.0.1", "10.0.0.1"), "10.0.0.1 is not a multicast group"),
        (("127.0.0.1", "239.0.0.1", 0), "0 is not a port"),
    ],
)
def test_a_wrong_group_is_refused_naming_the_part(group: tuple[str, str, int], named: str) -> None:
    with pytest.raises(DiscoveryError, match=named):
        Group(*group)


def test_loopback_announcements_never_leave_the_machine() -> None:
    assert Group("127.0.0.1").ttl == 0
    assert Group("192.0.2.1").ttl == 1


@pytest.mark.parametrize(
    ("interface", "group_address", "expected"),
    [
        ("10.0.0.1", "239.1.2.3", "239.1.2.3"),
        ("fd00::1", "239.1.2.3", GROUP_V6),
        ("fd00::1", "ff12::1", "ff12::1"),
        ("10.0.0.1", "ff12::1", GROUP),
    ],
)
def test_each_interface_has_the_group_of_its_ip_version(
    interface: str, group_address: str, expected: str
) -> None:
    assert Group.on(interface, group_address, 17883).address == expected


async def test_a_socket_that_can_not_send_is_told_once_until_one_is_heard_again(
    caplog: pytest.LogCaptureFixture, group: Group
) -> None:
    gateway, other = Gateway("gw-a", group), Gateway("gw-b", group)
    unreachable = OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
    gateway.shell.begin()  # it has no socket yet
    for _ in range(2):
        gateway.shell.error_received(unreachable)
    told = f"discovery group {GROUP}:{group.port} on 127.0.0.1: {unreachable}"
    assert [record.getMessage() for record in caplog.records] == [told]
    datagram = other.own.encode(KEY)
    gateway.shell.datagram_received(datagram, ("10.0.0.2", 1))
    assert gateway.heard.get_nowait() == other.own
    gateway.shell.error_received(unreachable)
    assert [record.getMessage() for record in caplog.records] == [told, told]
    gateway.shell.connection_lost(unreachable)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "ERROR"]
    gateway.shell.connection_lost(None)
    assert len(caplog.records) == 3


class FailingTransport(asyncio.DatagramTransport):
    """Sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[tuple[bytes, object]] = []
        self.is_over = False

    def sendto(self, data: object, addr: object = None) -> None:
        assert isinstance(data, bytes)
        self.tried.append((data, addr))
        raise OSError(errno.ENETDOWN, "down")

    def is_closing(self) -> bool:
        return self.is_over


async def test_an_announcement_that_fails_is_told_and_the_next_one_is_due(
    caplog: pytest.LogCaptureFixture, group: Group
) -> None:
    gateway, transport = Gateway("gw-a", group), FailingTransport()
    gateway.shell.connection_made(transport)
    gateway.shell.begin()
    assert [data for data, _ in transport.tried] == [gateway.own.encode(KEY)]
    assert "down" in caplog.text
    now = asyncio.get_running_loop().time()
    assert 0.1 < gateway.core.next_timer() - now <= 0.25
    await gateway.shell.stop()
    transport.is_over = True
    gateway.shell.datagram_received(Gateway("gw-b", group).own.encode(KEY), ("10.0.0.2", 1))
    assert gateway.heard.get_nowait().gateway_id == "gw-b"  # and no timer is left behind


class Kept(socket.socket):
    """A socket that a test can look at."""

    made: ClassVar[list[socket.socket]] = []

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made.append(self)


@pytest.mark.parametrize(
    ("interface", "layer", "hops", "heard_here"),
    [
        ("127.0.0.1", socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, socket.IP_MULTICAST_LOOP),
        ("::1", socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, socket.IPV6_MULTICAST_LOOP),
    ],
)
async def test_a_group_is_joined_for_its_interface_alone_and_no_further_than_it_may_go(
    monkeypatch: pytest.MonkeyPatch, interface: str, layer: int, hops: int, heard_here: int
) -> None:
    if interface == "::1" and not Path("/proc/net/if_inet6").exists():
        skip_or_fail_in_ci("no IPv6 here")
    group = Group.on(interface, GROUP, free_port())
    shell = Gateway("gw-a", group).shell
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", Kept)
        patched.setattr(Kept, "made", [])
        await shell.join()
        (joined,) = Kept.made
    assert joined.getsockopt(layer, hops) == group.ttl
    assert joined.getsockopt(layer, heard_here) == 1
    assert joined.getsockopt(layer, 49 if layer == socket.IPPROTO_IP else 29) == 0
    assert joined.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    assert joined.getsockname()[:2] == (group.address, group.port)
    await shell.stop()
