"""Nodes joined over loopback TCP: the shell around the cores, without a broker."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tree_host import Host, Start, started, until

from gateway.log.message_log import LogError
from gateway.node.links.held_batches import HeldBatches
from gateway.node.links.node import TreeNode
from gateway.node.links.repairs import Repairs
from gateway.node.links.scope import Scope
from tests.held_objects import held_instances
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header, Row
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order
from tree_handler.replication.actions import Lost
from tree_handler.replication.delivery import DeliverLogged

EXPIRY = 2
_CONTROL = Flags.LOGGED | Flags.CONTROL


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with started(tmp_path) as make:
        yield make


def roots(*hosts: Host) -> set[str]:
    return {host.node.tree.root_id for host in hosts}


async def triangle(start: Start) -> tuple[Host, Host, Host]:
    a, b, c = await start("a", 3.0), await start("b", 2.0), await start("c", 1.0)
    for one, other in ((a, b), (b, c), (c, a)):
        one.neighbours.add_static(other.address)
    await until(
        lambda: (
            roots(a, b, c) == {"a"}
            and sum(len(h.node.tree.forwarding) for h in (a, b, c)) == 4
            and all(len(h.node.links) == 2 for h in (a, b, c))
        )
    )
    return a, b, c


async def test_three_gateways_elect_the_most_capable_and_block_one_link(start: Start) -> None:
    a, b, c = await triangle(start)
    roles = [n["role"] for h in (a, b, c) for n in h.node.status()["neighbours"]]
    assert sorted(roles) == ["blocked", "blocked", "designated", "designated", "root", "root"]
    assert a.node.status()["parent"] is None


async def test_a_message_reaches_all_others_once_and_is_acknowledged_after_it_is_logged(
    start: Start,
) -> None:
    a, b, c = await triangle(start)
    acknowledgement = b.node.publish(Entry("t", b"1", qos=1))
    assert acknowledgement is not None
    await acknowledgement
    assert b.log.length > 0
    assert b.node.publish(Entry("t", b"2", qos=0)) is None
    await until(lambda: len(a.got) >= 2 and len(c.got) >= 2)
    assert sorted(a.got) == sorted(c.got) == ["b:1", "b:2"]
    assert b.got == []


def shared(segment: Path) -> bytes:
    """Return the batches of a segment, without a gateway's notes for itself."""
    data = segment.read_bytes()
    return b"".join(
        data[at : at + header.end] for at, header in batch.frames(data) if not header.local
    )


async def test_the_logs_of_all_gateways_hold_the_same_bytes(start: Start, tmp_path: Path) -> None:
    a, b, c = await triangle(start)
    for n in range(20):
        b.node.publish(Entry("t", str(n).encode(), qos=1))
        await asyncio.sleep(0)
    await until(lambda: len(a.got) == len(c.got) == 20)
    (one,), (two,), (three,) = (list((tmp_path / name).glob("*.log")) for name in "abc")
    assert shared(one) == shared(two) == shared(three)


async def test_every_gateway_knows_whom_it_reaches_and_who_is_gone(start: Start) -> None:
    a, b, c = await triangle(start)
    await until(
        lambda: [h.node.locator.reached for h in (a, b, c)] == [{"b", "c"}, {"a", "c"}, {"a", "b"}]
    )
    await a.stop()
    await until(lambda: [h.node.locator.reached for h in (b, c)] == [{"c"}, {"b"}])
    assert b.node.status()["reached"] == ["c"]


async def test_when_the_root_dies_the_others_go_on_and_repair_brings_it_up_to_date(
    start: Start,
) -> None:
    a, b, c = await triangle(start)
    await a.stop()
    await until(lambda: roots(b, c) == {"b"} and len(c.node.tree.forwarding) == 1)
    c.node.publish(Entry("t", b"without root", qos=1))
    await until(lambda: b.got == ["c:without root"])
    again = await start("a", 3.0, epoch=2)
    again.neighbours.add_static(b.address)
    await until(lambda: again.got == ["c:without root"] and roots(again, b, c) == {"a"})


async def test_a_gateway_without_the_key_is_refused(start: Start) -> None:
    a = await start("a", 1.0)
    stranger = await start("stranger", 9.0, key=bytes(32))
    with pytest.raises(ValueError, match="does not hold the tree's key"):
        await stranger.node.dial(a.address, lambda _: None)
    assert not a.node.links


