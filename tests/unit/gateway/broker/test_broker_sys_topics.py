"""``$SYS``: Mosquitto's names and forms, for those who may read it, on this gateway alone."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mqtt_peer import Bench, Peer
from ports import free_port

from gateway.broker.statistics.load import LoadAverages
from gateway.broker.statistics.sys_topics import counts
from gateway.mqtt import (
    PingReq,
    PingResp,
    PropertyId,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
)
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy

PEERS = [
    pytest.mark.peer("mosquitto", "mosquitto"),
    pytest.mark.peer("mosquitto_sub", "mosquitto-clients"),
]
LIMIT_S = 60
KEEP = {"properties": {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}}
FORMS = {
    "a whole number": re.compile(r"\d+"),
    "two decimals": re.compile(r"\d+\.\d\d"),
    "seconds": re.compile(r"\d+ seconds"),
    "a version": re.compile(r"\w+ version \d+\.\d+\.\d+"),
}


def made(**options: Any) -> Bench:
    return Bench(**{"anonymous": True, "sys_interval_s": 0.1, **options})


@pytest.fixture
async def started() -> AsyncIterator[Bench]:
    one = made()
    await one.start()
    yield one
    await one.stop()


async def mosquitto_sub(port: int, *arguments: str) -> list[tuple[str, bool, str]]:
    """Topic, whether retained, and text of what comes."""
    process = await asyncio.create_subprocess_exec(
        *("mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), "-F", "%t|%r|%p", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    found = []
    for line in output.decode().splitlines():
        topic, retained, text = line.split("|")
        found.append((topic, retained == "1", text))
    return found


def form(text: str) -> str:
    return next(name for name, pattern in FORMS.items() if pattern.fullmatch(text))


class TestLoadAverages:
    def test_a_steady_rate_becomes_the_average_as_in_mosquitto(self) -> None:
        averages = LoadAverages(0.0)
        told: dict[str, tuple[float, ...]] = {}
        for tick in range(1, 31):
            told = averages.update({"sockets": 7 * tick}, 10.0 * tick)
        # 42 a minute for five minutes: what is left of the start has decayed to exp(-300/T).
        expected = [42 * (1 - math.exp(-300 / (60 * minutes))) for minutes in (1, 5, 15)]
        assert told["sockets"] == pytest.approx(expected)

    def test_one_connection_in_three_seconds_is_what_mosquitto_shows(self) -> None:
        # Mosquitto 2.0.11, three seconds after the start: 0.98, 0.20, 0.07.
        told = LoadAverages(0.0).update({"connections": 1}, 3.0)["connections"]
        assert [f"{average:.2f}" for average in told] == ["0.98", "0.20", "0.07"]

    def test_before_any_time_has_passed_all_of_them_are_nothing(self) -> None:
        assert LoadAverages(1.0).update({"sockets": 5}, 1.0) == {"sockets": (0.0, 0.0, 0.0)}

    def test_an_update_at_the_same_time_changes_nothing(self) -> None:
        averages = LoadAverages(0.0)
        before = averages.update({"sockets": 5}, 1.0)
        assert averages.update({"sockets": 9}, 1.0) == before


class TestBesideMosquitto:
    pytestmark = PEERS

    async def test_every_topic_of_mosquitto_is_there_in_the_same_form(
        self, started: Bench, tmp_path: Path
    ) -> None:
        port = free_port()
        conf = tmp_path / "mosquitto.conf"
        conf.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nsys_interval 1\n")
        log = (tmp_path / "mosquitto.log").open("wb")
        mosquitto = await asyncio.create_subprocess_exec(
            "mosquitto", "-c", str(conf), stdout=log, stderr=log
        )
        try:
            theirs, ours = await asyncio.gather(self._seen(port), self._seen(started.broker.port))
        finally:
            mosquitto.terminate()
            await mosquitto.wait()
            log.close()
        assert len(theirs) > 40
        assert {topic: ours.get(topic) for topic in theirs} == theirs
        assert ours["$SYS/broker/messages/inflight"] == "a whole number"  # mosquitto(8) names it

    async def _seen(self, port: int) -> dict[str, str]:
        """The form of each topic, once the maximum of clients has been told."""
        async with asyncio.timeout(LIMIT_S):
            while not await mosquitto_sub(
                port, "-t", "$SYS/broker/clients/maximum", "-C", "1", "-W", "2"
            ):
                pass
        peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V311)
        assert await peer.connect("reader") == 0
        peer.send(Subscribe(1, [SubscriptionRequest("$SYS/#", 0)]), PingReq())
        found = {}
        while not isinstance(packet := await peer.next(), PingResp):
            if isinstance(packet, Publish):  # behind the SUBACK, and all that is retained
                found[packet.topic] = form(packet.payload.decode())
        peer.close()
        return found


class TestWhoReadsIt:
    pytestmark = PEERS[1:]

    async def test_what_was_told_before_comes_retained_and_news_do_not(
        self, started: Bench
    ) -> None:
        found = await mosquitto_sub(started.broker.port, "-t", "$SYS/broker/uptime", "-C", "2")
        assert [is_retained for _, is_retained, _ in found] == [True, False]
        assert found[0][2] != found[1][2]

    async def test_a_topic_that_has_not_changed_is_not_published_again(
        self, started: Bench
    ) -> None:
        uptime, version = "$SYS/broker/uptime", "$SYS/broker/version"
        found = await mosquitto_sub(started.broker.port, "-t", version, "-t", uptime, "-C", "4")
        assert [topic for topic, _, _ in found].count(version) == 1
        texts = [text for topic, _, text in found if topic == uptime]
        assert len(set(texts)) == len(texts) == 3

    async def test_a_wildcard_alone_does_not_show_it(self, started: Bench) -> None:
        assert await mosquitto_sub(started.broker.port, "-t", "#", "-W", "1") == []

    async def test_only_those_may_read_it_whom_a_rule_lets(self) -> None:
        policy = AccessPolicy(Rules(subscribe=("#", "$SYS/broker/clients/#")))
        one = made(policy=Policy(policy.told()))
        await one.start()
        try:
            port = one.broker.port
            topic = "$SYS/broker/clients/connected"
            assert await mosquitto_sub(port, "-t", topic, "-C", "1")
            assert await mosquitto_sub(port, "-t", "$SYS/#", "-W", "1") == []
            assert await mosquitto_sub(port, "-t", "$SYS/broker/version", "-W", "1") == []
        finally:
            await one.stop()

    async def test_an_interval_of_0_switches_it_off(self) -> None:
        one = made(sys_interval_s=0.0)
        await one.start()
        try:
            assert await mosquitto_sub(one.broker.port, "-t", "$SYS/#", "-W", "1") == []
        finally:
            await one.stop()


async def test_it_is_never_handed_in_for_the_log_or_the_tree(started: Bench) -> None:
    core = started.broker.core
    async with asyncio.timeout(LIMIT_S):
        while len(list(core.retention.match("$SYS/#"))) < 40:
            await asyncio.sleep(0)
    assert started.entries == []
    assert len(core.retention) == 0


async def test_the_store_is_what_is_retained_queued_and_in_flight(started: Bench) -> None:
    core = started.broker.core
    source, away = await started.connect("source"), await started.connect("away", **KEEP)
    await away.subscribe("a")
    away.close()
    async with asyncio.timeout(LIMIT_S):
        while core.sessions.offline_count == 0:
            await asyncio.sleep(0)
    reading = await started.connect("reading")
    await reading.subscribe("b")
    empty = counts(core)
    sizes = []
    for topic, payload, retain in (("r", b"x" * 10, True), ("a", b"x" * 2_000, False)):
        await source.publish(topic, payload, retain=retain)
        sizes.append(counts(core)["store/messages/bytes"])
    await source.publish("b", b"x" * 30_000)  # which its reader does not acknowledge
    assert isinstance(await reading.next(), Publish)
    full = counts(core)
    assert empty["store/messages/count"] == empty["store/messages/bytes"] == 0
    assert full["messages/stored"] == full["store/messages/count"] == 3
    assert full["messages/inflight"] == full["retained messages/count"] == 1
    retained, queued, inflight = (
        later - before for before, later in pairwise((0, *sizes, full["store/messages/bytes"]))
    )
    beside = (retained - 10, queued - 2_000, inflight - 30_000)  # topics and places
    assert all(0 < size < 1_000 for size in beside), beside
