"""Goal: what a stolen gateway makes others do by publishing is what docs/trust.md says, no more.

One gateway with an actuator that Home Assistant may set, a sensor that listens to a device's
topic, and a client that subscribes to all. The thief has another one, and publishes on a topic of
each kind whatever the policy says of him. The page's table says what comes of it, in each mode.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from kept_records import keep
from mqtt_peer import Peer

from gateway.mqtt import (
    PingReq,
    PingResp,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    SubscriptionRequest,
)
from gateway.node.members.membership import FILE_NAME
from gateway.sensors.sensor import Actuator, Sensor
from record_formats.value import Value
from tree_handler.batch import Entry
from tree_handler.members.member import MemberRecord
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained

PAGE = Path(__file__).resolve().parents[2] / "docs/trust.md"
THIEF, VICTIM = "gw-x", "gw-a"
MARK = "mark"
TOPICS = {
    "a topic of its own": f"-/-/{THIEF}/door",
    "the command topic of another's actuator": f"-/-/{VICTIM}/pump/set",
    "what another gateway announces to Home Assistant": "homeassistant/switch/gw-b/pump/config",
    "any other topic of another gateway": "campus/north/gw-b/door",
    "a topic that another's sensor listens to": "zigbee/door",
    "any other topic": "campus/door",
    "a topic that begins with `$`": "$SYS/thief",
}
"""By the first column of the page's table."""
PRIVATE = (f"$coap/PUT/{VICTIM}/sensors/pump", f"$hedgerow/member/{VICTIM}", "$hedgerow/x")
"""Further ones of the last row."""
DENIED, SILENT, ALLOWED = "a rule denies it", "no rule says anything", "[vouch] or a rule allows it"
ANY = '[[rules]]\nwho = ["{}"]\n{} = ["publish #"]\n'
RULES = {
    "nothing": (SILENT, ""),
    "of another": (
        SILENT,
        f'[vouch]\n"gw-b" = ["operator"]\n{ANY.format("gateway:gw-b", "allow")}',
    ),
    "of users": (SILENT, ANY.format("user:*", "allow")),
    "elsewhere": (SILENT, ANY.format(f"gateway:{THIEF}", 'at = ["plant"]\nallow')),
    "denied": (DENIED, ANY.format("gateway:*", "deny")),
    "denied by name": (
        DENIED,
        f'{ANY.format(f"gateway:{THIEF}", "deny")}[vouch]\n"*" = ["operator"]\n',
    ),
    "vouched": (ALLOWED, f'[vouch]\n"{THIEF}" = ["operator"]\n'),
    "vouched for all": (ALLOWED, '[vouch]\n"*" = ["admin"]\n'),
    "named": (ALLOWED, ANY.format(f"gateway:{THIEF}", "allow")),
    "everybody": (ALLOWED, ANY.format("*", "allow")),
}
"""The rows of a policy, and which column of the page they are."""


def table() -> dict[str, dict[str, set[str]]]:
    """Return the page's table: effects by kind of topic and by what the policy says."""
    section = PAGE.read_text().partition("## What it can make others do")[2].partition("\n## ")[0]
    rows = [row.strip("|").split("|") for row in re.findall(r"^\|.*\|$", section, re.MULTILINE)]
    head, _, *body = [[cell.strip() for cell in row] for row in rows]
    assert [name.replace("`[vouch]`", "[vouch]") for name in head[1:]] == [DENIED, SILENT, ALLOWED]
    return {
        kind: {
            column: set(cell.split(", ")) - {"nothing"}
            for column, cell in zip((DENIED, SILENT, ALLOWED), cells, strict=True)
        }
        for kind, *cells in body
    }


class Ears(Sensor):
    """A sensor that listens."""

    topics = ("zigbee/door",)

    def __init__(self) -> None:
        super().__init__("ears")
        self.heard: set[str] = set()

    def hear(self, topic: str, payload: bytes) -> None:
        self.heard.add(topic)


