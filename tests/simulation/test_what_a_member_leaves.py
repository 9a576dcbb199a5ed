"""Messages of a member of a shared subscription go to another when its session ends (4.8.2).

Two members, of which one answers nothing and then ends; what it was not sent, and what of QoS 1 it
has not acknowledged, must come to the other one, once and in order. What it was sent at QoS 2 must
come to nobody.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import GROUP, Client, World
from members_elsewhere import MembersElsewhere
from memory_log import CrashError
from passing_days import Days, Device, turn

from gateway.broker.client_roll import ClientRoll
from gateway.broker.durability.journal import Operation
from gateway.broker.durability.store import Store
from gateway.broker.hooks import Client as Known
from gateway.broker.sessions.backlog import PAUSE_MAX_S
from gateway.broker.sessions.inheritance import AT_ONCE
from gateway.mqtt import (
    Disconnect,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Version,
    decode,
    packet_end,
)
from tree_handler import batch
from tree_handler.batch import Entry, Epoch
from tree_handler.holders import Holders, SharedGroup

SHARE = "$share/workers/t/#"
COUNT = 24
WINDOW = 3
"""The member that answers nothing is sent so many."""
LIMIT_TURNS = 400


class Member(Device):
    """Has part in the group."""

    def __init__(
        self,
        world: Days,
        name: str,
        *,
        expiry_s: int = 3600,
        window: int = 1_000,
        clean_start: bool = False,
        username: str | None = None,
    ) -> None:
        more: dict[int, Any] = {PropertyId.RECEIVE_MAXIMUM: window}
        super().__init__(
            world,
            name,
            expiry_s=expiry_s,
            properties=more,
            clean_start=clean_start,
            username=username,
        )
        self.payloads: list[bytes] = []

    def joins(self, qos: int = 2, topic_filter: str = SHARE) -> None:
        self.send(Subscribe(1, [SubscriptionRequest(topic_filter, qos)], {}))

    def leaves(self) -> None:
        self.send(Disconnect(0, {PropertyId.SESSION_EXPIRY_INTERVAL: 0}))

    def reads(self, *, answers: bool = True) -> None:
        """Take what has come, and answer it."""
        data = bytes(self.wire.data)
        self.wire.data.clear()
        while (span := packet_end(data, 0, 1 << 24)) is not None:
            packet = decode(data[0], data[span[0] : span[1]], Version.V5)
            data = data[span[1] :]
            if isinstance(packet, Publish):
                self.payloads.append(packet.payload)
                if answers and packet.qos:
                    kind = PubAck if packet.qos == 1 else PubRec
                    self.send(kind(packet.packet_id or 0))
            elif isinstance(packet, PubRel) and answers:
                self.send(PubComp(packet.packet_id))

    async def reads_all(self) -> None:
        """Until the broker has nothing more for it."""
        for _ in range(LIMIT_TURNS):
            await turn()
            if not self.wire.data:
                return
            self.reads()
        raise AssertionError("the broker goes on and on")


async def publish(world: Days, qos: int, count: int = COUNT, topic: str = "t/1") -> None:
    source = Device(world, "source", expiry_s=0)
    for number in range(1, count + 1):
        source.send(Publish(topic, b"%d" % number, qos, False, False, number, {}))
        if qos == 2:
            source.send(PubRel(number))
        await turn()
    source.goes()
    await turn()


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload) for payload in payloads]


@pytest.fixture(params=[False, True], ids=["from the log", "from a checkpoint"])
async def world(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Days]:
    made = Days(0, sync=False)
    made.takes_checkpoints = request.param
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: 1000.0 + made.clocks.passed_s)
    made.start()
    made.log.crash_in = 1 << 60
    yield made
    made.close()


Ends = Callable[[Days, Member], None]


def _expires(world: Days, member: Member) -> None:
    member.goes()
    world.pass_s(3601)


def _is_forgotten(world: Days, _: Member) -> None:
    assert ClientRoll(world.core, lambda: 0.0).kick("lazy", forget=True)


def _goes_and_is_forgotten(world: Days, member: Member) -> None:
    member.goes()
    _is_forgotten(world, member)


def _comes_anew(world: Days, _: Member) -> None:
    Member(world, "lazy", clean_start=True)


WAYS: dict[str, Ends] = {
    "disconnect with expiry 0": lambda _, member: member.leaves(),
    "expiry": _expires,
    "taken over with a clean start": _comes_anew,
    "removed by an operator": _is_forgotten,
    "removed while away": _goes_and_is_forgotten,
}


async def with_members(world: Days, *, lazy_s: int = 3600) -> tuple[Member, Member]:
    """One that answers nothing, and one that answers all."""
    lazy, busy = Member(world, "lazy", expiry_s=lazy_s, window=WINDOW), Member(world, "busy")
    lazy.joins()
    busy.joins()
    await turn()
    for one in (lazy, busy):
        one.reads()
    return lazy, busy


def expected(qos: int, *, had: list[int]) -> list[int]:
    """Return the numbers that must have come to others than who had these."""
    return [n for n in range(1, COUNT + 1) if qos == 1 or n not in had]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_member_leaves_comes_to_another_once_and_in_order(
    world: Days, way: str, qos: int
) -> None:
    lazy, busy = await with_members(world)
    await publish(world, qos)
    lazy.reads(answers=False)
    had = numbers(lazy.payloads)
    assert len(had) == WINDOW
    await busy.reads_all()
    own = numbers(busy.payloads)
    WAYS[way](world, lazy)
    await busy.reads_all()
    got = numbers(busy.payloads)
    assert sorted(got) == expected(qos, had=had)
    assert got[len(own) :] == sorted(got[len(own) :])
    assert world.core.budget.dropped == 0


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("way", WAYS)
async def test_it_waits_for_one_that_is_away_and_outlives_a_kill(
    world: Days, way: str, qos: int
) -> None:
    lazy, busy = await with_members(world)
    busy.goes()
    await publish(world, qos)
    lazy.reads(answers=False)
    had = numbers(lazy.payloads)
    WAYS[way](world, lazy)
    world.core.sweep()
    await turn()
    if way == "expiry":
        assert world.core.sessions.get("busy") is None
        return  # it was away for as long
    await world.kill()
    back = Member(world, "busy")
    await back.reads_all()
    assert numbers(back.payloads) == expected(qos, had=had)
    world.core.sweep()
    await world.kill()
    again = Member(world, "busy")
    await again.reads_all()
    assert again.payloads == []


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_session_that_ended_while_the_gateway_was_down_leaves_it_too(
    world: Days, qos: int
) -> None:
    lazy, busy = await with_members(world, lazy_s=60)
    await publish(world, qos)
    lazy.reads(answers=False)
    had = numbers(lazy.payloads)
    lazy.goes()
    await busy.reads_all()
    busy.goes()
    await world.kill(down_s=61)
    assert world.core.sessions.get("lazy") is None
    back = Member(world, "busy")
    await back.reads_all()
    assert sorted(numbers(busy.payloads + back.payloads)) == expected(qos, had=had)


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_stop_leaves_what_a_member_without_a_lasting_session_had_to_one_with(
    world: Days, qos: int
) -> None:
    busy = Member(world, "busy")
    busy.joins()
    await turn()
    others = [Member(world, f"lazy {number}", expiry_s=0, window=WINDOW) for number in range(2)]
    for one in others:
        one.joins()
    await turn()
    await publish(world, qos)
    await busy.reads_all()
    for one in others:
        one.reads(answers=False)
    had = [n for one in others for n in numbers(one.payloads)]
    assert len(had) == 2 * WINDOW
    world.core.stop()
    await turn()
    busy.reads(answers=False)
    late = len(busy.payloads)
    await world.kill()
    back = Member(world, "busy")
    await back.reads_all()
    got = numbers(busy.payloads[:late] + back.payloads)
    assert set(got) == set(expected(qos, had=had))


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_handed_over_again_and_again_is_delivered_once(world: Days, qos: int) -> None:
    members = [Member(world, f"m{number}", window=1) for number in range(4)]
    for one in members:
        one.joins()
    await turn()
    await publish(world, qos)
    for one in members:
        one.reads(answers=False)
    for one in members[:-1]:
        one.leaves()
        await turn()
    had = [n for one in members[:-1] for n in numbers(one.payloads)]
    await world.kill()
    last = Member(world, "m3")
    await last.reads_all()
    got = numbers(last.payloads)
    assert sorted(set(got + numbers(members[-1].payloads))) == expected(qos, had=had)
    assert len(got) == len(set(got))


async def test_a_member_gets_it_at_its_own_qos_and_one_of_qos_0_is_left_out(world: Days) -> None:
    lazy = Member(world, "lazy", window=1)
    lazy.joins()
    await turn()
    await publish(world, 2, count=3)
    none, one = Member(world, "none"), Member(world, "one")
    none.joins(0)
    one.joins(1)
    await turn()
    lazy.leaves()
    await turn()
    assert [(m.payload, m.qos) for m in one.got()] == [(b"2", 1), (b"3", 1)]
    assert none.got() == []


async def test_a_message_keeps_what_is_left_of_its_expiry(world: Days) -> None:
    lazy, busy = await with_members(world)
    busy.goes()
    source = Device(world, "source", expiry_s=0)
    for _ in range(WINDOW):
        source.publish("t/1", expiry_s=600)
    for _ in range(2):
        source.publish("t/1", expiry_s=100)
        source.publish("t/1", expiry_s=600)
    await turn()
    world.pass_s(200)
    lazy.leaves()
    await world.kill()
    back = Member(world, "busy")
    await turn()
    left_s = [m.properties[PropertyId.MESSAGE_EXPIRY_INTERVAL] for m in back.got()]
    assert left_s == [400] * (WINDOW + 2)


async def test_what_waits_by_another_subscription_goes_with_its_session(world: Days) -> None:
    lazy, busy = await with_members(world)
    lazy.send(Subscribe(2, [SubscriptionRequest("t/#", 2)], {}))
    await publish(world, 1)
    await busy.reads_all()
    lazy.leaves()
    await busy.reads_all()
    assert sorted(numbers(busy.payloads)) == list(range(1, COUNT + 1))


async def test_who_leaves_the_group_keeps_what_waits_until_its_session_ends(world: Days) -> None:
    lazy, busy = await with_members(world)
    await publish(world, 1)
    await busy.reads_all()
    own = len(busy.payloads)
    lazy.send(Unsubscribe(2, [SHARE], {}))
    await busy.reads_all()
    assert len(busy.payloads) == own
    lazy.leaves()
    await busy.reads_all()
    assert sorted(numbers(busy.payloads)) == list(range(1, COUNT + 1))


async def test_each_of_two_groups_of_a_session_goes_to_its_own_members(world: Days) -> None:
    other = "$share/others/t/#"
    lazy, busy = await with_members(world)
    lazy.joins(2, other)
    second = Member(world, "second")
    second.joins(2, other)
    await turn()
    await publish(world, 1)
    for one in (busy, second):
        await one.reads_all()
    lazy.leaves()
    for one in (busy, second):
        await one.reads_all()
        assert sorted(numbers(one.payloads)) == list(range(1, COUNT + 1))


@pytest.mark.parametrize("is_killed", [False, True], ids=["goes on", "is killed"])
async def test_without_another_member_it_goes_with_its_session(
    world: Days, *, is_killed: bool
) -> None:
    lazy = Member(world, "lazy", window=1)
    lazy.joins()
    await turn()
    await publish(world, 1)
    lazy.leaves()
    late = Member(world, "late")
    late.joins()
    await late.reads_all()
    if is_killed:
        await world.kill()
        late = Member(world, "late")
        world.core.sweep()
        await late.reads_all()
    assert late.payloads == []


async def test_nobody_gets_what_it_may_not_receive(world: Days) -> None:
    secret = "t/secret"

    def may_deliver(client: Known, topic: str) -> bool:
        return client.username != "other" or topic != secret

    world.may_deliver = may_deliver
    await world.kill()
    lazy = Member(world, "lazy", window=1)
    lazy.joins()
    await turn()
    await publish(world, 1, count=4, topic=secret)
    await publish(world, 1, count=4)
    other = Member(world, "other", username="other")
    other.joins()
    await turn()
    other.got()
    lazy.leaves()
    await turn()
    assert [m.topic for m in other.got()] == ["t/1"] * 4
    assert world.core.budget.dropped == 4


async def amid_a_long_queue(world: Days) -> tuple[Member, int]:
    """One that is there and has what another left in a first turn; of how many messages."""
    lazy, busy = await with_members(world)
    count = 2 * AT_ONCE + 200
    source = Device(world, "source", expiry_s=0)
    for number in range(1, count + 1):
        source.send(Publish("t/1", b"%d" % number, 1, False, False, number, {}))
        if not number % 100:
            await turn()
    await busy.reads_all()
    own = len(busy.payloads)
    lazy.leaves()
    await busy.reads_all()
    assert 0 < len(busy.payloads) - own <= AT_ONCE
    return busy, count


async def test_a_long_queue_is_handed_over_in_turns(world: Days) -> None:
    busy, count = await amid_a_long_queue(world)
    world.core.sweep()
    await busy.reads_all()
    assert sorted(numbers(busy.payloads)) == list(range(1, count + 1))


@pytest.mark.parametrize("user", ["other", None])
async def test_while_the_log_can_not_be_read_it_waits_for_another_of_any_user(
    world: Days, user: str | None
) -> None:
    lazy = Member(world, "lazy", window=WINDOW)
    lazy.joins()
    await turn()
    count = 300
    source = Device(world, "source", expiry_s=0)
    for number in range(1, count + 1):
        source.send(Publish("t/1", b"%d" % number, 2, False, False, number, {}))
        source.send(PubRel(number))
    await turn()
    lazy.reads(answers=False)
    other = Member(world, "other", username=user)
    other.joins()
    await other.reads_all()
    world.log.failing.add("read")
    lazy.leaves()
    await other.reads_all()
    assert 0 < len(other.payloads) < count - WINDOW
    world.log.failing.clear()
    for _ in range(3):
        world.pass_s(PAUSE_MAX_S)
        await other.reads_all()
    assert numbers(other.payloads) == list(range(WINDOW + 1, count + 1))
    assert world.core.budget.dropped == 0


async def test_a_puback_that_refuses_a_message_ends_it_for_the_group(world: Days) -> None:
    lazy, busy = await with_members(world)
    await publish(world, 1, count=2)
    await busy.reads_all()
    [message] = lazy.got()
    lazy.send(PubAck(message.packet_id or 0, ReasonCode.UNSPECIFIED_ERROR))  # [MQTT-4.8.2-6]
    lazy.leaves()
    await busy.reads_all()
    assert len(busy.payloads) == 1


async def test_a_kill_amid_a_long_queue_leaves_the_rest_to_be_handed_over_by_the_next_life(
    world: Days,
) -> None:
    world.takes_checkpoints = False  # one waits for as long
    busy, count = await amid_a_long_queue(world)
    world.durable.write()  # what it has acknowledged
    await world.kill()
    back = Member(world, "busy")
    for _ in range(4):
        world.core.sweep()
        await back.reads_all()
    assert sorted(numbers(busy.payloads + back.payloads)) == list(range(1, count + 1))
    await world.kill()
    again = Member(world, "busy")
    await again.reads_all()
    assert again.payloads == []


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_one_without_a_lasting_session_went_on_with_comes_to_nobody_after_a_kill(
    world: Days, qos: int
) -> None:
    lazy = Member(world, "lazy", window=WINDOW)
    lazy.joins()
    await turn()
    await publish(world, qos)
    lazy.reads(answers=False)
    brief = Member(world, "brief", expiry_s=0)
    brief.joins()
    await turn()
    lazy.leaves()
    await brief.reads_all()
    assert numbers(brief.payloads) == expected(qos, had=numbers(lazy.payloads))
    await world.kill()
    late = Member(world, "late")
    late.joins()
    for _ in range(3):
        world.core.sweep()
        await late.reads_all()
    assert late.payloads == []


class Elsewhere(MembersElsewhere):
    """Has a member on another gateway, which takes what is left to it."""

    def __init__(self, *, is_sole: bool = True) -> None:
        self.left: list[bytes] = []
        self.tells: Callable[[], None] = lambda: None
        self.is_only_holder = is_sole

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        return self.is_only_holder

    def leave(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        self.tells()
        self.left.append(entry.payload)
        return True


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("way", ["disconnect with expiry 0", "expiry"])
@pytest.mark.parametrize("ends", ["before a kill", "at a kill", "after one", "in a kill"])
async def test_without_another_member_here_it_goes_elsewhere_once_whenever_a_kill_comes(
    world: Days, way: str, qos: int, ends: str
) -> None:
    world.groups = elsewhere = Elsewhere()
    await world.kill()
    lazy = Member(world, "lazy", window=WINDOW)
    lazy.joins()
    await turn()
    await publish(world, qos)
    lazy.reads(answers=False)
    had = numbers(lazy.payloads)
    assert len(had) == WINDOW
    if ends == "after one":
        lazy.goes()
        await world.kill()
        lazy = Member(world, "lazy", window=WINDOW)
        lazy.reads()
        lazy.wire.data.clear()
    if ends == "at a kill":
        world.takes_checkpoints = False  # one waits for what only the journal tells
    if ends == "in a kill":  # nothing gets into the log behind the first that goes elsewhere
        elsewhere.tells = lambda: setattr(world.log, "is_dead", True)
    WAYS[way](world, lazy)
    if ends != "at a kill":
        world.core.sweep()
        assert numbers(elsewhere.left) == expected(qos, had=had)
    elsewhere.tells = lambda: None
    await world.kill()
    if (back := world.core.sessions.get("lazy")) is not None:
        world.core.sessions.end(back)  # the one that came anew
    world.core.sweep()
    assert len(elsewhere.left) == len(set(elsewhere.left))
    if ends != "in a kill":  # what a kill took between the journal and the log went nowhere
        assert numbers(elsewhere.left) == expected(qos, had=had)


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_a_member_elsewhere_may_have_had_goes_nowhere_not_even_after_a_kill(
    world: Days, qos: int
) -> None:
    world.groups = elsewhere = Elsewhere(is_sole=False)
    await world.kill()
    lazy = Member(world, "lazy", window=1)
    lazy.joins()
    await turn()
    await publish(world, qos)
    lazy.leaves()
    world.core.sweep()
    elsewhere.is_only_holder = True  # whoever else had it is gone by then
    await world.kill()
    world.core.sweep()
    assert elsewhere.left == []


DISKS: tuple[dict[str, int], ...] = (
    {},
    {"head_bytes": 700},  # of two messages or three: all others that wait do so in the log
    {"kept_bytes": 0},
    {"head_bytes": 700, "kept_bytes": 0},
)


class Leaving(World):
    """A seeded run with crashes in which one member after the other leaves the group for good."""

    def __init__(self, seed: int, *, sync: bool) -> None:
        # An even one: the disk is never full.
        super().__init__(2 * seed, sync=sync, **DISKS[seed % len(DISKS)])
        self.gone: list[Client] = []
        self.steady: set[bytes] = set()
        """The payloads that were published while the member was there that stays."""
        self.clients[3].receive_maximum = 2

    def publish(self, client: Client) -> None:
        before = set(self.published)
        super().publish(client)
        stays = self.clients[4]
        if GROUP in stays.subscribed and GROUP not in stays.unsure:
            self.steady |= set(self.published) - before

    async def step(self) -> None:
        await super().step()
        old = self.clients[3]
        if old.is_accepted and self.rng.random() < 0.02:
            old.keeps_back = True
            await turn()
            old.read()
            old.send(Disconnect(0, {PropertyId.SESSION_EXPIRY_INTERVAL: 0}))
            self.gone.append(old)
            name = f"c3 again {len(self.gone)}"
            self.clients[3] = Client(name, Version.V5, self.rng, GROUP, receive_maximum=2)
            self.clients[3].on_acknowledged = self._acknowledged

    async def drain(self) -> None:
        await super().drain()
        self._members_are_overdue()
        await super().drain()
        self._members_are_overdue()  # a crash may have taken their end back
        for _ in range(LIMIT_TURNS):
            for client in self.clients:
                client.read()
            await turn()
            if self.sync:
                self.log.synced()

    def _members_are_overdue(self) -> None:
        """Sessions end whose client could not say so before a crash."""
        self.ahead_s += 4_000
        self.core.sweep()

    def _got_by_groups(self) -> Counter[bytes]:
        members = [*self.gone, *(client for client in self.clients if client.group)]
        return Counter(payload for one in members for payload in {p.payload for p in one.got})

    def _missed_by_groups(self) -> Iterator[str]:
        got = self._got_by_groups()
        for payload in self.steady:
            message = self.published[payload]
            is_due = GROUP in message.due and message.acknowledged_at is not None
            if is_due and message.qos == 1 and not got[payload]:
                yield f"the group never got {payload!r}"


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("sync", [False, True], ids=["write", "sync"])
async def test_members_that_leave_between_crashes_lose_and_double_nothing(
    sync: bool, pytestconfig: pytest.Config
) -> None:
    left = 0
    for seed in range(500 if pytestconfig.getoption("--soak") else 4):
        world = Leaving(seed, sync=sync)
        world.start()
        for _ in range(300):
            await world.step()
        await world.drain()
        world.close()
        assert world.broken() == [], f"seed {seed}"
        left += len(world.gone)
    assert left


class LeavingTheGateway(Leaving):
    """The same, where the other member comes and goes too, and one is on another gateway."""

    def __init__(self, seed: int, *, sync: bool) -> None:
        super().__init__(seed, sync=sync)
        self.groups = self.elsewhere = Elsewhere()
        self.elsewhere.tells = self._is_alive

    def _is_alive(self) -> None:
        if self.log.is_dead:  # nothing that it tells comes to anybody
            raise CrashError

    async def step(self) -> None:
        await super().step()
        stays = self.clients[4]
        if stays.is_accepted and GROUP in stays.subscribed and self.rng.random() < 0.05:
            stays.unsubscribe(GROUP)
        if not self.log.is_dead:
            self.core.sweep()

    def doubled(self) -> list[bytes]:
        """Messages of QoS 2 that went elsewhere twice, or though a member here was sent them.

        One of QoS 1 may be published twice.
        """
        got, left = self._got_by_groups(), Counter(self.elsewhere.left)
        once = [payload for payload in left if self.published[payload].qos == 2]
        return [payload for payload in once if left[payload] > 1 or got[payload]]


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("sync", [False, True], ids=["write", "sync"])
async def test_what_goes_elsewhere_between_crashes_goes_there_once(
    sync: bool, pytestconfig: pytest.Config
) -> None:
    left = 0
    for seed in range(300) if pytestconfig.getoption("--soak") else (3, 6, 21):
        world = LeavingTheGateway(seed, sync=sync)
        world.start()
        for _ in range(300):
            await world.step()
        await world.drain()
        world.close()
        assert world.doubled() == [], f"seed {seed}"
        left += len(world.elsewhere.left)
    assert left


# -- a release that knows no marks -----------------------------------------------------------------

KNOWN_EVENTS = 13
"""Kinds of events of such a release: it reads nothing of a frame that has another."""
PLAIN_FLAGS = 15
"""Flags of a delivery that it knows: it puts them into a packet as they are."""


def frames_of(world: Days) -> Iterator[tuple[Any, Any, Any]]:
    """The journal's frames in the log, as any release unpacks them."""
    for _, frame, header in world.disk.whole():
        if header.local and not header.numbered:
            (entry,) = batch.decode(frame, header)
            yield msgpack.unpackb(entry.payload)


