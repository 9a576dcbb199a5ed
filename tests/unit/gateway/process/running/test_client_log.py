"""The log says who came and went and why, in few lines, and shows nothing that clients made up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st
from loop_clock import Clock
from mqtt_peer import Bench

from gateway.base.event_log.bounded_lines import SUM_UP_S
from gateway.broker.access.passwords import Passwords
from gateway.broker.hooks import Client
from gateway.mqtt import Disconnect, ReasonCode, Version
from gateway.process.running.client_log import CLIENT, EVERYBODY, ClientLog
from gateway.trust.tls.peer_certificate import PeerCertificate

LOGGER = "gateway.process.running.client_log"


def client(client_id: str, **fields: object) -> Client:
    given: dict[str, object] = {"username": None, "address": "192.0.2.1", "version": 5}
    return Client(client_id, **(given | fields))  # type: ignore[arg-type]  # a test's fields


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger=LOGGER)
    return lambda: [one.getMessage() for one in caplog.records if one.name == LOGGER]


def test_a_line_names_client_address_user_version_and_proof(
    said: Callable[[], list[str]],
) -> None:
    log = ClientLog(Clock())
    log.connected(client("meter-1", username="alice"))
    log.connected(client("meter-2", version=4))
    certificate = PeerCertificate("carol", frozenset({"sensor"}), b"der")
    log.disconnected(client("meter-3", username="carol", certificate=certificate), "by itself")
    assert said() == [
        "'meter-1' (192.0.2.1), user 'alice', MQTT 5.0: connected",
        "'meter-2' (192.0.2.1), no user, MQTT 3.1.1: connected",
        "'meter-3' (192.0.2.1), user 'carol' by certificate, MQTT 5.0: disconnected, by itself",
    ]


def test_a_storm_of_reconnects_gives_few_lines_and_the_number_of_those_left_out(
    said: Callable[[], list[str]],
) -> None:
    clock = Clock()
    log = ClientLog(clock)
    seconds = 60
    for _ in range(seconds):
        for number in range(500):
            log.connected(client(f"c{number}"))
            log.disconnected(client(f"c{number}"), "connection lost")
        clock.pass_s(1.0)
    clock.pass_s(SUM_UP_S)
    lines = said()
    summaries = [line for line in lines if "more clients than lines" in line]
    assert len(lines) - len(summaries) <= EVERYBODY.at_once + EVERYBODY.per_s * (seconds + SUM_UP_S)
    assert 1 <= len(summaries) <= (seconds + SUM_UP_S) / SUM_UP_S
    counted = len(lines) - len(summaries)
    for line in summaries:
        counted += sum(int(word) for word in line.split() if word.isdigit())
    assert counted == 2 * 500 * seconds


def test_one_client_that_comes_again_and_again_leaves_room_for_the_others(
    said: Callable[[], list[str]],
) -> None:
    log = ClientLog(Clock())
    for _ in range(1_000):
        log.connected(client("flapping"))
    log.connected(client("quiet"))
    lines = said()
    assert sum("'flapping'" in line for line in lines) == CLIENT.at_once
    assert "'quiet'" in lines[-1]


def test_what_was_left_out_is_told_at_the_end(said: Callable[[], list[str]]) -> None:
    log = ClientLog(Clock())
    for _ in range(CLIENT.at_once + 3):
        log.connected(client("flapping"))
    log.close()
    log.close()
    assert said()[CLIENT.at_once :] == ["more clients than lines: another 3 connected"]


@given(st.text(), st.none() | st.text(), st.text())
def test_whatever_a_client_calls_itself_a_line_stays_a_printable_line(
    client_id: str, user: str | None, why: str
) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("gateway.process.running.client_log")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        log = ClientLog(Clock())
        log.connected(client(client_id, username=user))
        log.disconnected(client(client_id, username=user), why)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert len(lines) == 2
    assert all(line.isprintable() and len(line) < 6_000 for line in lines)


# -- what a broker says to it ----------------------------------------------------------------------


@pytest.fixture
async def bench(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Bench]:
    caplog.set_level(logging.INFO, logger="gateway")
    log = ClientLog(asyncio.get_running_loop())
    made = Bench(events=log, anonymous=True)
    await made.start()
    yield made
    await made.stop()
    log.close()


async def until(said: Callable[[], list[str]], count: int) -> list[str]:
    async with asyncio.timeout(60):
        while len(said()) < count:
            await asyncio.sleep(0.01)
    return said()


async def test_a_client_that_leaves_and_one_that_is_lost_are_told_apart(
    bench: Bench, said: Callable[[], list[str]]
) -> None:
    leaver = await bench.connect("leaver")
    leaver.send(Disconnect(ReasonCode.NORMAL_DISCONNECTION))
    await until(said, 2)
    lost = await bench.connect("lost")
    lost.close()
    assert (await until(said, 4))[1::2] == [
        "'leaver' (127.0.0.1), no user, MQTT 5.0: disconnected, by itself",
        "'lost' (127.0.0.1), no user, MQTT 5.0: disconnected, without DISCONNECT",
    ]


async def test_a_take_over_names_the_address_that_took_it(
    bench: Bench, said: Callable[[], list[str]]
) -> None:
    await bench.connect("twin")
    await bench.connect("twin")
    assert (await until(said, 3))[1:] == [
        "'twin' (127.0.0.1), no user, MQTT 5.0: disconnected, "
        "session taken over: by a connection from 127.0.0.1",
        "'twin' (127.0.0.1), no user, MQTT 5.0: connected",
    ]


async def test_a_client_that_breaks_the_protocol_is_told_with_what_it_did(
    bench: Bench, said: Callable[[], list[str]]
) -> None:
    peer = await bench.open(version=Version.V311)
    assert await peer.connect("rude") == 0
    peer.writer.write(b"\xc1\x00")  # PINGREQ with a flag
    told = (await until(said, 2))[1]
    assert told.startswith("'rude' (127.0.0.1), no user, MQTT 3.1.1: disconnected, ")
    assert "malformed packet" in told


async def test_a_stopping_broker_is_the_reason_for_those_that_were_connected(
    said: Callable[[], list[str]],
) -> None:
    bench = Bench(events=ClientLog(asyncio.get_running_loop()), anonymous=True)
    await bench.start()
    await bench.connect("here")
    await bench.stop()
    assert said()[-1].endswith("disconnected, server shutting down")


async def test_a_refused_client_is_named_and_its_password_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cheap = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    passwords = Passwords.parse(f"alice:{cheap.hash('secret')}\n", "users")
    bench = Bench(passwords=passwords)
    await bench.start()
    try:
        peer = await bench.open()
        await peer.connect("evil\x1b[2J", username="mal\nlory", password=b"hunter2")
    finally:
        await bench.stop()
    said = [one.getMessage() for one in caplog.records]
    refused = [line for line in said if "connection refused" in line]
    assert len(refused) == 1
    assert refused[0].startswith(
        r"'evil\x1b[2J' (127.0.0.1), user 'mal\nlory', MQTT 5.0: not authenticated: "
        "connection refused (bad_user_name_or_password)"
    )
    assert "hunter2" not in caplog.text