class House:
    """The victim, the thief, and all that is seen of the victim."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "policy.toml"
        self.fleet = Fleet(folder)
        self.victim = self.fleet.gateway(VICTIM, tls=False)
        self.thief = self.fleet.gateway(THIEF, tls=False)
        self.victim.access = f'policy_file = "{self._policy}"'
        self.victim.mqtt = (
            '[home_assistant]\ndiscovery = true\n[[sensors]]\ntype = "switch"\n'
            'name = "pump"\ninterval_s = 3600.0\n'
        )
        self._ears = Ears()
        self._set: list[Value] = []

    def say(self, rows: str) -> None:
        """Have the victim's policy say this of the thief."""
        self._policy.write_text(f'version = 1\n[principals]\n"stranger" = ["reader"]\n{rows}')

    async def start(self, mode: str) -> None:
        self.say("")
        await self.victim.start(mode=mode)
        self.client = await subscribed(self.victim, "#", "$SYS/#")
        to_victim = [f"127.0.0.1:{self.victim.port}"]
        await self.thief.start(mode=mode, neighbours=to_victim)
        await until(lambda: self._knows(self.victim, THIEF) and self._knows(self.thief, VICTIM))
        self.victim.process.parts.members.known.update(
            MemberRecord("gw-b", 1, 1, "campus", "north", "10.0.0.9", 1883)
        )
        if (routed := self.thief.process.parts.routed) is not None:
            await until(lambda: any("#" in one.subscribes for one in routed.interests))

    async def reload(self) -> None:
        """Have the victim go by its policy."""
        await self.victim.process.reload()
        self._watch()

    @staticmethod
    def _knows(one: FleetGateway, other: str) -> bool:
        return other in one.process.parts.members.known

    def _watch(self) -> None:
        """Look at what the victim's sensors are told, in place of those that would do it."""
        readings = self.victim.process.parts.readings

        (pump,) = readings.sensors
        assert isinstance(pump, Actuator)
        pump.write = self._set.append  # type: ignore[method-assign]  # over MQTT or CoAP alike
        readings.heard.follow(f"-/-/{VICTIM}", [self._ears])

    async def effects(self, mark: str, *, qos: int, retain: bool) -> dict[str, set[str]]:
        """Have the thief publish on a topic of each kind; what comes of it, by topic."""
        retention = self.victim.process.parts.broker.core.retention
        before = {topic: retention.get(topic) for topic in (*TOPICS.values(), *PRIVATE)}
        self._ears.heard.clear()
        self._set.clear()
        for topic in (*TOPICS.values(), *PRIVATE, MARK):
            payload = b"1" if topic.endswith("/set") else mark.encode()
            self.thief.process.parts.broker.accept(Entry(topic, payload, qos=qos, retain=retain))
        found: dict[str, set[str]] = defaultdict(set)
        async for topic in until_topic(self.client, MARK):
            found[topic].add("delivered")
        # They come one after the other, so all that begins with one has begun by the mark.
        await asyncio.sleep(0)
        turns = self.victim.process.parts.readings.sampler.turns
        await until(lambda: not len(turns))
        for topic in self._ears.heard:
            found[topic].add("heard")
        if self._set:
            found[TOPICS["the command topic of another's actuator"]].add("obeyed")
        for topic, message in before.items():
            if (now := retention.get(topic)) is not None and now is not message:
                found[topic].add("retained")
        return found


async def subscribed(gateway: FleetGateway, *filters: str) -> Peer:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), 5)
    assert await peer.connect("reader") == 0
    peer.send(Subscribe(1, [SubscriptionRequest(one, 1) for one in filters], {}))
    answer = await peer.next()
    assert isinstance(answer, SubAck), answer
    assert list(answer.reasons) == [1] * len(filters)
    return peer


async def delivered(peer: Peer) -> AsyncIterator[str]:
    """The topics of live messages; what was retained before is passed over."""
    while True:
        packet = await peer.next()
        assert isinstance(packet, Publish), packet
        if packet.qos:
            peer.send(PubAck(packet.packet_id))
        if not packet.retain:
            yield packet.topic


@pytest.mark.parametrize("mode", ["flood", "routed", "topic"])
async def test_what_comes_of_it_is_what_the_page_says_and_nothing_else(
    tmp_path: Path, mode: str
) -> None:
    page = table()
    assert page.keys() == TOPICS.keys()
    house = House(tmp_path)
    try:
        await house.start(mode)
        for number, (name, (column, rows)) in enumerate(RULES.items()):
            house.say(rows)
            await house.reload()
            for qos, retain in ((1, True), (0, False)):
                found = await house.effects(f"{number} {qos}", qos=qos, retain=retain)
                lacks = set() if retain else {"retained"}
                expected = {TOPICS[kind]: page[kind][column] - lacks for kind in page}
                seen = {topic: found[topic] for topic in (*expected, *PRIVATE)}
                wanted = expected | {topic: set[str]() for topic in PRIVATE}
                assert seen == wanted, f"{name}, QoS {qos}"
    finally:
        await house.fleet.stop()


