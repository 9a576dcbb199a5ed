"""A gateway that dies is told of by one of the others, once, and so is its return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from ports import free_port

ALERTS = """
[alerts]
look_s = 0.1
after_s = {gateway-away = 0.5, neighbour-away = 0.5, no-link = 0.5}
off = ["clock-not-kept", "disk-full", "hot"]
"""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def alerts(gateway: FleetGateway) -> dict[str, Any]:
    watch = gateway.process.parts.status.alerts
    assert watch is not None
    return dict(watch.document())


def told(gateway: FleetGateway) -> set[tuple[str, str]]:
    return {(one["rule"], one["gateway"]) for one in alerts(gateway)["alerts"] if one["is_told"]}


def known(gateway: FleetGateway) -> int:
    return len(gateway.process.parts.members.known.hierarchy().parents)


async def test_a_gateway_that_dies_is_told_of_by_one_other_alone(fleet: Fleet) -> None:
    a, b, c = (fleet.gateway(name, tls=False) for name in ("gw-a", "gw-b", "gw-c"))
    for one in (a, b, c):
        one.access, one.plain_port, one.place = ALERTS, free_port(), 'domain = "campus"'
    for one, capability in ((a, 30.0), (b, 20.0), (c, 10.0)):
        others = [f"127.0.0.1:{other.plain_port}" for other in (a, b) if other is not one]
        await one.start(neighbours=others, capability=capability, hello_s=0.2)
    await until(lambda: a.links == {"gw-b", "gw-c"} and len(b.links) == 2)
    await until(
        lambda: all(
            len(one.process.parts.members.known.hierarchy().parents) == 3 for one in (a, b, c)
        )
    )
    assert told(a) | told(b) == set()
    await c.stop()
    await until(lambda: ("gateway-away", "gw-c") in told(a))
    assert ("gateway-away", "gw-c") not in told(b), "it is not its parent"
    await c.start(neighbours=[f"127.0.0.1:{a.plain_port}"], capability=10.0, hello_s=0.2)
    await until(lambda: a.links == {"gw-b", "gw-c"})


async def test_who_has_no_link_says_that_alone(fleet: Fleet) -> None:
    a, b = (fleet.gateway(name, tls=False) for name in ("gw-a", "gw-b"))
    for one in (a, b):
        one.access = ALERTS
        one.plain_port = free_port()
    await a.start(hello_s=0.2)
    await b.start(neighbours=[f"127.0.0.1:{a.plain_port}"], hello_s=0.2)
    await until(lambda: b.links == {"gw-a"})
    await until(lambda: known(b) == 2)
    await a.stop()
    await until(lambda: told(b) == {("no-link", "gw-b")})
