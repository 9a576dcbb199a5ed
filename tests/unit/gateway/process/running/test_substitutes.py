"""A gateway whose configured neighbour is gone dials another one of the fleet, and returns (A2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from authority import Authority
from fleet_gateway import Fleet, FleetGateway, until
from loop_turns import turns
from ports import free_port

from gateway.node.links.neighbours import Neighbours
from gateway.node.links.node import TreeNode
from gateway.node.links.tcp import TcpAddress
from gateway.process.configuration.config import ConfigError, TreeSection
from gateway.process.running import substitutes
from gateway.process.running.substitutes import SubstitutePart
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.substitution import CANDIDATES_MAX

SOON = {"substitute_after_s": 0.3}
OWN, HOME = TcpAddress("127.0.0.1", 1883), TcpAddress("127.0.0.1", 1884)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def reached(gateway: FleetGateway) -> set[str]:
    return set(gateway.process.parts.node.locator.reached)


def dialling(gateway: FleetGateway) -> dict[str, int]:
    told: dict[str, int] = gateway.process.status()["dialling"]
    return told


async def test_children_of_a_gateway_that_is_gone_find_each_other_and_return_to_it(
    fleet: Fleet,
) -> None:
    root, a, b = (fleet.gateway(name, tls=False) for name in ("gw-root", "gw-a", "gw-b"))
    root.plain_port = free_port()
    await root.start(capability=9.0, dial_back=False)
    home = [f"127.0.0.1:{root.plain_port}"]
    for one in (a, b):
        await one.start(neighbours=home, dial_back=False, **SOON)
    await until(
        lambda: reached(a) == {"gw-root", "gw-b"} and len(a.process.status()["members"]) == 3
    )
    await until(lambda: len(b.process.status()["members"]) == 3)
    await root.stop()
    await until(lambda: reached(a) == {"gw-b"} and reached(b) == {"gw-a"})
    assert dialling(a)["substitute"] + dialling(b)["substitute"] >= 1
    await root.start(capability=9.0, dial_back=False)
    await until(lambda: dialling(a)["substitute"] == dialling(b)["substitute"] == 0)
    await until(lambda: a.links == b.links == {"gw-root"})
    await until(lambda: reached(a) == {"gw-root", "gw-b"})


async def test_a_substitute_is_found_over_tls_by_the_port_that_its_record_names(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    root, a, b = (fleet.gateway(name) for name in ("gw-root", "gw-a", "gw-b"))
    await root.start(capability=9.0)
    for one in (a, b):
        await one.start(neighbours=[f"127.0.0.1:{root.port}"], **SOON)
    for one in (a, b):
        await until(lambda one=one: len(one.process.status()["members"]) == 3)
    known = a.process.parts.members.known.get("gw-b")
    assert known is not None and known.link_port == b.port
    await root.stop()
    await until(lambda: reached(a) == {"gw-b"} and reached(b) == {"gw-a"})
    assert "no configured neighbour is linked: gw-" in caplog.text


async def test_who_has_no_certificate_of_the_fleet_is_no_substitute(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    a = fleet.gateway("gw-a")
    stranger = FleetGateway(tmp_path, "gw-x", other.issue("gw-x", is_gateway=True), other.file)
    await stranger.start()
    try:
        await a.start(neighbours=[f"127.0.0.1:{free_port()}"], **SOON)
        known = a.process.parts.members.known
        known.update(MemberRecord("gw-x", 1, 0, "", "", "127.0.0.1", 1883, link_port=stranger.port))
        await until(lambda: dialling(a)["substitute"] == 1)
        there = str(TcpAddress("127.0.0.1", stranger.port))

        def failed() -> int:
            addresses = a.process.status()["dialling"]["addresses"]
            return sum(one["failed"] for one in addresses if one["address"] == there)

        await until(lambda: failed() > 1)
        assert a.links == stranger.links == set()
    finally:
        await stranger.stop()


class Alone:
    """gw-a, whose neighbour at ``HOME`` is gone for good, and whom it dials instead."""

    def __init__(self, own: TcpAddress, substitute_after_s: float = 60.0) -> None:
        self.known = Membership()
        self.known.update(MemberRecord("gw-a", 1, 0, "", "", own.host, own.port))
        self.dialled: dict[str, TcpAddress] = {}
        node = SimpleNamespace(
            tree=SimpleNamespace(identity=SimpleNamespace(gateway_id="gw-a")),
            locator=SimpleNamespace(reached=set()),
            links={},
            reschedule=lambda: None,
        )
        neighbours = SimpleNamespace(
            has_static_link=False,
            is_static=lambda address: address == HOME,
            add_substitute=lambda address, member: self.dialled.update({member: address}),
            remove_substitute=lambda _: None,
        )
        tree = TreeSection(Path("key"), tls="off", substitute_after_s=substitute_after_s)
        self.part = SubstitutePart(
            cast(TreeNode, node), self.known, cast(Neighbours, neighbours), tree
        )
        self.part.begin(own)

    async def dials(self, within_s: int = 3_600) -> dict[str, TcpAddress]:
        """Return the members that it has dialled within that time, with their addresses."""
        for second in range(0, within_s, 5):
            self.part.handle_timer(float(second))
            for _ in range(3):
                await asyncio.sleep(0)
        return self.dialled


async def test_what_a_members_address_says_is_dialled_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def found(_: str) -> list[str]:
        return ["10.0.0.7"]

    monkeypatch.setattr(substitutes, "look_up", found)
    a = Alone(OWN)
    for number, (address, port) in enumerate(
        [
            ("224.0.0.1", 1883),
            ("0.0.0.0", 1883),  # it is what is refused
            ("169.254.169.254", 80),
            (HOME.host, HOME.port),  # it is dialled anyway
            (OWN.host, OWN.port),  # this gateway
            ("10.0.0.9", 0),  # takes no links
        ]
    ):
        a.known.update(MemberRecord(f"gw-{number}", 1, 0, "", "", address, 0, link_port=port))
    assert await a.dials() == {}
    await a.part.stop()
    for own in (OWN, TcpAddress("10.0.0.2", 1883)):
        a = Alone(own)
        a.known.update(MemberRecord("gw-host", 1, 0, "", "", "gw.example", 0, link_port=8883))
        a.known.update(MemberRecord("gw-old", 1, 0, "", "", "10.0.0.8", 1883))
        a.known.update(MemberRecord("gw-here", 1, 0, "", "", "127.0.0.1", 0, link_port=631))
        wanted = {"gw-host": TcpAddress("10.0.0.7", 8883), "gw-old": TcpAddress("10.0.0.8", 1883)}
        if own == OWN:  # whoever is elsewhere dials nothing here
            wanted["gw-here"] = TcpAddress("127.0.0.1", 631)
        assert await a.dials() == wanted
        await a.part.stop()


async def test_of_a_large_fleet_so_many_are_tried_and_a_name_that_leads_nowhere_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def found(name: str) -> list[str]:
        return ["224.0.0.1"] if name == "gw-0.example" else ["10.0.0.7"]

    caplog.set_level("INFO")
    monkeypatch.setattr(substitutes, "look_up", found)
    a = Alone(OWN)
    for number in range(CANDIDATES_MAX + 3):
        name = f"gw-{number}"
        record = MemberRecord(
            *(name, 1, 0, "", "", f"{name}.example", 0),
            capability=100.0 - number,
            link_port=8883,
        )
        a.known.update(record)
    dialled = await a.dials(7_200)
    assert set(dialled) == {f"gw-{number}" for number in range(1, CANDIDATES_MAX)}
    assert "gw-0 is not dialled: gw-0.example is no address for that" in caplog.text
    await a.part.stop()


async def test_without_a_time_for_it_nobody_is_dialled(fleet: Fleet) -> None:
    alone = Alone(OWN, substitute_after_s=0.0)
    alone.known.update(MemberRecord("gw-old", 1, 0, "", "", "10.0.0.8", 1883))
    assert alone.part.next_timer() == math.inf
    assert await alone.dials() == {}
    await alone.part.stop()
    a = fleet.gateway("gw-a", tls=False)
    with pytest.raises(ConfigError, match="substitute_after_s"):
        a.write(substitute_after_s=-1.0)
        a.read()


@pytest.mark.parametrize(
    ("substitute_after_s", "expected_s"), [(8.0, 8.0), (60.0, 60.0), (61.0, 60.0), (600.0, 60.0)]
)
async def test_it_is_waited_for_as_long_as_is_told_and_half_of_a_members_time_at_most(
    substitute_after_s: float, expected_s: float
) -> None:
    alone = Alone(OWN, substitute_after_s=substitute_after_s)
    alone.known.update(MemberRecord("gw-old", 1, 0, "", "", "10.0.0.8", 1883))
    second = 0
    while not alone.dialled:
        alone.part.handle_timer(float(second))
        await turns(2)
        second += 1
    first_s = second - 1
    assert 0.75 * expected_s <= first_s <= 1.25 * expected_s + 1
    await alone.part.stop()


async def test_a_change_of_links_or_of_the_tree_is_looked_at_once_it_has_settled() -> None:
    alone = Alone(OWN)
    assert alone.part.next_timer() == 0.0
    alone.part.handle_timer(100.0)
    assert alone.part.next_timer() == 100.0 + substitutes.LOOK_S
    changes = (
        lambda now: alone.part.link_up(1, "gw-b", now),
        lambda now: alone.part.link_down(1, now),
        alone.part.tree_changed,
    )
    for number, change in enumerate(changes, 1):
        now = 100.0 + 10.0 * number
        alone.part.handle_timer(now)
        change(now + 1.0)
        change(now + 2.0)
        assert alone.part.next_timer() == now + 1.0 + substitutes.SETTLE_S
    await alone.part.stop()
    assert alone.part.next_timer() == math.inf
    alone.part.tree_changed(200.0)
    assert alone.part.next_timer() == math.inf