@pytest.mark.parametrize("qos", [1, 2])
async def test_the_release_before_reads_whatever_a_member_leaves(world: Days, qos: int) -> None:
    lazy, busy = await with_members(world)
    busy.goes()
    await publish(world, qos)
    lazy.reads(answers=False)
    _is_forgotten(world, lazy)
    world.core.sweep()
    await turn()
    back = Member(world, "busy", window=WINDOW)
    await turn()
    assert len(back.wire.data)  # some are on their way, others wait
    if world.takes_checkpoints:
        await world.checkpoint()
    await world.kill()
    inherits = 0
    for events, operations, _ in frames_of(world):
        assert all(kind < KNOWN_EVENTS for kind, *_ in events)
        for _, done in operations:
            inherits += sum(one[0] == Operation.INHERITS for one in done)
            assert all(one[2] <= PLAIN_FLAGS for one in done if one[0] == Operation.SENT)
    assert inherits
    with closing(sqlite3.connect(world.store)) as file:
        rows = file.execute("SELECT flags FROM delivery UNION SELECT flags FROM places").fetchall()
    assert all(flags <= PLAIN_FLAGS for (flags,) in rows)
    assert bool(rows) is world.takes_checkpoints


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_the_release_before_put_into_a_queue_is_no_other_messages_mark(
    world: Days, qos: int
) -> None:
    lazy, busy = await with_members(world)
    await publish(world, qos)
    await busy.reads_all()
    lazy.reads(answers=False)
    await world.checkpoint()
    with closing(sqlite3.connect(world.store)) as file:
        marked = file.execute("SELECT session, place, number FROM marked").fetchall()
        assert marked
        # The rows of a session that ended, and of places where another message stands now.
        file.execute("INSERT INTO marked VALUES (4000, 0, 'gw', 1, 1, 1024)")
        file.execute("UPDATE marked SET number = number + 1000")
        file.commit()
    store = Store(world.store)
    kept = store.load()
    store.close()
    for session in kept.sessions:
        flags = [one.flags for one in (*session.inflight, *session.queue)]
        assert all(one <= PLAIN_FLAGS for one in flags)
    with closing(sqlite3.connect(world.store)) as file:
        assert file.execute("SELECT * FROM marked WHERE session = 4000").fetchall() == []
