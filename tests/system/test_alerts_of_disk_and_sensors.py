"""Alerts of a disk that takes nothing and of sensors are raised by what they are about, and end.

A real gateway meets each condition: ext4 meets an error under its open files, a thermometer's file
of the kernel stands still, is damaged, or has a temperature out of its range. A webhook is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from caused_gateway import NAP_S, ONCE, CausedGateway, caused_gateway
from disks import Ext4, unmounted_at_the_end

from gateway.mqtt import Publish

pytestmark = pytest.mark.peer("cc", "gcc")
QUOTA_EXCEEDED = 0x97
SOON_S = 3.0
TAKEN = {0, 0x10}
"""Reason codes of a PUBACK: taken, with a subscriber or without."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[CausedGateway]:
    with caused_gateway(tmp_path) as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path / "disk", tmp_path / "image", size_mib=16)
    made.mount()
    with unmounted_at_the_end(made):
        yield made


async def retained(gateway: CausedGateway, name: str) -> bytes:
    client = await gateway.client(name)
    await client.subscribe("meters/tank")
    message = await client.next()
    assert isinstance(message, Publish)
    client.close()
    return message.payload


@pytest.mark.peer("mkfs.ext4", "e2fsprogs")
async def test_disk_read_only_is_raised_by_its_cause(disk: Ext4, gateway: CausedGateway) -> None:
    gateway.state = disk.folder / "state"
    gateway.more = '[log]\ndurability = "sync"\n'
    try:
        await gateway.start()
        meter = await gateway.client("meter")
        assert await meter.publish("meters/tank", b"41", retain=True) in TAKEN
        panel = await gateway.client("panel")
        await panel.subscribe("campus/-/gw/alerts", qos=0)
        disk.fail_to_read_only()
        await gateway.told("disk-read-only", "raised")
        while b"disk-read-only" not in (await panel.next()).payload:
            pass
        assert await meter.publish("meters/tank", b"42", retain=True) == QUOTA_EXCEEDED
        assert await retained(gateway, "reader") == b"41"
        status = await gateway.status()
        assert status["disk"]["failure"]
        assert status["alerts"]["critical"]
        disk.replace()
        await gateway.told("disk-read-only", "cleared", nap_s=NAP_S)
        gateway.kill()
        await gateway.start()
        assert await retained(gateway, "reader") == b"41", "what was acknowledged is there"
        meter = await gateway.client("meter")
        assert await meter.publish("meters/tank", b"43", retain=True) in TAKEN
        assert gateway.receiver.changes("disk-read-only") == ONCE
    finally:
        gateway.kill()  # before its disk goes


def thermometer(bus: Path, number: int, cel: float, *, is_damaged: bool = False) -> None:
    """Have the kernel show what a thermometer says, and whether that came unharmed."""
    folder = bus / f"28-{number:012x}"
    folder.mkdir(exist_ok=True)
    told = folder / "told"
    verdict, read = "NO" if is_damaged else "YES", "50 05 4b 46 7f ff 0c 10 1c"
    told.write_text(f"{read} : crc=1c {verdict}\n{read} t={cel * 1000:.0f}\n")
    told.replace(folder / "w1_slave")


async def test_what_is_wrong_with_a_sensor_raises_its_rule(gateway: CausedGateway) -> None:
    bus = gateway.folder / "sys/bus/w1/devices"
    bus.mkdir(parents=True)
    rules = ("sensor-range", "sensor-silent", "sensor-stuck")
    alerts = ("{high = 30}", f"{{silent_s = {SOON_S}}}", f"{{stuck_s = {SOON_S}}}")
    for number, (rule, terms) in enumerate(zip(rules, alerts, strict=True)):
        thermometer(bus, number, 20.0)
        gateway.more += f"""
[[sensors]]
type = "onewire"
device = "28-{number:012x}"
name = "{rule}"
interval_s = 0.1
alerts = {terms}
"""
    gateway.machine = gateway.folder
    await gateway.start()
    await gateway.told("sensor-stuck", "raised")  # it says nothing else from the beginning
    thermometer(bus, 0, 35.0)
    thermometer(bus, 1, 20.0, is_damaged=True)
    for rule in rules:
        await gateway.told(rule, "raised")
    thermometer(bus, 0, 25.0)
    thermometer(bus, 1, 20.0)
    await gateway.told("sensor-silent", "cleared")
    await gateway.told("sensor-range", "cleared", nap_s=NAP_S)
    thermometer(bus, 2, 21.0)
    await gateway.told("sensor-stuck", "cleared")
    gateway.kill()  # before it has said that for long, too
    for rule in rules:
        assert gateway.receiver.changes(rule) == ONCE, rule
        assert any(alert.startswith(f"{rule}:gw/{rule}:") for alert, _ in gateway.receiver.told)