@pytest.mark.parametrize("way", ["log", "neighbour"])
async def test_nobody_ends_what_another_gateway_has_retained_unless_a_rule_says_so(
    tmp_path: Path, way: str
) -> None:
    house = House(tmp_path)
    topic = f"-/-/{VICTIM}/availability"
    try:
        await house.start("flood")
        core = house.victim.process.parts.broker.core
        far = RetainedVersion(1 << 60, 1, THIEF, 1)
        for rows, is_there in (("", True), (f'[vouch]\n"{THIEF}" = ["operator"]\n', False)):
            house.say(rows)
            await house.reload()
            if way == "log":
                house.thief.process.parts.broker.accept(Entry(topic, b"", qos=1, retain=True))
                await house.effects("after it", qos=1, retain=False)
            else:
                for dead_s, payload in ((1.0, b""), (None, b"offline")):
                    told = Retained(topic, far, 1, 1, payload, {}, None, dead_s)
                    assert core.shared_retention.may_speak(told) is not is_there
                    core.shared_retention.learn(told, 0.0, is_news=True)
                    if not is_there:
                        break
            assert (core.retention.get(topic) is not None) is is_there
            if is_there:
                assert core.retention.get(topic).payload == b"online"
    finally:
        await house.fleet.stop()


async def test_what_was_given_and_not_retained_is_retained_later_and_not_given_again(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    try:
        await house.start("flood")
        house.say(RULES["denied"][1])
        await house.reload()
        await house.effects("refused", qos=1, retain=True)
        house.say(RULES["vouched"][1])
        await house.reload()
        retention = house.victim.process.parts.broker.core.retention
        assert retention.get("campus/door") is None
        # It compares what it has with the neighbour whose retained messages have changed.
        house.thief.process.parts.broker.accept(Entry("new", b"x", qos=1, retain=True))
        await until(lambda: retention.get("campus/door"))
        house.thief.process.parts.broker.accept(Entry("last", b"x", qos=1))
        assert [topic async for topic in until_topic(house.client, "last")] == ["new"]
    finally:
        await house.fleet.stop()


async def until_topic(peer: Peer, last: str) -> AsyncIterator[str]:
    """The topics of live messages before that on this one."""
    async for topic in delivered(peer):
        if topic == last:
            return
        yield topic


@pytest.mark.parametrize("was_vouched", [False, True], ids=["refused", "allowed before"])
async def test_a_start_retains_no_more_than_the_policy_says_now(
    tmp_path: Path, was_vouched: bool
) -> None:
    house = House(tmp_path)
    try:
        await house.start("flood")
        house.say(f'[vouch]\n"{THIEF}" = ["operator"]\n' if was_vouched else "")
        await house.reload()
        found = await house.effects("before", qos=1, retain=True)
        kept_then = {topic for topic, effects in found.items() if "retained" in effects}
        assert (TOPICS["any other topic of another gateway"] in kept_then) is was_vouched
        page = table()
        retained = {TOPICS[kind] for kind in page if "retained" in page[kind][SILENT]}
        house.say("")
        members = [record.encode() for record in house.victim.process.parts.members.known]
        house.client.close()
        await house.victim.stop()
        keep(house.victim.folder / "state" / FILE_NAME, members)
        await house.victim.start(mode="flood")
        retention = house.victim.process.parts.broker.core.retention
        topics = (*TOPICS.values(), *PRIVATE)
        assert {topic for topic in topics if retention.get(topic) is not None} == retained
        client = await subscribed(house.victim, "#", "$SYS/#")
        kept = {packet.topic: packet.payload for packet in await all_of(client)}
        assert kept["campus/door"] == b"before"
        assert not kept.keys() & (set(topics) - retained)
    finally:
        await house.fleet.stop()


async def all_of(peer: Peer) -> list[Publish]:
    """Return the packets that come before the answer to a ping."""
    peer.send(PingReq())
    found = []
    while not isinstance(packet := await peer.next(), PingResp):
        found.append(packet)
    return found
