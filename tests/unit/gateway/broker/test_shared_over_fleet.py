"""A broker that is one of a fleet: whose members of a shared subscription get a message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence

import pytest
from memory_transport import MemoryTransport
from mqtt_peer import Bench, Peer
from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.inbound.connection import Connection
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.estates import BYTES_MAX, SHARE
from gateway.broker.sessions.inheritance import ELSEWHERE_AT_ONCE
from gateway.log.commit_callback import Committed
from gateway.mqtt import (
    Connect,
    Disconnect,
    PubAck,
    Publish,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from tree_handler.batch import Entry, Epoch, Row
from tree_handler.holders import Holders, SharedGroup, holders_of, with_holders
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.sharing.claims import DURABLE, ONLINE, Claims, OwnClaims
from tree_handler.sharing.groups import FleetGroups
from tree_handler.sharing.handed_on import HOPS_MAX

JOBS: SharedGroup = ("workers", "jobs/#")
FILTER = "$share/workers/jobs/#"
TO_B: Holders = ((*JOBS, "b"),)
TO_A: Holders = ((*JOBS, "a"),)
OTHER = ("b", 7)
"""A stream of gateway ``b``."""
WAITS = {"properties": {0x11: 3_600}}
EXPIRY = 2


class View:
    """The view that gateway ``a`` has of a fleet, and the messages that it handed on."""

    def __init__(self) -> None:
        self.own = OwnClaims("a", 1)
        self.fleet = FleetGroups("a")
        self.fleet.moved(frozenset("bc"))
        self.told: dict[SharedGroup, int] = {}
        self.fleet.own_lives.add(1)
        self.is_settled = True
        self.handed_on: list[tuple[Entry, SharedGroup]] = []
        self.left: list[tuple[bytes, int]] = []
        """Payloads that members left to others, each with the number of times it was handed on."""

    def has_room_for(self, group: SharedGroup) -> bool:
        return self.own.has_room_for(group)

    def changed(self, group: SharedGroup, presence: int) -> None:
        self.told[group] = presence
        self.own.changed(group, presence)

    def matching(self, topic: str) -> tuple[SharedGroup, ...]:
        return self.fleet.matching(topic)

    def choose(self, topic: str, qos: int, here: Mapping[SharedGroup, int]) -> Holders:
        return self.fleet.choose(topic, qos, here)

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        return self.fleet.gives(origin, holders, group)

    def hand_on(self, entry: Entry, holders: Holders, there: Collection[SharedGroup]) -> None:
        for share, topic_filter, holder in holders:
            if holder in ("", "a") and (share, topic_filter) not in there:
                self.handed_on.append((entry, (share, topic_filter)))

    def is_elsewhere(self, group: SharedGroup) -> bool:
        return self.fleet.is_elsewhere(group)

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        return self.fleet.is_sole(stream, holders, group)

    def leave(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        if hops > HOPS_MAX or self.fleet.next_holder(entry.topic, group) is None:
            return False
        self.left.append((entry.payload, hops))
        return True


class Gateway(Bench):
    """Gateway ``a``."""

    def __init__(self) -> None:
        self.view = View()
        super().__init__(anonymous=True, groups=self.view)

    def know(self, gateway_id: str, presence: int = ONLINE, version: int = 1) -> None:
        """Learn that another gateway has a member."""
        groups = {JOBS: presence} if presence else {}
        touched = self.view.fleet.update(Claims(gateway_id, 1, version, groups=groups))
        self.broker.core.known_routes.touched_by(touched)

    async def member(self, name: str = "member", qos: int = 1, **fields: object) -> Peer:
        peer = await self.connect(name, **fields)
        assert await peer.subscribe(FILTER, qos) == qos
        return peer

    def comes(self, *rows: Row, first: int = 1) -> None:
        """Take what gateway ``b`` accepted and logged."""
        self.broker.core.remote_delivery.publish_batch(rows, OTHER, first + len(rows) - 1)


@pytest.fixture
async def a() -> AsyncIterator[Gateway]:
    one = Gateway()
    await one.start()
    yield one
    await one.stop()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
async def test_a_message_names_the_gateway_whose_member_gets_it(
    a: Gateway, qos: int, retain: bool
) -> None:
    a.know("b")
    writer = await a.connect("writer")
    writer.send(Publish("jobs/1", b"x", qos, retain, False, 7 if qos else None, {}))
    await writer.next() if qos else await writer.nothing_came()
    assert [holders_of(row) for row in a.rows] == [TO_B]


async def test_a_message_that_a_member_here_gets_is_as_it_was_before(a: Gateway) -> None:
    a.know("b")
    member, writer = await a.member(), await a.connect("writer")
    assert await writer.publish("jobs/1") == 0
    assert (await member.next()).payload == b"x"
    assert await writer.publish("other") == 0
    assert a.rows == [("jobs/1", 1, b"x"), ("other", 1, b"x")]


async def test_a_member_that_is_away_here_gets_nothing_that_one_elsewhere_gets(
    a: Gateway,
) -> None:
    a.know("b")
    (await a.member(**WAITS)).close()
    writer = await a.connect("writer")
    while a.view.told.get(JOBS) != DURABLE:
        await writer.nothing_came()
    assert await writer.publish("jobs/1", b"for b") == 0
    a.know("b", 0, version=2)
    assert await writer.publish("jobs/1", b"waits") == 0
    assert [holders_of(row) for row in a.rows] == [TO_B, ()]
    member = await a.connect("member", clean_start=False, **WAITS)
    assert (await member.next()).payload == b"waits"
    await member.nothing_came()


async def test_a_will_and_what_the_gateway_itself_publishes_name_a_holder_too(a: Gateway) -> None:
    a.know("b")
    for qos in (0, 1):
        a.broker.accept(Entry("jobs/own", b"x", qos))
    await (await a.connect("writer")).nothing_came()
    assert [holders_of(row) for row in a.rows] == [TO_B, TO_B]


@pytest.mark.parametrize(
    ("holders", "is_given"), [(TO_A, True), (TO_B, False), ((), False)], ids=["a", "b", "nobody"]
)
async def test_a_message_of_another_gateway_is_for_its_holders_members(
    a: Gateway, holders: Holders, is_given: bool
) -> None:
    a.know("b")
    member, plain = await a.member(), await a.connect("plain")
    assert await plain.subscribe("jobs/#") == 1
    a.comes(with_holders(("jobs/1", 1, b"x"), holders), ("jobs/1", 1, b"plain"))
    rows = [with_holders(("jobs/1", 0, b"unlogged"), holders), ("jobs/1", 0, b"also")]
    a.broker.core.remote_delivery.publish_batch(rows, OTHER, 0)
    every = [b"x", b"plain", b"unlogged", b"also"]
    assert [(await plain.next()).payload for _ in every] == every
    got = [(await member.next()).payload for _ in range(2)] if is_given else []
    assert got == ([b"x", b"unlogged"] if is_given else [])
    await member.nothing_came()
    assert not a.view.handed_on


async def test_a_message_of_an_earlier_release_is_given_here_as_before(a: Gateway) -> None:
    member = await a.member()
    a.comes(("jobs/1", 1, b"x"))
    a.broker.core.remote_delivery.publish_batch([("jobs/1", 0, b"unlogged")], OTHER, 0)
    assert [(await member.next()).payload for _ in range(2)] == [b"x", b"unlogged"]


async def test_what_is_for_members_of_whom_none_is_there_is_handed_on(a: Gateway) -> None:
    a.know("b")
    a.comes(
        with_holders(("jobs/1", 1 | 4, b"x", {EXPIRY: 60}), TO_A),
        with_holders(("jobs/2", 1, b"not ours"), TO_B),
        ("jobs/3", 1, b"nobody's"),
    )
    assert a.view.handed_on == [(Entry("jobs/1", b"x", 1, properties={EXPIRY: 60}), JOBS)]


async def test_a_member_that_is_away_and_takes_qos_0_alone_is_none(a: Gateway) -> None:
    a.know("b")
    (await a.member("zero", 0, **WAITS)).close()
    while a.view.told[JOBS]:
        await (await a.connect("watcher")).nothing_came()
    a.comes(with_holders(("jobs/1", 1, b"x"), TO_A))
    assert a.view.handed_on == [(Entry("jobs/1", b"x", 1), JOBS)]
    assert not a.broker.core.remote_delivery.take_over(Entry("jobs/1", b"y", 1), JOBS, 1)


async def test_what_a_member_was_to_get_that_left_before_the_log_had_it_is_handed_on() -> None:
    view = View()
    waiting: list[Committed] = []

    def commit(logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        assert [holders_of(row) for row in logged] == [()]
        waiting.append(done or (lambda *_: None))

    core = DataPlane(hooks(commit=commit, groups=view))
    view.fleet.update(Claims("b", 1, 1, groups={JOBS: ONLINE}))
    connection, wire = Connection(core.service), MemoryTransport()
    connection.connection_made(wire)
    connect = Connect(Version.V5, "member", True, 60, None, None, None, {}, False)
    subscribe = Subscribe(1, [SubscriptionRequest(FILTER, 1)], {})
    for packet in connect, subscribe:  # of two that come as one, the second may wait for a turn
        connection.data_received(encode(packet, 5))
    core.commit_queue.publish_own(Message.of(Entry("jobs/1", b"x", 1), 0.0))
    core.commit_queue.commit()
    connection.connection_lost(None)
    assert view.told == {JOBS: 0}
    waiting[0](1, None)
    assert view.handed_on == [(Entry("jobs/1", b"x", 1), JOBS)]
    core.stop()


async def test_what_was_handed_on_goes_to_one_member_of_that_subscription_alone(
    a: Gateway,
) -> None:
    members = [await a.member("1"), await a.member("2")]
    plain = await a.connect("plain")
    assert await plain.subscribe("#") == 1
    take_over = a.broker.core.remote_delivery.take_over
    for n in range(4):
        assert take_over(Entry("jobs/1", b"%d" % n, 1), JOBS, 1)
    got = [(await member.next()).payload for member in members for _ in range(2)]
    assert sorted(got) == [b"0", b"1", b"2", b"3"]
    await plain.nothing_came()
    assert not take_over(Entry("jobs/1", b"x", 1), ("other", "jobs/#"), 1)
    assert not take_over(Entry("elsewhere", b"x", 1), JOBS, 1)
    assert not take_over(Entry("$SYS/x", b"x", 1), ("g", "$SYS/#"), 1)
    assert take_over(Entry("bad/#", b"x", 1), JOBS, 1)  # and counted
    assert a.counts["message of the tree that no packet can carry"] == 1


async def test_what_a_neighbour_tells_of_a_retained_message_is_for_no_member(a: Gateway) -> None:
    a.know("b")
    member, plain = await a.member(), await a.connect("plain")
    assert await plain.subscribe("jobs/#") == 1
    told = Retained("jobs/1", RetainedVersion(1, 1, *OTHER), 2, 1, b"x", {}, None, None)
    assert a.broker.core.shared_retention.learn(told, 0.0, is_news=True)
    assert (await plain.next()).payload == b"x"
    await member.nothing_came()


async def test_who_is_there_is_told_as_clients_come_and_go(a: Gateway) -> None:
    told = a.view.told
    first = await a.member("first", **WAITS)
    assert told == {JOBS: ONLINE | DURABLE}
    second = await a.member("second")
    first.close()
    second.close()
    watcher = await a.connect("watcher")
    while told[JOBS] != DURABLE:
        await watcher.nothing_came()
    back = await a.connect("first", clean_start=False, properties={0x11: 0})
    assert told == {JOBS: ONLINE}
    back.close()
    while told[JOBS]:
        await watcher.nothing_came()
    assert await watcher.subscribe("$share/g/$SYS/#") == 1
    assert told == {JOBS: 0}


async def test_one_shared_subscription_over_the_limit_of_a_gateway_is_refused(a: Gateway) -> None:
    peer = await a.connect("greedy")
    for n in range(256):
        assert await peer.subscribe(f"$share/{n}/jobs") == 1
    assert await peer.subscribe("$share/one-more/jobs") == ReasonCode.QUOTA_EXCEEDED
    assert await peer.subscribe("$share/0/jobs") == 1
    assert await peer.subscribe("jobs") == 1
    assert a.counts["shared subscription over the limit of a gateway"] == 1
    assert await (await a.open(version=4)).connect("old") == 0


async def test_members_elsewhere_that_come_or_go_change_where_the_next_message_goes(
    a: Gateway,
) -> None:
    writer = await a.connect("writer")
    for presence, version in ((0, 1), (ONLINE, 2), (0, 3)):
        a.know("b", presence, version)
        writer.send(Publish("jobs/1", b"x", 0, False, False, None, {}))
        writer.send(Publish("jobs/1", b"x", 1, False, False, 9, {}))
        assert isinstance(await writer.next(), PubAck)
    assert [holders_of(row) for row in a.rows] == [(), (), TO_B, TO_B, (), ()]


async def leaves(a: Gateway, member: Peer) -> bool:
    """End a member's session, and let the broker look at what it left; whether that was all."""
    member.send(Disconnect(0, {0x11: 0}))
    while a.view.told[JOBS]:
        await (await a.connect("watcher")).nothing_came()
    return a.broker.core.sweep()


