"""A gateway whose configured neighbour is gone dials another one of the fleet, and returns (A2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority
from fleet_gateway import Fleet, FleetGateway, until
from ports import free_port

from gateway.node.links.tcp import TcpAddress
from gateway.process.configuration.config import ConfigError
from tree_handler.members.member import MemberRecord

SOON = {"substitute_after_s": 0.3}


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


async def test_what_a_members_address_says_is_dialled_within_bounds(fleet: Fleet) -> None:
    a = fleet.gateway("gw-a", tls=False)
    a.plain_port, home = free_port(), free_port()
    await a.start(neighbours=[f"127.0.0.1:{home}"], substitute_after_s=60.0)
    part = a.process.parts.attachment._substitutes
    assert part is not None
    known = a.process.parts.members.known
    for number, (address, port) in enumerate(
        [
            ("224.0.0.1", 1883),
            ("0.0.0.0", 1883),  # it is what is refused
            ("169.254.169.254", 80),
            ("127.0.0.1", home),  # it is dialled anyway
            ("127.0.0.1", a.plain_port),  # this gateway
            ("10.0.0.9", 0),  # takes no links
        ]
    ):
        known.update(MemberRecord(f"gw-{number}", 1, 0, "", "", address, 0, link_port=port))
    assert part._candidates() == []
    known.update(MemberRecord("gw-host", 1, 0, "", "", "gw.example", 0, link_port=8883))
    known.update(MemberRecord("gw-old", 1, 0, "", "", "10.0.0.8", 1883))
    found = {one.id: (one.host, one.port) for one in part._candidates()}
    assert found == {"gw-host": ("gw.example", 8883), "gw-old": ("10.0.0.8", 1883)}
    part._own = TcpAddress("10.0.0.2", 1883)  # whoever is elsewhere dials nothing here
    known.update(MemberRecord("gw-here", 1, 0, "", "", "127.0.0.1", 0, link_port=631))
    assert "gw-here" not in {one.id for one in part._candidates()}


async def test_without_a_time_for_it_nobody_is_dialled(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await b.start()
    await a.start(neighbours=[f"127.0.0.1:{free_port()}"], substitute_after_s=0.0)
    part = a.process.parts.attachment._substitutes
    assert part is not None
    assert part.next_timer() == float("inf")
    with pytest.raises(ConfigError, match="substitute_after_s"):
        a.write(substitute_after_s=-1.0)
        a.read()
