"""A card that comes back different, and a neighbour that has what it lost.

What the log has lost of this gateway's own messages, and of others', comes back from the neighbour:
who waits for it gets it then, in order, and not again after the next start.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from memory_log import NAME
from neighboured_world import Card, NeighbouredWorld, StormyWorld, crash, settle

from gateway.broker.durability import queue_log_reader
from gateway.broker.limits import NO_LONGER_LOGGED
from gateway.broker.sessions import backlog
from tree_handler import batch
from tree_handler.intervals import Intervals

COUNT = 30


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[NeighbouredWorld]:
    made = NeighbouredWorld(0, sync=request.param)
    made.start()
    made.log.crash_in = 1 << 60
    for client in made.clients:
        client.on_acknowledged = lambda _: None
    made.link()
    yield made
    made.close()


class Cast:
    """A publisher and a subscriber.

    Args:
        world: where they are.
        is_away: whether the subscriber is away while messages are published.
        qos: of both.
        size: of a payload, about.

    """

    def __init__(self, world: NeighbouredWorld, *, is_away: bool, qos: int, size: int = 0) -> None:
        self.size = size
        self.world = world
        self.is_away = is_away
        self.qos = qos
        self.publisher, self.subscriber = world.clients[:2]
        self.published: list[bytes] = []

    async def begin(self) -> None:
        await settle(self.world, self.publisher, self.subscriber)
        self.subscriber.subscribe("a/#", self.qos)
        await settle(self.world, self.subscriber)
        if self.is_away:
            self.subscriber.cut()

    async def publish(self, count: int = COUNT) -> None:
        there = [self.publisher] if self.is_away else [self.publisher, self.subscriber]
        for _ in range(count):
            self.published.append(self.publisher.publish("a/1", self.qos, payload=self.made()))
            await settle(self.world, *there)
        assert self.publisher.acknowledged == self.published

    def made(self) -> bytes:
        """The next payload."""
        return b"%d" % len(self.published) + b"." * self.size

    def got(self) -> list[bytes]:
        return [p.payload for p in self.subscriber.got if not (self.qos == 1 and p.dup)]

    def first_got(self) -> list[bytes]:
        """Return the payloads that it got, each where it came first."""
        return list(dict.fromkeys(self.got()))

    def doubled(self) -> set[bytes]:
        return {payload for payload, count in Counter(self.got()).items() if count > 1}

    async def damage(self, how: Callable[[], None]) -> None:
        """The gateway stops, its card is damaged, and it starts again."""
        self.world.at_start = how
        await crash(self.world)

    async def come_on(self) -> None:
        """Let the broker try again what was held up."""
        self.world.core.upkeep.sweep(self.world.core.now())
        await settle(self.world, self.subscriber)

    async def come_back(self) -> None:
        """The neighbour is there again, and so is the subscriber."""
        self.world.link()
        self.world.repair()
        await settle(self.world, self.subscriber)
        self.world.repair()
        await settle(self.world, self.subscriber)


AWAY = pytest.mark.parametrize("is_away", [True, False], ids=["away", "there"])
QOS = pytest.mark.parametrize("qos", [1, 2])


@AWAY
@QOS
async def test_who_waits_gets_what_a_lost_tail_held_as_soon_as_a_neighbour_brings_it(
    world: NeighbouredWorld, is_away: bool, qos: int
) -> None:
    cast = Cast(world, is_away=is_away, qos=qos)
    await cast.begin()
    await cast.publish()
    await cast.damage(lambda: world.lose_tail(25))
    assert world.side.core.covered((NAME, world.epoch - 1)).last < COUNT
    await cast.come_back()
    assert cast.first_got() == cast.published
    if qos == 2:
        assert cast.doubled() <= world.found[cast.subscriber.name].again
    got = cast.got()
    await crash(world)
    await cast.come_back()
    assert cast.got() == got, "a start gives what had been given"


@AWAY
@QOS
@pytest.mark.parametrize("count", [1, 7], ids=["a frame", "a page"])
async def test_who_waits_gets_what_stood_in_damaged_frames_and_before_what_is_behind_them(
    world: NeighbouredWorld, is_away: bool, qos: int, count: int
) -> None:
    cast = Cast(world, is_away=is_away, qos=qos)
    await cast.begin()
    await cast.publish()

    def damage() -> None:
        frames = world.disk.frames
        middle = len(frames) // 2
        at = next(i for i in range(middle, len(frames)) if batch.check(frames[i]).clients)
        world.disk.damage(at, count)

    await cast.damage(damage)
    await cast.come_back()
    assert cast.first_got() == cast.published
    if qos == 2 and not is_away:
        assert not cast.doubled() - world.found[cast.subscriber.name].again
        assert len(cast.doubled()) <= count
    got = cast.got()
    await crash(world)
    await cast.come_back()
    assert cast.got() == got, "a start gives what had been given"


@QOS
async def test_with_an_older_card_and_then_the_newer_one_who_waits_gets_all_in_order(
    world: NeighbouredWorld, qos: int
) -> None:
    cast = Cast(world, is_away=True, qos=qos)
    await cast.begin()
    await cast.publish(5)
    cards: list[Card] = []
    await cast.damage(lambda: cards.append(world.card()))
    world.link()
    await cast.publish(5)
    await cast.damage(lambda: (cards.append(world.card()), world.put_in(cards[0]))[0])
    world.link()
    world.repair()
    await cast.publish(5)
    await cast.damage(lambda: world.put_in(cards[1]))
    await cast.come_back()
    assert cast.got() == cast.published
    await crash(world)
    await cast.come_back()
    assert cast.got() == cast.published


@AWAY
@QOS
async def test_messages_of_a_clone_that_ran_elsewhere_come_once_in_order_and_without_a_restart(
    world: NeighbouredWorld, is_away: bool, qos: int
) -> None:
    cast = Cast(world, is_away=is_away, qos=qos)
    await cast.begin()
    await cast.publish(5)
    first = world.epoch

    def elsewhere() -> None:
        world.epoch += 2
        rows = [[("a/1", qos, f"{life}:{n}".encode()) for n in range(5)] for life in "xy"]
        world.neighbour.hear_of_life(first + 2, [(NAME, first), (NAME, first + 1)], rows[1])
        world.neighbour.hear_of_life(first + 1, [(NAME, first)], rows[0])
        cast.published += [row[2] for row in (*rows[0], *rows[1])]

    await cast.damage(elsewhere)
    await cast.come_back()
    assert cast.got() == cast.published
    await crash(world)
    await cast.come_back()
    assert cast.got() == cast.published


@QOS
async def test_a_card_that_is_new_and_empty_keeps_no_sessions_and_refuses_nobody(
    world: NeighbouredWorld, qos: int
) -> None:
    cast = Cast(world, is_away=True, qos=qos)
    await cast.begin()
    await cast.publish(5)
    await cast.damage(lambda: world.put_in(Card(type(world.disk)())))
    await cast.come_back()
    assert cast.got() == []
    cast.subscriber.subscribe("a/#", qos)
    await settle(world, cast.subscriber)
    await cast.publish(5)
    await settle(world, cast.subscriber)
    assert cast.got() == cast.published[5:]


@QOS
@pytest.mark.parametrize("is_deleted", [False, True], ids=["retained", "deleted"])
async def test_what_was_retained_or_deleted_in_a_lost_tail_is_so_again_and_stays_so(
    world: NeighbouredWorld, qos: int, is_deleted: bool
) -> None:
    publisher = world.clients[0]
    await settle(world, publisher)
    publisher.publish("a/1", qos, retain=True, payload=b"old")
    await settle(world, publisher)
    last = b"" if is_deleted else b"new"
    publisher.publish("a/1", qos, retain=True, payload=last)
    await settle(world, publisher)
    number = world.side.core.covered((NAME, world.epoch)).last

    def lose_the_last() -> None:
        while world.disk.have[NAME, world.epoch].last == number:
            world.lose_tail(1)

    world.at_start = lose_the_last
    await crash(world)
    kept = world.core.retention.get("a/1")
    assert kept is not None and kept.payload == b"old"
    for _ in range(2):
        world.link()
        world.repair()
        kept = world.core.retention.get("a/1")
        assert (b"" if kept is None else kept.payload) == last
        world.log.synced()
        await crash(world)
        kept = world.core.retention.get("a/1")
        assert (b"" if kept is None else kept.payload) == last


@QOS
async def test_a_queue_of_a_checkpoint_waits_for_what_the_log_has_lost_since(
    world: NeighbouredWorld, qos: int
) -> None:
    cast = Cast(world, is_away=True, qos=qos, size=backlog.HEAD_BYTES // 5)
    await cast.begin()
    other = world.clients[2]
    await settle(world, other)
    other.subscribe("a/#", 2)
    await settle(world, other)
    await cast.publish()
    await settle(world, other)
    await world.checkpoint()
    await cast.damage(lambda: world.lose_tail(35))
    await settle(world, cast.subscriber, other)  # before the neighbour is there
    assert len(cast.got()) < COUNT
    await cast.come_back()
    await settle(world, other)
    assert sorted(cast.got()) == sorted(cast.published)
    assert len(cast.doubled()) == 0
    if qos == 2:
        assert [publish.payload for publish in other.got] == cast.published
    await crash(world)
    await cast.come_back()
    assert sorted(cast.got()) == sorted(cast.published)


async def test_only_what_comes_for_the_first_time_is_named_so_that_an_actuator_has_it_once(
    world: NeighbouredWorld,
) -> None:
    stream = ("other", 1)
    publish = world.core.remote_delivery.publish_batch
    sent = [("a", 1, b"%d" % number) for number in range(1, 4)]
    assert publish(sent[:2], stream, 2) == sent[:2]
    assert publish(sent, stream, 3) == sent[2:]
    world.durable.lacking.lost(stream, 1, 1)
    assert publish(sent[:1], stream, 1) == []
    assert publish([("a", 0, b"now")], stream, 0) == [("a", 0, b"now")]


@AWAY
@QOS
@pytest.mark.parametrize("of_now", [True, False], ids=["of this life", "of the one before"])
async def test_what_the_log_loses_while_it_runs_reaches_who_waits_in_its_order_and_once(
    world: NeighbouredWorld, is_away: bool, qos: int, of_now: bool
) -> None:
    cast = Cast(world, is_away=is_away, qos=qos, size=backlog.HEAD_BYTES // 5)
    await cast.begin()
    await cast.publish()
    if not of_now:
        await crash(world)
    frames = world.disk.frames
    at = [i for i, frame in enumerate(frames) if batch.check(frame).clients]
    for first in at[10], at[20]:
        before = {key: Intervals(numbers) for key, numbers in world.disk.have.items()}
        world.disk.damage(first, 1)
        for key, numbers in before.items():
            if lost := numbers.without(world.disk.have[key]):
                world.side.core.lost(key, lost)
    await settle(world, cast.subscriber)
    assert cast.got() == cast.published[: None if not is_away else 10]
    world.link()
    world.repair()
    for _ in range(2):
        world.ahead_s += backlog.PAUSE_MAX_S
        await cast.come_on()
    assert cast.got() == cast.published
    await crash(world)
    await cast.come_back()
    assert cast.first_got() == cast.published
    assert qos == 1 or not cast.doubled()


@QOS
async def test_what_the_present_life_has_lost_costs_no_number_that_is_given_next(
    world: NeighbouredWorld, qos: int
) -> None:
    """Nobody has it: it is given up, and what is published next follows what came last."""
    cast = Cast(world, is_away=True, qos=qos, size=backlog.HEAD_BYTES // 5)
    await cast.begin()
    world.cut()
    await cast.publish()
    at = [i for i, frame in enumerate(world.disk.frames) if batch.check(frame).clients]
    world.disk.damage(at[10], 1)
    next_number = world.side.core.next_logged
    world.side.core.lost((NAME, world.epoch), Intervals([(11, 11)]))
    world.link()
    world.repair()
    assert [(one.first, one.last) for one in world.side.told] == [(11, 11)]
    assert world.side.core.next_logged >= next_number
    await cast.publish(5)
    there = [one for _, _, one in world.disk.whole() if one.clients and not one.passed]
    logged = [one.first for one in there if one.stream == (NAME, world.epoch)]
    assert len(set(logged)) == len(logged)
    for _ in range(3):
        world.ahead_s += queue_log_reader.AWAITED_S
        await cast.come_back()
        await cast.come_on()
    assert cast.got() == [*cast.published[:10], *cast.published[11:]]


@QOS
async def test_what_nobody_brings_back_is_dropped_after_a_while_and_keeps_nothing_behind_it(
    world: NeighbouredWorld, qos: int
) -> None:
    cast = Cast(world, is_away=True, qos=qos, size=backlog.HEAD_BYTES // 5)
    await cast.begin()
    await cast.publish()
    world.link()
    world.cut()
    await crash(world)
    frames = world.disk.frames
    at = [i for i, frame in enumerate(frames) if batch.check(frame).clients]
    world.disk.damage(at[10], 1)
    world.side.core.lost((NAME, world.epoch - 1), Intervals([(11, 11)]))
    await settle(world, cast.subscriber)
    assert cast.got() == cast.published[:10]
    for _ in range(3):
        world.ahead_s += queue_log_reader.AWAITED_S
        await cast.come_on()
    assert cast.got() == [*cast.published[:10], *cast.published[11:]]
    assert world.core.refusals.counts[NO_LONGER_LOGGED] == 1


@QOS
@pytest.mark.parametrize("again", [20, 11], ids=["elsewhere", "next to it"])
async def test_a_second_loss_of_the_same_life_is_waited_for_as_the_first(
    world: NeighbouredWorld, qos: int, again: int
) -> None:
    cast = Cast(world, is_away=True, qos=qos, size=backlog.HEAD_BYTES // 5)
    await cast.begin()
    await cast.publish()
    world.link()
    world.cut()
    await crash(world)
    at = [i for i, frame in enumerate(world.disk.frames) if batch.check(frame).clients]
    stream = (NAME, world.epoch - 1)

    def lose(index: int) -> None:
        world.disk.damage(at[index], 1)
        world.side.core.lost(stream, Intervals([(index + 1, index + 1)]))

    lose(10)
    await settle(world, cast.subscriber)
    assert cast.got() == cast.published[:10]
    world.link()
    world.repair()
    world.ahead_s += queue_log_reader.AWAITED_S + 1
    lose(again)
    world.ahead_s += backlog.PAUSE_MAX_S / 10
    await cast.come_on()
    assert cast.got() == cast.published[:again]
    world.repair()
    for _ in range(3):
        world.ahead_s += backlog.PAUSE_MAX_S / 3
        await cast.come_on()
    assert cast.got() == cast.published


STEPS = 150
SMALL_HEAD = 700
"""Bytes of two messages or three: all others that wait do so in the log."""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kinds", [("tail",), ("page",), ("card",), ("tail", "page", "card")])
async def test_in_a_storm_of_kills_and_damage_what_the_neighbour_has_reaches_all_or_is_told_of(
    kinds: tuple[str, ...], pytestconfig: pytest.Config
) -> None:
    damages = 0
    for seed in range(200 if pytestconfig.getoption("--soak") else 3):
        options = {"kept_bytes": 0, "head_bytes": SMALL_HEAD} if seed % 2 else {}
        world = StormyWorld(seed, kinds, sync=seed % 4 < 2, **options)
        world.start()
        await world.begin()
        for _ in range(STEPS):
            await world.step()
        await world.drain()
        world.close()
        assert world.unjust() == [], f"seed {seed}, {kinds}"
        damages += world.damages
    assert damages > 3
