"""Alerts of clock, limits, machine, parts and links are raised by what they are about.

A real gateway meets the condition, its webhook is told, the condition ends, and its end is told
once. Times are those of the rules as they are shipped: the machine sleeps through most of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alert_receiver import AlertReceiver
from argon2 import PasswordHasher
from caused_gateway import NAP_S, ONCE, CausedGateway, caused_gateway
from machine_files import machine_with_a_card
from ports import free_port

from gateway.mqtt import PubAck, Publish

pytestmark = pytest.mark.peer("cc", "gcc")
HOUR_S = 3_600.0
GIGABYTE_SECTORS = 2_000_000
FLOOD = 60
GUESSES = 25
KEPT = {17: 3_600}
"""Session Expiry Interval: what waits for such a client beyond the limit waits in the log."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[CausedGateway]:
    with caused_gateway(tmp_path) as made:
        yield made


@pytest.mark.parametrize(("by_s", "way"), [(90, "forward"), (-90, "back")])
async def test_clock_jumped_is_raised_by_its_cause(
    gateway: CausedGateway, by_s: float, way: str
) -> None:
    await gateway.start()
    gateway.clock.set_by(by_s)
    await gateway.told("clock-jumped", "raised")
    await gateway.told("clock-jumped", "cleared", nap_s=NAP_S)
    assert gateway.receiver.changes("clock-jumped") == ONCE
    assert f"its clock was set {way} by 90 s" in (gateway.folder / "gateway.log").read_text()


async def test_clock_not_kept_is_raised_by_its_cause(gateway: CausedGateway) -> None:
    gateway.clock.keep(is_kept=False)
    await gateway.start()
    await gateway.told("clock-not-kept", "raised", nap_s=NAP_S)
    gateway.clock.keep(is_kept=True)
    await gateway.told("clock-not-kept", "cleared", nap_s=NAP_S)
    assert gateway.receiver.changes("clock-not-kept") == ONCE


async def test_limit_near_is_raised_by_its_cause(gateway: CausedGateway) -> None:
    gateway.more = "[limits]\nall_queues_bytes = 17_000\ninflight_messages = 1\nkeep_alive_s = 0\n"
    await gateway.start()
    idle = await gateway.client("idle", properties=KEPT)
    busy = await gateway.client("busy")
    await idle.subscribe("meters/#")
    for _ in range(FLOOD):  # the idle client acknowledges none of them
        await busy.publish("meters/tank", bytes(500))
    await gateway.told("limit-near", "raised", nap_s=NAP_S)
    assert any("all_queues_bytes" in alert for alert, _ in gateway.receiver.told)
    for _ in range(FLOOD):
        message = await idle.next()
        assert isinstance(message, Publish)
        assert message.packet_id is not None
        idle.send(PubAck(message.packet_id, 0, {}))
    await gateway.told("limit-near", "cleared", nap_s=NAP_S)
    assert gateway.receiver.changes("limit-near") == ONCE
    assert not gateway.receiver.changes("messages-dropped")


async def test_messages_dropped_is_raised_by_its_cause(gateway: CausedGateway) -> None:
    gateway.more = "[limits]\nqueue_messages = 5\ninflight_messages = 1\nkeep_alive_s = 0\n"
    await gateway.start()
    idle, busy = await gateway.client("idle"), await gateway.client("busy")
    await idle.subscribe("meters/#")
    for _ in range(20):
        await busy.publish("meters/tank")
    await gateway.told("messages-dropped", "raised")
    for _ in range(20):
        await busy.publish("meters/tank")
    await gateway.told("messages-dropped", "cleared", nap_s=NAP_S)
    assert gateway.receiver.changes("messages-dropped") == ONCE
    said = gateway.receiver.messages["messages-dropped", "cleared"]
    assert said == "34 messages to clients were dropped in all"


async def test_refused_logins_is_raised_by_its_cause(gateway: CausedGateway) -> None:
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    passwords = gateway.folder / "passwords"
    passwords.write_text(f"alice:{hasher.hash('secret')}\n")
    gateway.access = f'password_file = "{passwords}"'
    await gateway.start()
    for number in range(GUESSES):
        assert await gateway.refuses(f"guesser-{number}", username="alice", password=b"guess")
    await gateway.told("refused-logins", "raised")
    await gateway.told("refused-logins", "cleared", nap_s=NAP_S)  # nobody guesses any more
    assert gateway.receiver.changes("refused-logins") == ONCE
    said = gateway.receiver.messages["refused-logins", "cleared"]
    assert said == f"{GUESSES} log-ins were refused in all"


