"""Message expiry counts wherever a message waits: at its origin, on its way, over restarts."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_host import until
from waiting_gateways import EXPIRY, Gateway, Make, gateways, pass_s

from gateway.broker.inbound.remote_delivery import EXPIRED
from gateway.broker.sessions.backlog import HEAD_BYTES
from gateway.broker.sessions.places import Places
from gateway.node.links.clock_part import FILE_NAME, ClockFile
from gateway.node.links.held_batches import HeldBatches
from gateway.node.links.wire import Additions
from tree_handler import batch
from tree_handler.batch import Flags, Row
from tree_handler.entry import accepted_at, accepted_us
from tree_handler.errors import ProtocolError
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained

DELIVERED = b"delivered"


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    async with gateways(tmp_path) as made:
        yield made


async def linked(make: Make, *names: str, mode: str = "flood") -> list[Gateway]:
    """Gateways in a row, each of which has heard of the first one's clock."""
    made = [await make(name, 9.0 - at, mode=mode) for at, name in enumerate(names)]
    for one, other in itertools.pairwise(made):
        await one.link(other)
    return made


@pytest.mark.parametrize("mode", ["flood", "routed", "topic"])
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_a_message_waits_at_its_origin_for_a_link_counts(
    make: Make, qos: int, mode: str
) -> None:
    a, b = await linked(make, "a", "b", mode=mode)
    reader = b.client("reader", stays=True)
    reader.subscribe("t", qos)
    if a.routed is not None:
        await until(lambda: "t" in str(a.routed.status()["interests"]))
    await a.cut(b)
    writer = a.client("writer")
    writer.publish("t", b"open valve", qos, 6)
    writer.publish("t", DELIVERED, qos, 100)
    pass_s(12.5, a, b)
    await a.link(b)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 88}
    assert b.heard == [DELIVERED]
    assert b.core.refusals.counts[EXPIRED] == 1


async def test_waits_on_each_hop_add_up_and_a_restart_in_between_costs_nothing(make: Make) -> None:
    a, b, c = await linked(make, "a", "b", "c")
    reader = c.client("reader", stays=True)
    reader.subscribe("t", 1)
    await a.cut(b)
    await b.cut(c)
    writer = a.client("writer")
    writer.publish("t", b"after 12 s", 1, 10)
    writer.publish("t", b"after 20 s", 1, 15)
    writer.publish("t", DELIVERED, 1, 100)
    pass_s(12.5, a, b, c)
    await a.link(b)
    await until(lambda: b.heard == [b"after 20 s", DELIVERED])
    await a.cut(b)
    pass_s(4, a, b, c)
    await b.stop()
    pass_s(4, a, b, c)
    await b.start()
    await b.link(c)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 80}


async def test_what_waited_counts_where_nothing_was_heard_of_its_origin_before(make: Make) -> None:
    a, b = await linked(make, "a", "b")
    writer = a.client("writer")
    writer.publish("t", b"open valve", 1, 6)
    writer.publish("t", DELIVERED, 1, 100)
    await until(lambda: DELIVERED in b.heard)
    pass_s(12.5, a, b)
    c = await make("c", 1.0)
    reader = c.client("reader")
    reader.subscribe("t", 1)
    await b.link(c)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 88}


async def test_what_waited_two_links_away_counts_behind_a_link_that_was_there(
    make: Make,
) -> None:
    """The last two hear of the first one's clock just before its messages come."""
    a, b = await linked(make, "a", "b")
    d, e = [await make(name, 1.0) for name in "de"]
    await d.link(e)
    reader = e.client("reader")
    reader.subscribe("t", 1)
    writer = a.client("writer")
    writer.publish("t", b"open valve", 1, 6)
    writer.publish("t", DELIVERED, 1, 100)
    await until(lambda: DELIVERED in b.heard)
    pass_s(12.5, a, b, d, e)
    await b.link(d)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 88}


async def test_what_an_origin_had_before_it_was_off_waits_on_behind_its_restart(
    make: Make,
) -> None:
    a, b = await linked(make, "a", "b")
    reader = b.client("reader", stays=True)
    reader.subscribe("t", 1)
    await a.cut(b)
    writer = a.client("writer")
    writer.publish("t", b"open valve", 1, 6)
    writer.publish("t", DELIVERED, 1, 100)
    pass_s(5.5, a, b)
    await a.stop()
    a.clocks.power_cut()
    pass_s(7, b)
    await a.start()
    await a.link(b)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 88}


async def test_what_is_accepted_in_the_next_life_does_not_count_as_old(make: Make) -> None:
    a, b = await linked(make, "a", "b")
    reader = b.client("reader", stays=True)
    reader.subscribe("t", 1)
    a.client("writer").publish("t", b"before", 1, 6)
    await until(lambda: b"before" in reader.got())
    await a.cut(b)
    await a.stop()
    a.clocks.power_cut()
    pass_s(3600, b)  # of which the other one's clock knows nothing
    await a.start()
    await a.link(b)
    a.client("writer").publish("t", DELIVERED, 1, 6)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got()[DELIVERED] == 6