async def test_what_the_last_member_here_leaves_goes_to_another_gateway_once_and_in_order(
    a: Gateway,
) -> None:
    a.know("b", DURABLE)
    member, writer = await a.member(qos=2, **WAITS), await a.connect("writer")
    for payload in (b"1", b"2"):
        assert await writer.publish("jobs/1", payload) == 0
    a.comes(with_holders(("jobs/1", 1, b"3"), TO_A), with_holders(("jobs/1", 2, b"sent"), TO_A))
    assert a.broker.core.remote_delivery.take_over(Entry("jobs/1", b"4", 1), JOBS, 2)
    for _ in range(5):
        await member.next()
    await leaves(a, member)
    assert a.view.left == [(b"1", 1), (b"2", 1), (b"3", 1), (b"4", 3)]
    a.broker.core.sweep()
    assert len(a.view.left) == 4
    assert a.broker.core.dropped == 0


async def test_right_after_a_start_it_waits_until_others_can_be_in_reach(a: Gateway) -> None:
    a.know("b")
    a.view.is_settled = False
    member = await a.member()
    assert await (await a.connect("writer")).publish("jobs/1") == 0
    await member.next()
    assert await leaves(a, member)
    assert a.view.left == []
    a.view.is_settled = True
    a.broker.core.sweep()
    assert a.view.left == [(b"x", 1)]