async def test_of_two_links_between_a_pair_one_stays(start: Start) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    b.neighbours.add_static(a.address)
    await until(lambda: roots(a, b) == {"a"} and len(b.node.tree.forwarding) == 1)
    await until(lambda: len(a.node.links) == len(b.node.links) == 1)
    (link,), (other,) = a.node.links.values(), b.node.links.values()
    assert link.dialler_id == other.dialler_id  # whose link was up first, or else the lower id


async def test_control_messages_reach_the_gateways_and_not_their_clients(start: Start) -> None:
    a, b, _ = await triangle(start)
    b.node.publish(Entry("$hedgerow/query/a", b"", qos=0), control=True)
    await until(lambda: a.control == ["$hedgerow/query/a"])
    assert a.got == []


async def test_qos_0_of_a_turn_that_is_more_than_a_batch_may_hold_arrives_in_its_order(
    start: Start,
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
    count = batch.MAX_ENTRIES + 1
    a.node.origin.publish_all((), [("t", 0, b"%d" % n) for n in range(count)], None)
    await until(lambda: len(b.got) == count)
    assert b.got == [f"a:{n}" for n in range(count)]


@pytest.mark.slow
async def test_a_full_disk_keeps_the_link_and_qos_0_and_what_it_refused_comes_by_repair(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
    (link,) = b.node.links

    def full(*_: object) -> None:
        raise LogError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(b.log, "append", full)
        for n in range(5):
            a.node.publish(Entry("t", f"logged {n}".encode(), qos=1))
            a.node.publish(Entry("t", f"unlogged {n}".encode()))
            await until(lambda n=n: b.got[-1:] == [f"a:unlogged {n}"])  # type: ignore[misc]
        await until(lambda: b.node.commit.refusals.counts["batch refused by the log"] > 7)
        assert list(b.node.links) == [link]
        assert not [name for name in b.got if "unlogged" not in name]
    await until(lambda: len(b.got) == 10)
    assert b.got[5:] == [f"a:logged {n}" for n in range(5)]
    assert list(b.node.links) == [link]


async def test_of_a_link_that_has_ended_it_is_not_remembered_that_the_log_refused_its_batches(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)

    def full(*_: object) -> None:
        raise LogError("disk full")

    (repairs,) = held_instances(b.node.exchange, Repairs)
    with monkeypatch.context() as patched:
        patched.setattr(b.log, "append", full)
        a.node.publish(Entry("t", b"1", qos=1))
        await until(lambda: bool(repairs.refused))
        await a.stop()
        await until(lambda: not b.node.links)
    assert not repairs.refused


async def test_what_damage_costs_a_log_that_is_open_comes_back_from_a_neighbour(
    start: Start, tmp_path: Path
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
    for n in range(20):
        a.node.publish(Entry("t", b"%d" % n, qos=1))
    await until(lambda: len(b.got) == 20)
    (segment,) = (tmp_path / "b").glob("*.log")
    data = bytearray(segment.read_bytes())
    at = next(i for i, header in batch.frames(bytes(data)) if header.last >= 7 and header.clients)
    data[at + 2] ^= 4
    segment.write_bytes(data)
    stream, everything = ("a", 1), Intervals([(1, 20)])
    assert sum(header.count for _, header in b.log.read(stream, everything)) < 20
    await until(lambda: b.log.lost_messages > 0 and b.log.have[stream] == everything)
    assert sum(header.count for _, header in b.log.read(stream, everything)) == 20
    assert b.node.replication.covered(stream) == everything
    assert set(b.got[20:]) <= set(b.got[:20]), "once more, for its receiver knows who had it"


class Recorder:
    """A part that notes what the node calls of it."""

    topics = frozenset((b"$hedgerow/recorded",))

    def __init__(self, node: TreeNode) -> None:
        self.node = node
        self.calls: list[object] = []
        self.due = math.inf

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        self.calls.append(("up", link, peer_id))

    def link_down(self, link: int, now: float) -> None:
        self.calls.append(("down", link))

    def tree_changed(self, now: float) -> None:
        self.calls.append(("tree", set(self.node.tree.forwarding), self.node.tree.root_id))

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        if payload == b"broken":
            raise ProtocolError("recorded", payload)
        self.calls.append((link, topic, payload))
        self.due = now

    def next_timer(self) -> float:
        return self.due

    def handle_timer(self, now: float) -> None:
        self.due = math.inf
        self.calls.append("timer")


async def test_another_protocol_rides_on_the_links_of_a_node(start: Start) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    one, other = Recorder(a.node), Recorder(b.node)
    a.node.add_part(one)
    b.node.add_part(other)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
    (link,), (back,) = a.node.links, b.node.links
    assert one.calls[0] == ("up", link, "b")
    assert one.calls[-1] == ("tree", {link}, "a")
    assert other.calls[0] == ("up", back, "a")
    a.node.send(link, b"$hedgerow/recorded", b"1")
    await until(lambda: other.calls[-1] == "timer")
    assert other.calls[-2] == (back, b"$hedgerow/recorded", b"1")
    other.due = 0.0
    b.node.reschedule()
    await until(lambda: other.calls[-2:] == ["timer", "timer"])
    a.node.send(link, b"$hedgerow/recorded", b"broken")
    await until(lambda: ("down", back) in other.calls and ("down", link) in one.calls)
    assert ("tree", set(), "b") in other.calls
    a.node.send(link, b"$hedgerow/recorded", b"to nobody")


async def test_a_topic_has_one_protocol(start: Start) -> None:
    a = await start("a", 1.0)
    a.node.add_part(Recorder(a.node))
    with pytest.raises(ValueError, match="recorded"):
        a.node.add_part(Recorder(a.node))
    batches = Recorder(a.node)
    batches.topics = frozenset((b"$hedgerow/batch",))
    with pytest.raises(ValueError, match="replication has"):
        a.node.add_part(batches)


async def test_a_message_on_a_topic_that_nobody_has_ends_the_link(start: Start) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.links) == len(b.node.links) == 1)
    (link,), (back,) = a.node.links, b.node.links
    a.node.send(link, b"$hedgerow/unheard-of", b"")
    await until(lambda: back not in b.node.links)


async def test_what_is_kept_local_is_logged_and_acknowledged_and_never_leaves(
    start: Start,
) -> None:
    a = await start("a", 2.0, scope=Scope(["#"], ["private/#"]))
    for topic, payload in (("private/x", "1"), ("t", "2"), ("private/x", "3")):
        done = a.node.publish(Entry(topic, payload.encode(), qos=1))
        assert done is not None
        await done
    b = await start("b", 1.0)
    b.neighbours.add_static(a.address)
    stream = ("a", 1)
    await until(lambda: b.node.replication.covered(stream) == Intervals([(1, 3)]))
    await until(lambda: b.node.tree.forwarding and a.node.tree.forwarding)
    for topic, payload in (("private/x", "4"), ("t", "5"), ("private/x", "6")):
        a.node.publish(Entry(topic, payload.encode(), qos=1))
        a.node.publish(Entry(topic, f"q{payload}".encode(), qos=0))
    await until(lambda: b.node.replication.covered(stream) == Intervals([(1, 6)]))
    await until(lambda: "a:q5" in b.got)
    assert [row for row in b.got if row != "a:q5"] == ["a:2", "a:5"]
    held = [header for _, header in b.log.read(stream, Intervals([(1, 6)])) if header.logged]
    assert [header.first for header in held] == [2, 5]
    assert [header.last for _, header in a.log.read(stream, Intervals([(1, 6)]))][-1] == 6
    assert b.node.replication.counters.lost == 0


async def test_a_batch_whose_messages_cant_be_read_is_set_aside_and_named(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    a = await start("a", 1.0)
    frame, header = batch.make("o", 1, 1, [("t", "1", b"")], flags=_CONTROL, origin_time_us=0)
    a.node.exchange.take(a.node.replication.take(frame, header))
    assert "batch $o/1 logged 1..1 can't be read: batch entry" in caplog.text
    assert ": set aside (1 so far)" in caplog.text
    assert a.node.status()["counters"]["set_aside"] == 1


async def test_how_many_messages_are_lost_is_told_with_their_numbers(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    a = await start("a", 1.0)
    a.node.exchange.carry_out([Lost(("o", 1), 3, 7, "nobody has them")])
    assert "3 to 7 of o, epoch 1: nobody has them: lost (5 so far)" in caplog.text


async def test_what_a_message_waits_behind_a_gap_is_taken_off_its_expiry(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_out: list[Row] = []
    a = await start("a", 1.0, deliver=lambda rows, header: handed_out.extend(rows))
    passed_s = 0.0
    loop = asyncio.get_running_loop()
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + passed_s)

    def comes(number: int, *properties: dict[int, object]) -> None:
        rows: list[Row] = [("t", 1, b"x", *properties)]
        made = batch.make("o", 1, number, rows, flags=Flags.LOGGED, origin_time_us=0)
        a.node.exchange.take(a.node.replication.take(*made))

    # The first message of an epoch tells what came before: nothing.
    statement = batch.encode(
        "o", 1, 1, [epoch_order.statement("o", 1, {})], flags=_CONTROL, origin_time_us=0
    )
    a.node.exchange.take(a.node.replication.take(statement, batch.check(statement)))
    comes(2, {EXPIRY: 100})
    comes(3, {EXPIRY: 20})
    passed_s = 30.0
    comes(5, {EXPIRY: 100})
    passed_s = 40.5  # loops round what they read of clocks
    assert handed_out == []
    comes(1, {EXPIRY: 100})
    comes(4)
    expiries = [row[3][EXPIRY] if len(row) > 3 else None for row in handed_out]
    assert expiries == [100, 60, 0, None, 90]
    (held,) = held_instances(a.node.exchange, HeldBatches)
    assert len(held) == 0


async def test_what_waited_in_the_log_is_handed_out_in_sequence_however_it_was_repaired(
    start: Start,
) -> None:
    a = await start("a", 1.0)
    for first in (3, 4, 1, 2):  # as repair brought them
        rows = [("t", 1, b"%d" % first)]
        a.log.append(*batch.make("o", 1, first, rows, flags=Flags.LOGGED, origin_time_us=0))
    a.node.exchange.carry_out([DeliverLogged(("o", 1), 1, 4)])
    assert a.got == ["o:1", "o:2", "o:3", "o:4"]


async def test_who_gets_another_parent_and_who_becomes_one_send_what_the_other_lacks_and_no_more(
    tmp_path: Path,
) -> None:
    # A slow machine takes no neighbour for dead, and another parent that it brings is counted.
    async with started(tmp_path, hello_s=0.5, repair_interval_s=1.0) as start:
        hosts = await triangle(start)
        c = hosts[-1]
        published = changes = 0
        parents = [host.node.status()["parent"] for host in hosts]

        def note_parents() -> None:
            nonlocal changes, parents
            before, parents = parents, [host.node.status()["parent"] for host in hosts]
            changes += before != parents

        async def publish(times: int) -> None:
            nonlocal published
            for _ in range(times):
                for host in hosts:
                    host.node.publish(Entry("t", b"%d" % published, qos=1))
                    published += 1
                await asyncio.sleep(0.01)
                note_parents()

        await publish(250)  # for more than two rounds of summaries
        (parent,) = (n for n in c.node.status()["neighbours"] if n["role"] == "root")
        c.node.drop(parent["id"], "the test ends it")
        note_parents()
        await publish(10)
        await until(lambda: [len(h.got) for h in hosts] == 3 * [published * 2 // 3])
        most = 3 * 10 * max(1, changes - 1)  # to another parent and back, which the test brings
        assert sum(h.node.replication.counters.duplicates for h in hosts) <= most


def test_times_of_10_000_batches_that_wait_are_known_and_then_those_of_later_ones() -> None:
    held = HeldBatches()

    def header(first: int) -> Header:
        return Header("gw-a", 1, first, 1, Flags.LOGGED, 0, 0, 0)

    def expiry(first: int, now: float) -> object:
        rows: list[Row] = [("t", 1, b"", {EXPIRY: 60})]
        held.handed_out(header(first), rows, now)
        return rows[0][3][EXPIRY]

    for first in range(1, 10_001):
        held.wait(header(first), 5.0)
        if first < 5:
            held.wait(header(first), 9.0)  # it came before
    assert len(held) == 10_000
    assert (expiry(1, 15.9), expiry(1, 99.0), expiry(2, 5.9), expiry(3, 99.0)) == (50, 60, 60, 0)
    for first in (10_001, 10_002, 10_003, 10_004):
        held.wait(header(first), 20.0)
    assert len(held) == 1
    assert (expiry(4, 99.0), expiry(10_004, 30.0), len(held)) == (60, 50, 0)