async def test_a_retained_message_that_waited_at_its_origin_is_retained_for_what_is_left(
    make: Make,
) -> None:
    a, b, c = await linked(make, "a", "b", "c")
    await a.cut(b)
    writer = a.client("writer")
    writer.publish("old", b"open valve", 1, 6, retain=True)
    writer.publish("new", DELIVERED, 1, 100, retain=True)
    pass_s(12.5, a, b, c)
    await a.link(b)
    await until(lambda: c.core.retention.get("new") is not None)
    reader = c.client("reader")
    reader.subscribe("#", 1)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 88}


@given(st.integers(1, 10**7), st.integers(-240, 240))
def test_what_waited_behind_a_gap_is_counted_once_and_by_no_clock_that_is_too_fast(
    true_s: int, rate: int
) -> None:
    _, header = batch.make("o", 1, 2, [("t", 1, b"x")], flags=Flags.LOGGED, origin_time_us=0)
    stamped = accepted_at(("t", 1, b"x", {EXPIRY: 10**8}), 7_000_000)
    rows: list[Row] = [stamped, ("t", 1, b"x", {EXPIRY: 10**8}), ("t", 1, b"x")]
    held = HeldBatches()
    held.wait(header, 0.0)
    held.handed_out(header, rows, true_s + true_s * rate / 1_000_000)
    waited_s = 10**8 - rows[0][3][EXPIRY]
    assert accepted_us(rows[0]) == 7_000_000 + waited_s * 1_000_000
    assert true_s * 0.999 - 2 <= waited_s <= true_s
    assert rows[2] == ("t", 1, b"x")
    assert not held


async def test_what_is_under_way_over_a_link_says_when_it_was_sent(make: Make) -> None:
    a, b = await linked(make, "a", "b")
    stamp = a.sent_at.stamp(*a.node.links)
    pass_s(7, a, b)
    (link,) = b.node.links
    assert 6.9 < b.sent_at.waited_s(link, stamp) < 7
    assert b.sent_at.waited_s(link, a.sent_at.stamp(*a.node.links)) == 0.0
    with pytest.raises(ProtocolError, match="time stamp of a message"):
        b.sent_at.waited_s(link, stamp[1:])
    await a.cut(b)
    assert b.sent_at.waited_s(link, stamp) == 0.0
    assert a.sent_at.stamp(1) == b""


async def test_a_retained_message_that_has_expired_when_a_neighbour_tells_it_is_no_news(
    make: Make,
) -> None:
    a = await make("a", 1.0)
    reader = a.client("reader")
    reader.subscribe("#", 1)
    for number, (payload, left_s) in enumerate(((b"open valve", 0.0), (DELIVERED, 9.0)), 1):
        version = RetainedVersion(number, 0, "z", 1)
        told = Retained("t", version, number, 1, payload, {EXPIRY: 60}, left_s)
        assert a.core.shared_retention.learn(told, a.now(), is_news=True)
    await until(lambda: bool(reader.got()))
    assert reader.got() == {DELIVERED: 9}


@pytest.mark.parametrize("old", ["a", "b"])
async def test_neighbours_of_an_earlier_release_get_what_they_got_before(
    make: Make, old: str
) -> None:
    releases = {name: Additions.CLOCKS if name != old else Additions.NONE for name in "ab"}
    a, b = [await make(name, 1.0, additions=releases[name]) for name in "ab"]
    await a.link(b)
    reader = b.client("reader", stays=True)
    reader.subscribe("t", 1)
    await b.cut(a)
    a.client("writer").publish("t", DELIVERED, 1, 100)
    pass_s(12.5, a, b)
    await b.link(a)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 100}


@pytest.mark.parametrize("old", ["a", "b"])
async def test_a_neighbour_of_an_earlier_release_is_told_what_is_retained_and_tells_it(
    make: Make, old: str
) -> None:
    releases = {name: Additions.CLOCKS if name != old else Additions.NONE for name in "ab"}
    a, b = [await make(name, 1.0, additions=releases[name]) for name in "ab"]
    for number, (one, topic) in enumerate(((a, "of/a"), (b, "of/b")), 1):
        told = Retained(topic, RetainedVersion(number, 0, "z", 1), number, 1, DELIVERED, {})
        assert one.core.shared_retention.learn(told, one.now(), is_news=True)
    await a.link(b)
    await until(lambda: a.core.shared_retention.told("of/b", a.now()) is not None)
    await until(lambda: b.core.shared_retention.told("of/a", b.now()) is not None)
    told_b = a.core.shared_retention.told("of/b", a.now())
    assert told_b is not None
    assert told_b.payload == DELIVERED


async def test_a_message_that_comes_says_how_far_its_origins_clock_is(make: Make) -> None:
    """Neighbours tell of no clocks here, so the first message tells of the origin's clock."""
    a, b = [await make(name, 1.0, additions=Additions.NONE) for name in "ab"]
    await a.link(b)
    reader = b.client("reader", stays=True)
    reader.subscribe("t", 1)
    writer = a.client("writer")
    writer.publish("t", b"first", 1, 100)
    await until(lambda: b"first" in reader.got())
    await a.cut(b)
    writer.publish("t", b"open valve", 1, 6)
    writer.publish("t", DELIVERED, 1, 100)
    pass_s(12.5, a, b)
    await a.link(b)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {b"first": 100, DELIVERED: 88}