async def test_what_waits_to_be_handed_over_is_bounded_by_user_and_counted(
    a: Gateway,
) -> None:
    a.know("b")
    a.view.is_settled = False
    writer, size = await a.connect("writer"), 1 << 20
    for n in range(BYTES_MAX // SHARE // size + 2):
        member = await a.member()
        assert await writer.publish("jobs/1", b"%07d" % n * (size // 7)) == 0
        await member.next()
        await leaves(a, member)
    assert 0 < a.broker.core.dropped <= 3
    a.view.is_settled = True
    while not a.broker.core.sweep() or len(a.view.left) < BYTES_MAX // SHARE // size - 1:
        pass
    first = [int(payload[:7]) for payload, _ in a.view.left]
    assert first == list(range(len(first)))


async def test_what_was_handed_on_most_often_goes_with_the_session_and_is_counted(
    a: Gateway,
) -> None:
    a.know("b")
    member = await a.member()
    assert a.broker.core.remote_delivery.take_over(Entry("jobs/1", b"x", 1), JOBS, HOPS_MAX)
    await member.next()
    await leaves(a, member)
    assert a.view.left == []
    assert a.broker.core.dropped == 1


async def test_what_members_elsewhere_may_have_had_too_goes_with_the_session(a: Gateway) -> None:
    member = await a.member()
    a.comes(("jobs/1", 1, b"each gateway's"))  # b is not known to name anybody
    await member.next()
    a.know("b")
    await leaves(a, member)
    assert a.view.left == []
    assert a.broker.core.dropped == 1


async def test_what_waits_stays_here_while_a_member_can_go_on_with_it(a: Gateway) -> None:
    a.know("b")
    member = await a.member()
    assert await (await a.connect("writer")).publish("jobs/1") == 0
    await member.next()
    other = await a.member("other")
    member.send(Disconnect(0, {}))
    assert (await other.next()).payload == b"x"
    a.broker.core.sweep()
    assert a.view.left == []


async def test_so_much_goes_to_other_gateways_in_one_turn(a: Gateway) -> None:
    a.know("b")
    member, count = await a.member(), ELSEWHERE_AT_ONCE + 10
    a.comes(*[with_holders(("jobs/1", 1, b"%d" % n), TO_A) for n in range(count)])
    for _ in range(20):  # as many as may be on their way
        await member.next()
    assert not await leaves(a, member)
    assert len(a.view.left) == ELSEWHERE_AT_ONCE
    assert a.broker.core.sweep()
    assert [payload for payload, _ in a.view.left] == [b"%d" % n for n in range(count)]
