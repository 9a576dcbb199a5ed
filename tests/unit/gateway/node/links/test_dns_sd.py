"""Gateways that are listed by DNS-SD are found; what is listed there is not believed."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import LIMIT_S, Fleet, until
from zeroconf import IPVersion
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from gateway.node.links.dns_sd import SERVICE, DnsSd
from gateway.node.links.tcp import TcpAddress
from gateway.node.links.transport import Address
from tree_handler.discovery import Announcement

pytestmark = pytest.mark.slow

LOOPBACK = ["127.0.0.1"]


class Listing:
    def __init__(self) -> None:
        self.now: dict[TcpAddress, str] = {}

    def add_listed(self, address: TcpAddress, peer_id: str) -> None:
        self.now[address] = peer_id

    def remove_listed(self, address: TcpAddress) -> None:
        self.now.pop(address, None)


@contextlib.asynccontextmanager
async def listed(
    name: str, port: int, tree: str = "tree-of-dns-sd"
) -> AsyncIterator[tuple[DnsSd, Listing]]:
    listing = Listing()
    one = DnsSd(Announcement(tree, name, 1, "127.0.0.1", port), LOOPBACK, listing)
    await one.start()
    try:
        yield one, listing
    finally:
        await one.stop()


async def test_gateways_of_one_tree_find_each_other_and_forget_who_leaves() -> None:
    async with listed("gw-a", 1001) as (_, a):
        async with listed("gw-b", 1002) as (_, b), listed("gw-x", 1003, "another"):
            await until(lambda: a.now == {TcpAddress("127.0.0.1", 1002): "gw-b"})
            await until(lambda: b.now == {TcpAddress("127.0.0.1", 1001): "gw-a"})
        await until(lambda: not a.now)


async def test_one_that_takes_no_links_is_not_listed_but_finds_others() -> None:
    async with listed("gw-a", 1001) as (_, a), listed("collector", 0) as (_, collector):
        await until(lambda: collector.now == {TcpAddress("127.0.0.1", 1001): "gw-a"})
        assert a.now == {}


async def test_what_is_listed_tells_no_secret_and_nonsense_is_passed_over() -> None:
    async with listed("gw-a", 1001) as (_, a):
        other = AsyncZeroconf(interfaces=LOOPBACK, ip_version=IPVersion.V4Only)
        try:
            found = AsyncServiceInfo(SERVICE, f"gw-a.{SERVICE}")
            assert await found.async_request(other.zeroconf, LIMIT_S * 1000)
            assert found.properties == {b"id": b"gw-a", b"tree": b"tree-of-dns-sd"}
            for number, txt in enumerate(
                ({}, {"tree": "tree-of-dns-sd", "id": "No Name"}, {"tree": "tree-of-dns-sd"})
            ):
                await other.async_register_service(
                    AsyncServiceInfo(
                        SERVICE,
                        f"nonsense-{number}.{SERVICE}",
                        port=9,
                        addresses=[b"\x7f\0\0\1"],
                        properties=txt,
                        server="nonsense.local.",
                    )
                )
            async with listed("gw-b", 1002):
                await until(lambda: TcpAddress("127.0.0.1", 1002) in a.now)
            assert TcpAddress("127.0.0.1", 9) not in a.now
        finally:
            await other.async_close()


async def test_an_address_that_is_no_one_machines_takes_no_place_of_one_that_is() -> None:
    async with listed("gw-a", 1001) as (_, a):
        other = AsyncZeroconf(interfaces=LOOPBACK, ip_version=IPVersion.V4Only)
        told = ("0.0.0.0", "224.0.0.5", "240.0.0.1", "255.255.255.255", "192.0.2.7")
        try:
            await other.async_register_service(
                AsyncServiceInfo(
                    SERVICE,
                    f"gw-c.{SERVICE}",
                    port=9,
                    addresses=[ipaddress.ip_address(one).packed for one in told],
                    properties={"tree": "tree-of-dns-sd", "id": "gw-c"},
                    server="gw-c.local.",
                )
            )
            await until(lambda: TcpAddress("192.0.2.7", 9) in a.now)
            assert len(a.now) == 1
        finally:
            await other.async_close()


async def test_an_interface_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        DnsSd(Announcement("t", "gw-a", 1, "127.0.0.1", 1), ["192.0.2.1"], Listing())


async def test_gateways_link_that_were_found_by_dns_sd_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path)
    a, b = fleet.gateway("gw-a"), fleet.gateway("gw-b")
    try:
        # They know each other from nothing else, and no link breaks by itself.
        tree = {"name": "listed-tree", "dial_back": False, "hello_s": 1.0}
        await a.start(**tree, dns_sd=True)
        await b.start(**tree, dns_sd=True)
        await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
        neighbours = a.process.parts.attachment.neighbours
        add, remove = neighbours.add_listed, neighbours.remove_listed
        listed: set[Address] = {TcpAddress("127.0.0.1", b.port)}

        def added(address: Address, peer_id: str) -> None:
            listed.add(address)
            add(address, peer_id)

        def removed(address: Address) -> None:
            remove(address)
            listed.discard(address)

        monkeypatch.setattr(neighbours, "add_listed", added)
        monkeypatch.setattr(neighbours, "remove_listed", removed)
        b.write(**tree)
        await b.process.reload()
        await until(lambda: not listed)
        assert a.links == {"gw-b"}  # a link that there is stays
    finally:
        await fleet.stop()
