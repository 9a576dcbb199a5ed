"""A gateway that dies is told of by one of the others, once, and so is its return."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from ports import free_port

from alerts.desk import AlertNotFoundError
from gateway.node.members.roll import MemberRoll

ALERTS = """
[alerts]
look_s = 0.1
after_s = {gateway-away = 0.5, neighbour-away = 6, no-link = 0.5}
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
    a, b, c, d = (fleet.gateway(f"gw-{name}", tls=False) for name in "abcd")
    for one in (a, b, c, d):
        one.access, one.plain_port, one.place = ALERTS, free_port(), 'domain = "campus"'
    for one, capability in ((a, 30.0), (b, 20.0), (c, 10.0), (d, 10.0)):
        others = [f"127.0.0.1:{other.plain_port}" for other in (a, b) if other is not one]
        await one.start(neighbours=others, capability=capability, hello_s=0.2, member_timeout_s=3.0)
    await until(lambda: a.links == {"gw-b", "gw-c", "gw-d"} == b.links - {"gw-a"} | {"gw-b"})
    await until(lambda: all(known(one) == 4 for one in (a, b, c, d)))
    assert told(a) | told(b) == set()
    await c.stop()
    await until(lambda: ("gateway-away", "gw-c") in told(a))
    assert ("gateway-away", "gw-c") not in told(b), "it is not its parent"
    await until(lambda: known(a) == known(b) == 3)  # it is taken out of the records
    assert ("gateway-away", "gw-c") in told(a), "and is not back by that"
    await a.stop()  # the next one is the parent now, and the alert of its head hides the other
    await until(lambda: ("gateway-away", "gw-a") in told(b))
    assert told(b) == {("gateway-away", "gw-a")}
    assert told(d) == set()


async def test_the_alert_of_a_gateway_that_will_not_come_back_is_closed(fleet: Fleet) -> None:
    a, b = (fleet.gateway(name, tls=False) for name in ("gw-a", "gw-b"))
    c = fleet.gateway("gw-c", tls=False)
    for one in (a, b, c):
        one.access, one.plain_port = ALERTS, free_port()
    for one, capability in ((a, 30.0), (b, 10.0), (c, 10.0)):
        others = [] if one is a else [f"127.0.0.1:{a.plain_port}"]
        await one.start(neighbours=others, capability=capability, hello_s=0.2, member_timeout_s=3.0)
    await until(lambda: known(a) == 3)
    await b.stop()
    await until(lambda: ("gateway-away", "gw-b") in told(a) and known(a) == 2)
    (alert,) = [one["alert"] for one in alerts(a)["alerts"] if one["rule"] == "gateway-away"]
    watch = a.process.parts.alerts
    assert watch is not None
    await watch.order(json.dumps({"do": "close", "alert": alert}).encode(), "key:alice")
    assert [one["alert"] for one in alerts(a)["cleared"]] == [alert]
    assert told(a) == set()
    with pytest.raises(AlertNotFoundError, match="gw-b"):
        await watch.order(json.dumps({"do": "close", "alert": alert}).encode(), "key:alice")


@pytest.mark.slow
async def test_the_alert_of_a_gateway_that_is_forgotten_ends_wherever_that_is_said(
    fleet: Fleet,
) -> None:
    a, b, c = (fleet.gateway(f"gw-{name}", tls=False) for name in "abc")
    for one in (a, b, c):
        one.access, one.plain_port = ALERTS, free_port()
    for one, capability in ((a, 30.0), (b, 10.0), (c, 10.0)):
        others = [] if one is a else [f"127.0.0.1:{a.plain_port}"]
        await one.start(neighbours=others, capability=capability, hello_s=0.2, member_timeout_s=3.0)
    await until(lambda: known(a) == 3)
    await b.stop()
    await until(lambda: ("gateway-away", "gw-b") in told(a) and known(a) == known(c) == 2)
    roll = MemberRoll(c.process.parts.members, c.process.parts.node)
    assert roll.forget("gw-b", "key:alice")
    assert not roll.forget("gw-b", "key:alice"), "nothing is left to forget"
    assert not roll.forget("gw-never", "key:alice")
    await until(lambda: not told(a))
    assert [one["gateway"] for one in alerts(a)["cleared"]] == ["gw-b"]
    await b.start(neighbours=[f"127.0.0.1:{a.plain_port}"], capability=10.0, hello_s=0.2)
    await until(lambda: known(a) == known(c) == 3)


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
