"""A healthy start says nothing that looks like trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from ports import free_port

PATIENT_S = 1.0
"""Between HELLOs of neighbours that are not to be taken for dead when this machine is slow."""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def lines(log: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [line for line in (r.getMessage() for r in log.records) if part in line]


def duplicates(gateway: FleetGateway) -> int:
    return int(gateway.process.status()["dialling"]["duplicate_links"])


async def test_the_link_of_two_that_dial_each_other_is_made_once(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    a.plain_port, b.plain_port = free_port(), free_port()
    # By another name than the one that it announces: else who is dialled before it knows its own
    # neighbours is linked to that address already, and does not dial.
    for start in range(5):
        caplog.clear()
        await asyncio.gather(
            a.start(neighbours=[f"localhost:{b.plain_port}"], hello_s=PATIENT_S),
            b.start(neighbours=[f"localhost:{a.plain_port}"], hello_s=PATIENT_S),
        )
        await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
        # The hand-shake that was not needed has ended.
        await until(lambda: duplicates(a) + duplicates(b) > 0)
        assert len(lines(caplog, " is up")) == 4, (start, caplog.text)  # two gateways, two ends
        for trouble in ("is down", "replaced", "refused", "failed", "no link", "closed"):
            assert not lines(caplog, trouble), (start, caplog.text)
        (link,) = a.process.parts.node.links.values()
        (other,) = b.process.parts.node.links.values()
        assert link.dialler_id == other.dialler_id
        await asyncio.gather(a.stop(), b.stop())


async def test_a_gateway_that_was_away_for_long_does_not_say_of_itself_that_it_is_absent(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start(capability=9.0, member_timeout_s=1.0)
    neighbours = [f"127.0.0.1:{a.port}"]
    for _ in range(2):  # the second time its own log has it too
        caplog.clear()
        await b.start(neighbours=neighbours)
        for gateway in (a, b):
            await until(lambda g=gateway: set(g.process.status()["members"]) == {"gw-a", "gw-b"})
        assert not lines(caplog, "absent")
        await b.stop()
        await until(lambda: a.process.status()["members"] == ["gw-a"])
