"""Alerts about the tree and the log, raised by what they are about.

A real gateway meets each condition: a root that is killed again and again, a log that is damaged
while its gateway is down. A webhook is told.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alert_receiver import AlertReceiver
from brokers import Gateway
from fleet_gateway import FleetGateway
from mqtt_peer import Peer
from ports import free_port

from gateway.alerting.judging import ELECTIONS
from gateway.mqtt import Version

PATIENCE_S = 120.0


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    made = AlertReceiver()
    with made.serving():
        yield made


async def until(holds: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None


def alerts_to(receiver: AlertReceiver, rule: str) -> str:
    """Configuration by which this one rule is told soon."""
    return f"""
[alerts]
look_s = 0.1
gather_s = 0
after_s = {{{rule} = 0}}
routes = [{{to = ["webhook"], match = {{rule = "{rule}"}}}}]
webhook = {{url = "{receiver.url}"}}
"""


def changes(receiver: AlertReceiver, rule: str) -> list[str]:
    """What was told of a rule, each delivery once."""
    told = dict(receiver.told)
    return [
        change
        for (alert, change), deliveries in told.items()
        if alert.startswith(f"{rule}:")
        for _ in deliveries
    ]


async def told(receiver: AlertReceiver, rule: str, *wanted: str) -> None:
    await until(lambda: len(changes(receiver, rule)) >= len(wanted), f"{rule}: {wanted}")
    assert changes(receiver, rule) == list(wanted)


async def client(gateway: Gateway, name: str) -> Peer:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), Version.V5)
    assert await peer.connect(name) == 0
    return peer


async def test_root_flapping_is_raised_by_its_cause(
    tmp_path: Path, receiver: AlertReceiver
) -> None:
    head, stand_in = FleetGateway(tmp_path, "head"), FleetGateway(tmp_path, "stand-in")
    head.plain_port = free_port()
    head.write(capability=30, hello_s=0.3)
    stand_in.access = alerts_to(receiver, "root-flapping")
    neighbours = [f"127.0.0.1:{head.plain_port}"]
    await stand_in.start(capability=10, hello_s=0.3, neighbours=neighbours)
    tree = stand_in.process.parts.node.tree
    command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(head.path)]
    try:
        for number in range(ELECTIONS):
            assert changes(receiver, "root-flapping") == [], number
            process = await asyncio.create_subprocess_exec(*command)
            try:
                await until(lambda: tree.root_id == "head", "the head is the root")
            finally:
                process.kill()
                await process.wait()
            await until(lambda: tree.root_id == "stand-in", "the other one is the root")
        await told(receiver, "root-flapping", "raised")
    finally:
        await stand_in.stop()


async def test_messages_lost_is_raised_by_its_cause(
    tmp_path: Path, receiver: AlertReceiver
) -> None:
    gateway = Gateway(tmp_path, "sync")
    with gateway.config.open("a") as file:
        file.write(alerts_to(receiver, "messages-lost"))
    try:
        await gateway.start()
        publisher = await client(gateway, "publisher")
        for number in range(50):
            await publisher.publish("meters/tank", b"%d" % number)
        publisher.close()
        await gateway.stop()
        segment = max((gateway.state / "log").glob("*.log"), key=lambda path: int(path.stem))
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 0x10
        segment.write_bytes(data)
        await gateway.start()
        await told(receiver, "messages-lost", "raised")
    finally:
        gateway.kill()
        await gateway.ended()
