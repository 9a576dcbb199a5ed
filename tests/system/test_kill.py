"""Each of the three gateways is killed with SIGKILL at a moment of chance, and started again.

No message that a surviving gateway had acknowledged is lost, nor one that a killed gateway had
in its log, and none is doubled: counted from the Spark table against what the publishers noted.
With ``--soak`` alone: the demonstration kills the root among others and counts likewise
(`test_demo`), and gateways die in the mesh that `tests/network/test_chaos.py` disturbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from gateway.sensors import recorded
from gateway.tools.demo import count
from gateway.tools.demo.device import Device
from gateway.tools.demo.fleet import Fleet


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(1, 21))
async def test_killing_any_gateway_at_any_moment_loses_and_doubles_nothing(
    seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--soak"):
        pytest.skip("takes minutes: --soak")
    chance = random.Random(seed)
    order = ["gw-root", "gw-north", "gw-south"]
    chance.shuffle(order)
    async with Fleet(tmp_path) as fleet:
        await asyncio.gather(*(fleet.start_gateway(name) for name in order))
        await fleet.start_collector()
        devices = {
            name: Device(
                name,
                f"{member.site.prefix}/device/irradiance",
                member.mqtt_port,
                recorded.load("irradiance"),
                rate_hz=100,
                speed=90_000,
            )
            for name, member in fleet.members.items()
        }
        publishing = asyncio.gather(*(device.run() for device in devices.values()))
        for name in order:
            await asyncio.sleep(chance.uniform(0.2, 3.0))
            await fleet.kill(name)
            await asyncio.sleep(chance.uniform(0.0, 3.0))
            await fleet.start_gateway(name)
        await asyncio.sleep(1.0)
        for device in devices.values():
            device.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await publishing
        await count.settle(fleet)
    notes = {name: device.notes for name, device in devices.items()}
    counted = await count.count(fleet, notes, killed=order)
    account = counted.account
    assert all(len(one.acknowledged) > 100 for one in notes.values())
    assert account["ingested"] >= account["acknowledged"]
    assert (account["lost"], account["doubled"]) == (0, 0), account["lost_examples"]
    assert account["acknowledged_before_log"] == 0
    assert counted.fleet["totals"]["gaps"] == 0
    assert counted.fleet["totals"]["duplicates"] == 0
