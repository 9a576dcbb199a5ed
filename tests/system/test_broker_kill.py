"""A broker under load is killed at moments of chance, or its power is cut, and started again.

One run gives one account of what its clients were promised and what they got; each test here is
one claim on that account. What the clients know of the protocol is their own (`durable_client`),
so that exactly-once is judged from outside. That the judgement is sound is shown where it must
find nothing (only the network fails) and where it must find much (Mosquitto, killed).

With ``--soak`` a broker is killed 50 times, else at each of the first kinds of moment once.
``--seed N`` replays a run; chance is the test's alone, so what the broker was doing is not replayed
to the microsecond.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from brokers import BrokerProcess, CutOff, Gateway, Mosquitto, PoweredGateway
from disks import Ext4
from kill_run import Run, plan, soak

SOAK_KILLS = 50
SHORT_KILLS = 9

pytestmark = pytest.mark.timeout(600)  # a run of many kills is the fixture of its first test


@pytest.fixture(scope="session")
def made() -> dict[tuple[str, str], Run]:
    """Runs that are over, so that none is made again where the order of the tests is drawn."""
    return {}


RUNS = [("sync", "power-cut")]
SOAK_RUNS = [*RUNS, ("write", "kill"), ("sync", "kill")]  # a power cut takes more than a kill


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        runs = SOAK_RUNS if metafunc.config.getoption("--soak") else RUNS
        metafunc.parametrize("run", runs, ids="-".join, indirect=True, scope="session")


@pytest.fixture(scope="session")
def run(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    made: dict[tuple[str, str], Run],
) -> Run:
    """The outcome of a run."""
    if request.param not in made:
        made[request.param] = _run(request, tmp_path_factory)
    return made[request.param]


def _run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    durability, fault = request.param
    is_long = request.config.getoption("--soak")
    seed = request.config.getoption("--seed")
    folder = tmp_path_factory.mktemp("gateway")
    broker: BrokerProcess
    if fault == "kill":
        broker = Gateway(folder, durability, segment_bytes=32 << 10)
    else:
        disk = Ext4(folder / "disk", folder / "image", size_mib=256 if is_long else 64)
        broker = PoweredGateway(folder, durability, disk)
    moments = plan(seed, SOAK_KILLS if is_long else SHORT_KILLS)
    made = Run(broker, seed, waiting_sessions=500 if is_long else 50)
    try:
        asyncio.run(soak(made, moments))
    finally:
        kills = ", ".join(f"{moment}: {times}" for moment, times in made.kills.items())
        sys.stdout.write(
            f"\n{durability}, {fault}: {len(made.ledger.taken)} messages acknowledged; {kills}"
            f"\nreplay: python -m pytest tests/system/test_broker_kill.py --seed {seed}"
            f"{' --soak' if is_long else ''}\n"
        )
    return made


def shown(wrong: list[str]) -> str:
    return "\n".join([f"{len(wrong)} in all", *wrong[:20]])


def test_clients_published_under_load_and_the_broker_was_killed(run: Run) -> None:
    assert sum(run.kills.values()) > SHORT_KILLS
    by_qos = [sum(m.qos == qos for m in run.ledger.taken) for qos in (1, 2)]
    assert min(by_qos) > 100
    assert not run.undrained, shown(run.undrained)


def test_every_acknowledged_message_was_in_the_log_after_each_kill(run: Run) -> None:
    assert not run.unlogged, shown(run.unlogged)


def test_every_acknowledged_message_reached_every_subscriber_it_was_for(run: Run) -> None:
    lost = run.ledger.lost()
    assert not lost, shown(lost)


def test_no_qos_2_message_came_twice(run: Run) -> None:
    doubled = run.ledger.doubled()
    assert not doubled, shown(doubled)


def test_no_packet_identifier_stood_for_two_messages_at_a_time(run: Run) -> None:
    assert not run.ledger.reused_identifiers, shown(run.ledger.reused_identifiers)


def test_messages_came_in_the_order_of_publishing(run: Run) -> None:
    """[MQTT-4.6.0-6]"""
    disordered = run.ledger.disordered()
    assert not disordered, shown(disordered)


def test_every_session_was_present_when_its_client_came_back(run: Run) -> None:
    assert not run.ledger.wrong_sessions, shown(run.ledger.wrong_sessions)


def test_nothing_came_without_a_subscription_in_force(run: Run) -> None:
    unasked = run.ledger.unasked()
    assert not unasked, shown(unasked)


def test_a_new_subscriber_got_the_last_acknowledged_retained_messages(run: Run) -> None:
    assert sum(len(history) for history in run.ledger.retained.values()) > 100
    assert not run.ledger.wrong_retained, shown(run.ledger.wrong_retained)


def test_sessions_that_were_ended_stayed_ended(run: Run) -> None:
    assert not run.ended_sessions, shown(run.ended_sessions)


# -- is the judgement sound? -----------------------------------------------------------------------


def judged(broker: BrokerProcess, moments: list[str]) -> Run:
    return asyncio.run(soak(Run(broker, 1, waiting_sessions=10), moments))


MOMENTS = ["in a burst", "after PUBREC", "after PUBREL", "after SUBACK", "after CONNACK"]


def test_the_judgement_finds_nothing_where_only_the_network_fails(tmp_path: Path) -> None:
    run = judged(CutOff(Gateway(tmp_path, "write")), MOMENTS)
    ledger = run.ledger
    assert len(ledger.taken) > 300
    assert not run.undrained
    assert not ledger.lost()
    assert not ledger.doubled()
    assert not ledger.reused_identifiers
    assert not ledger.disordered()
    assert not ledger.wrong_sessions
    assert not ledger.unasked()
    assert not ledger.wrong_retained
    assert not run.ended_sessions


@pytest.mark.peer("mosquitto", "mosquitto")
def test_the_judgement_finds_nothing_in_mosquitto_where_only_the_network_fails(
    tmp_path: Path,
) -> None:
    """But that it sends one copy for each of the overlapping subscriptions of a client."""
    run = judged(CutOff(Mosquitto(tmp_path)), MOMENTS)
    ledger = run.ledger
    assert len(ledger.taken) > 300
    assert not run.undrained
    assert not ledger.lost()
    assert not [line for line in ledger.doubled() if not line.startswith("overlap")]
    assert not ledger.reused_identifiers
    assert not ledger.disordered()
    assert not ledger.wrong_sessions
    assert not ledger.unasked()
    assert not ledger.wrong_retained


@pytest.mark.peer("mosquitto", "mosquitto")
def test_the_judgement_sees_what_mosquitto_loses_to_a_kill(tmp_path: Path) -> None:
    """It writes its file when it is told to stop, not before it acknowledges."""
    broker = Mosquitto(tmp_path)
    run = Run(broker, 1, waiting_sessions=10, drain_s=2.0)
    asyncio.run(soak(run, ["in a burst"]))
    assert run.ledger.lost()
    assert run.ledger.wrong_sessions
    assert run.ledger.wrong_retained


@pytest.mark.peer("mkfs.ext4", "e2fsprogs")
def test_the_judgement_sees_what_a_power_cut_takes_where_nothing_was_synced(
    tmp_path: Path,
) -> None:
    """With durability "write", which does not promise otherwise."""
    disk = Ext4(tmp_path / "disk", tmp_path / "image")
    broker = PoweredGateway(tmp_path, "write", disk, segment_bytes=8 << 20)
    run = Run(broker, 1, waiting_sessions=10, drain_s=2.0)
    asyncio.run(soak(run, ["in a burst"]))
    assert run.unlogged
    assert run.ledger.lost()


@pytest.mark.peer("mkfs.ext4", "e2fsprogs")
def test_a_power_cut_takes_what_was_not_synced_and_leaves_what_was(tmp_path: Path) -> None:
    """The emulation is as a power cut is: a file's synced length stays, the rest goes."""
    disk = Ext4(tmp_path / "disk", tmp_path / "image")
    disk.mount()
    try:
        synced, other = disk.folder / "synced", disk.folder / "other"
        fd = os.open(synced, os.O_CREAT | os.O_WRONLY)
        folder = os.open(disk.folder, os.O_RDONLY)
        os.write(fd, b"kept")
        os.fdatasync(fd)
        os.fsync(folder)
        os.write(fd, bytes(10_000))
        other.write_bytes(b"lost")
        disk.cut_power()
        with pytest.raises(OSError, match="Input/output"):
            os.write(fd, b"x")
        os.close(fd)
        os.close(folder)
        disk.unmount()
        disk.mount()
        assert synced.read_bytes() == b"kept"
        assert not other.exists() or other.read_bytes() == b""
    finally:
        disk.unmount()