async def test_what_had_waited_before_it_came_is_not_forgotten_by_a_crash(make: Make) -> None:
    a, b = await linked(make, "a", "b")
    reader = b.client("reader", stays=True)
    reader.subscribe("t", 1)
    await a.cut(b)
    reader.goes()
    writer = a.client("writer")
    writer.publish("t", b"open valve", 1, 15)
    writer.publish("t", DELIVERED, 1, 100)
    pass_s(12.5, a, b)
    await a.link(b)
    await until(lambda: DELIVERED in b.heard)
    b.part.handle_timer(b.part.next_timer())
    await b.kill()
    pass_s(5, b)
    await b.start()
    reader = b.client("reader", stays=True)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 83}


async def test_what_was_accepted_together_waits_for_a_client_as_one_range_of_places(
    make: Make,
) -> None:
    a, b = await linked(make, "a", "b")
    reader = b.client("reader", stays=True)
    reader.subscribe("t", 1)
    reader.goes()
    await a.cut(b)
    writer = a.client("writer")
    writer.publish("t", bytes(HEAD_BYTES), 1, 100)
    for _ in range(20):
        writer.publish("t", b"x", 1, 100)
        a.pass_s(0.001)
    writer.publish("t", DELIVERED, 1, 100)
    pass_s(12.5, a, b)
    await a.link(b)
    await until(lambda: DELIVERED in b.heard)
    found = b.core.sessions.get("reader").outgoing.backlog.saved()
    runs = [run for one in found if isinstance(one, Places) for run in one.runs()]
    assert sum(run.count for run in runs) >= 20
    assert len(runs) <= 3


async def test_where_a_gateways_own_clock_begins_anew_nothing_is_counted_by_the_one_before(
    make: Make, tmp_path: Path
) -> None:
    a, b = await linked(make, "a", "b")
    a.client("writer").publish("t", b"x", 1, 100)
    await until(lambda: b"x" in b.heard)
    await b.stop()
    for lost in (*(tmp_path / "b" / "log").iterdir(), tmp_path / "b" / "broker.db"):
        lost.unlink()
    b.clocks.wall += 10**15
    await b.start()
    reader = b.client("reader")
    reader.subscribe("t", 1)
    await a.link(b)
    a.client("writer").publish("t", DELIVERED, 1, 6)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got()[DELIVERED] == 6


KNOWN = [("a", 1, 5, 7), ("b", 2, 6, 8)]


def kept(folder: Path, change: Callable[[bytes], bytes] = lambda data: data) -> Any:
    """Save a clock file, change its bytes, and return the content that is read back."""
    file = ClockFile(folder, "b")
    file.save(KNOWN)
    path = folder / FILE_NAME
    path.write_bytes(change(path.read_bytes()))
    found = file.take()
    assert not path.exists()
    return found


def test_what_is_known_of_clocks_is_read_once_as_it_was_written(tmp_path: Path) -> None:
    assert ClockFile(tmp_path, "b").take() == []
    assert kept(tmp_path) == KNOWN


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: bytes((data[0] ^ 1,)) + data[1:],
        lambda data: data[:-1] + bytes((data[-1] ^ 1,)),
        lambda data: bytes(len(data)),
        lambda data: bytes(4096),
        lambda data: with_crc(msgpack.packb([2, "b", []])),
        lambda data: with_crc(msgpack.packb([1, "other", KNOWN])),
        lambda data: with_crc(msgpack.packb([1, "b", [["a", 1, 5, "x"]]])),
        lambda data: with_crc(msgpack.packb([1, "b", [["a", 0, 5, 7]]])),
        lambda data: with_crc(msgpack.packb([1, "b", 7])),
        lambda data: with_crc(msgpack.packb(7)),
    ],
)
def test_a_file_that_is_damaged_or_anothers_is_named_and_nothing_of_it_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[bytes], bytes]
) -> None:
    assert kept(tmp_path, change) == []
    assert f"set aside as {FILE_NAME}.damaged-1: messages may expire late" in caplog.text


def test_a_file_that_can_not_be_written_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ClockFile(tmp_path / "missing", "b").save(KNOWN)
    assert f"{FILE_NAME}: not written, so messages may expire late" in caplog.text


def with_crc(packed: bytes) -> bytes:
    return zlib.crc32(packed).to_bytes(4, "big") + packed


async def test_an_expired_message_of_qos_0_is_not_handed_on(make: Make) -> None:
    a, b = await linked(make, "a", "b")
    reader = b.client("reader")
    reader.subscribe("t", 0)
    writer = a.client("writer")
    writer.publish("t", b"open valve", 0, 6)
    pass_s(12.5, a, b)  # while it is on its way
    writer.publish("t", DELIVERED, 0, 100)
    await until(lambda: DELIVERED in reader.got())
    assert reader.got() == {DELIVERED: 100}
