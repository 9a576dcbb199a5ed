"""CoAP resources as Mosquitto's command-line clients meet them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway

pytestmark = [
    pytest.mark.peer("mosquitto_rr", "mosquitto-clients"),
    pytest.mark.peer("mosquitto_sub", "mosquitto-clients"),
]
VALVE = "gw-a/sensors/valve"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    fleet = Fleet(tmp_path)
    one = fleet.gateway("gw-a", tls=False)
    (tmp_path / "policy.toml").write_text('version = 1\n[principals]\n"stranger" = ["operator"]\n')
    one.access = (
        f'policy_file = "{tmp_path}/policy.toml"\n[[sensors]]\ntype = "switch"\nname = "valve"\n'
    )
    await one.start()
    yield one
    await fleet.stop()


async def asked(gateway: FleetGateway, *arguments: str) -> str:
    """Run mosquitto_rr; return what it prints of an answer."""
    port = gateway.process.mqtt_port
    process = await asyncio.create_subprocess_exec(
        *("mosquitto_rr", "-V", "5", "-p", str(port), "-e", "answers/me", "-W", "20", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()


async def test_mosquitto_rr_writes_and_reads_an_actuator(gateway: FleetGateway) -> None:
    written = await asked(gateway, "-t", f"$coap/PUT/{VALVE}", "-m", "1", "-F", "%P")
    assert "code:2.04" in written
    accept = ("-D", "publish", "user-property", "accept", "text/plain")
    read = await asked(gateway, "-t", f"$coap/GET/{VALVE}", "-n", *accept, "-F", "%C|%P|%p")
    assert read.startswith("text/plain|")
    assert "code:2.05" in read
    assert read.strip().endswith("|1.0")


async def test_mosquitto_sub_is_told_what_it_observes(gateway: FleetGateway) -> None:
    port = gateway.process.mqtt_port
    process = await asyncio.create_subprocess_exec(
        *("mosquitto_sub", "-p", str(port), "-t", f"$coap/observe/{VALVE}", "-C", "1", "-W", "20"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert b"valve" in output
    assert process.returncode == 0