async def test_disk_wearing_is_raised_by_its_cause(gateway: CausedGateway) -> None:
    card = machine_with_a_card(gateway.folder)
    gateway.machine = gateway.folder
    await gateway.start()
    (card / "stat").write_text(f"9 9 9 9 9 9 {GIGABYTE_SECTORS} 9 9 9 9\n")
    gateway.clock.sleep(HOUR_S)
    await gateway.told("disk-wearing", "raised")
    gateway.clock.sleep(HOUR_S)  # in which nothing is written
    await gateway.told("disk-wearing", "cleared", nap_s=NAP_S)
    assert gateway.receiver.changes("disk-wearing") == ONCE


async def test_what_a_machine_tells_of_itself_raises_its_rules(gateway: CausedGateway) -> None:
    card, sys = machine_with_a_card(gateway.folder), gateway.folder / "sys"
    zone, firmware = sys / "class/thermal/thermal_zone0", sys / "devices/platform/soc/soc:firmware"
    zone.mkdir(parents=True)
    firmware.mkdir(parents=True)
    told = {zone / "temp": "85000", card / "device/life_time": "0x0a 0x02"}
    well = {zone / "temp": "50000", card / "device/life_time": "0x01 0x01"}
    bits = firmware / "get_throttled"
    (zone / "type").write_text("cpu-thermal\n")
    _write({**told, bits: "4"})
    gateway.machine = gateway.folder
    await gateway.start()
    for rule in ("hot", "disk-worn", "throttled"):
        await gateway.told(rule, "raised", nap_s=NAP_S)
    _write({**well, bits: "0"})
    for rule in ("hot", "disk-worn", "throttled"):
        await gateway.told(rule, "cleared", nap_s=NAP_S)
    _write({bits: "1"})
    await gateway.told("under-voltage", "raised")
    _write({bits: "10000"})  # it was too weak once
    await gateway.told("under-voltage", "cleared", nap_s=NAP_S)
    for rule in ("hot", "disk-worn", "throttled", "under-voltage"):
        assert gateway.receiver.changes(rule) == ONCE, rule


def _write(texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        path.write_text(f"{text}\n")


async def test_part_failing_is_raised_by_its_cause(gateway: CausedGateway) -> None:
    await gateway.start()
    well = gateway.config.read_text()
    gateway.config.write_text(f"{well}[nonsense]\n")
    gateway.reload()
    await gateway.told("part-failing", "raised", nap_s=NAP_S)
    assert any("/reload:" in alert for alert, _ in gateway.receiver.told)
    gateway.config.write_text(well)
    gateway.reload()
    await gateway.told("part-failing", "cleared", nap_s=NAP_S)
    assert gateway.receiver.changes("part-failing") == ONCE


async def test_neighbour_away_and_no_link_are_raised_by_their_causes(
    gateway: CausedGateway, tmp_path: Path
) -> None:
    others = []
    for name in ("gw-b", "gw-c"):
        (tmp_path / name).mkdir()
        one = CausedGateway(tmp_path / name, AlertReceiver(), gateway.clock)
        one.id, one.port, one.receiver.url = name, free_port(), "http://127.0.0.1:9/"
        others.append(one)
    there, away = others
    gateway.neighbours = [f"127.0.0.1:{one.port}" for one in others]
    try:
        await there.start()
        await gateway.start()
        await gateway.told("neighbour-away", "raised", nap_s=NAP_S)
        assert any(f"/127.0.0.1:{away.port}:" in alert for alert, _ in gateway.receiver.told)
        await away.start()
        await gateway.told("neighbour-away", "cleared", nap_s=NAP_S)
        for one in others:
            one.kill()
        await gateway.told("no-link", "raised", nap_s=NAP_S)
        await there.start()
        await gateway.told("no-link", "cleared", nap_s=NAP_S)
    finally:
        for one in others:
            one.kill()
    assert gateway.receiver.changes("neighbour-away") == ONCE
    assert gateway.receiver.changes("no-link") == ONCE
