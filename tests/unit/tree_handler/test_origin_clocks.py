"""The waiting time of a message is never counted too high, and hardly too low."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import origin_clocks
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.clock_readings import (
    DRIFT_BITS,
    MAX_GATEWAYS,
    MAX_LIVES,
    ClockReading,
    ClockReadings,
)
from tree_handler.entry import MAX_CLOCK_US
from tree_handler.errors import ProtocolError
from tree_handler.origin_clocks import (
    GONE_US,
    MAX_TOLD,
    NEWS_US,
    SAVED_US,
    STAMP_US,
    OriginClocks,
    life_of,
)
from tree_handler.routing.locator import GatewayLocation

SECOND = 1_000_000
A = ("a", 1)


@dataclass
class Ways:
    """A locator whose ways to gateways a test sets."""

    there: dict[str, GatewayLocation] = field(default_factory=dict)

    def __call__(self, gateway_id: str) -> GatewayLocation | None:
        return self.there.get(gateway_id)


def clocks(name: str, ways: Ways | None = None, *links: int) -> OriginClocks:
    made = OriginClocks((name, 1))
    made.go_by(ways or Ways())
    for link in links:
        made.link_up(link, (f"peer-{link}", 1))
    return made


def waited_s(one: OriginClocks, stamp_us: int, now_us: int) -> float:
    return one.waited_us(A, stamp_us, now_us) / SECOND


# -- from below --------------------------------------------------------------------------------

RATES = st.integers(-240, 240)
"""Millionths by which a clock is too fast."""
WAITS = st.integers(0, 10**12)
STARTS = st.integers(0, 10**15)


@given(
    st.lists(st.tuples(RATES, STARTS), min_size=2, max_size=5),
    st.lists(st.tuples(WAITS, WAITS), min_size=1, max_size=6),
)
def test_no_more_is_counted_than_has_passed_however_fast_or_slow_clocks_are(
    gateways: list[tuple[int, int]], waits: list[tuple[int, int]]
) -> None:
    """A row of gateways; what the first one's clock reads is told along it, with waits between.

    A message is accepted at the first one after the first wait of each pair, and asked about at the
    last one after the second wait.
    """

    def reads(of: int, true_us: int) -> int:
        rate, start = gateways[of]
        return start + true_us + true_us * rate // 1_000_000

    row = [clocks(f"gw-{n}" if n else "a", None, 0, 1) for n in range(len(gateways))]
    true_us = 0
    for before, after in waits:
        for n in range(1, len(row)):
            told = row[n - 1].news(1, reads(n - 1, true_us))
            true_us += before // len(row)
            row[n].heard(0, [one for one in told if one[0] == "a"], reads(n, true_us))
        accepted_us, stamp_us = true_us, reads(0, true_us)
        true_us += after
        found_us = row[-1].waited_us(A, stamp_us, reads(-1, true_us))
        assert found_us <= true_us - accepted_us


@given(st.integers(0, 30 * 86_400), st.integers(0, 86_400))
def test_little_less_is_counted_than_has_passed(known_s: int, wait_s: int) -> None:
    one = clocks("b", None, 1)
    one.heard(1, [("a", 1, 5 * SECOND, True)], 0)
    now_us = (known_s + wait_s) * SECOND
    found_s = waited_s(one, (5 + known_s) * SECOND, now_us)
    assert wait_s - (known_s + 2 * wait_s) / (1 << DRIFT_BITS) - 0.001 <= found_s <= wait_s


def test_of_an_origin_of_which_nothing_is_known_nothing_is_counted() -> None:
    assert waited_s(clocks("b"), 0, 100 * SECOND) == 0.0


def test_a_stamp_says_what_its_origins_clock_read_when_it_came() -> None:
    one = clocks("b")
    one.accepted(A, 100 * SECOND, 0)
    one.accepted(A, 90 * SECOND, 5 * SECOND)  # one that waited itself, which is no news
    assert 14.8 < waited_s(one, 90 * SECOND, 5 * SECOND) < 15


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 40))
def test_a_stamp_is_of_the_next_moment_and_is_not_taken_for_the_present_one(
    now_us: int, later_us: int
) -> None:
    stamp_us = origin_clocks.stamp(now_us)
    assert now_us < stamp_us <= now_us + STAMP_US
    one = clocks("b")
    one.accepted(A, stamp_us, 0)
    reads_us = one.reads(A, later_us)
    assert reads_us is not None
    assert reads_us <= now_us + later_us


def test_what_is_accepted_in_another_life_of_its_origin_is_not_counted_by_this_ones_clock() -> None:
    one = clocks("b")
    one.accepted(A, 100 * SECOND, 0)
    assert one.waited_us(("a", 2), 0, 5 * SECOND) == 0


def test_of_its_own_lives_a_gateway_knows_all() -> None:
    one = clocks("a")
    assert one.reads(A, 7) == 7
    one.load([("a", 3, 0, 0)])
    assert one.reads(("a", 3), 7) == 7
    one.forget()
    assert one.reads(("a", 3), 7) is None
    assert one.reads(A, 7) == 7


# -- who is believed -----------------------------------------------------------------------------


def test_who_is_not_on_the_way_of_a_message_has_no_say_in_its_age() -> None:
    ways = Ways({"a": GatewayLocation(1, 1)})
    one = clocks("c", ways, 1, 2)
    one.heard(1, [("a", 1, 10 * SECOND, True)], 0)
    one.heard(2, [("a", 1, 10**9 * SECOND, True)], 0)
    assert waited_s(one, 0, 0) < 10
    one.link_down(2)
    assert waited_s(one, 0, 0) < 10
    del ways.there["a"]
    assert waited_s(one, 0, 0) < 10


def test_what_was_told_on_a_way_stands_until_another_one_is_on_it() -> None:
    ways = Ways({"a": GatewayLocation(1, 1)})
    one = clocks("c", ways, 1, 2)
    one.heard(1, [("a", 1, 10**9 * SECOND, True)], 0)
    one.heard(2, [("a", 1, 10 * SECOND, True)], 0)
    ways.there["a"] = GatewayLocation(2, 1)
    one.moved(0)
    assert waited_s(one, 0, 0) < 10
    one.link_down(1)
    assert waited_s(one, 0, 0) < 10


def test_where_nobody_is_on_the_way_the_least_counts_that_is_told() -> None:
    one = clocks("c", None, 1, 2, 3)
    one.heard(1, [("a", 1, 10**9 * SECOND, True)], 0)
    one.heard(2, [("a", 1, 10 * SECOND, True)], 0)
    assert 9.9 < waited_s(one, 0, 0) < 10
    assert one.news(3, 0) == [("c", 1, 0, True), ("a", 1, 10 * SECOND, False)]
    one.heard(2, [("a", 1, 99 * SECOND, True)], 0)
    assert one.news(3, 0) == []  # hearsay goes on once
    assert one.save(0) == [("c", 1, 0, 0)]


def test_what_was_heard_on_the_way_is_not_outdone_by_who_is_not() -> None:
    ways = Ways({"a": GatewayLocation(1, 1)})
    one = clocks("c", ways, 1, 2)
    one.heard(1, [("a", 1, 10 * SECOND, True)], 0)
    del ways.there["a"]
    one.link_down(1)
    one.heard(2, [("a", 1, 10**9 * SECOND, True)], 0)
    assert 9.9 < waited_s(one, 0, 0) < 10


def test_a_gateway_that_was_off_itself_hears_what_it_missed() -> None:
    one = OriginClocks(("c", 2))
    one.load([("a", 1, 0, 0)])
    one.link_up(1, ("b", 1))
    one.heard(1, [("a", 1, 12 * SECOND, True)], 5 * SECOND)
    assert 11.9 < waited_s(one, 0, 5 * SECOND) < 12


def test_an_origin_that_is_a_neighbour_knows_its_own_clock_best() -> None:
    one = OriginClocks(("c", 1))
    one.link_up(1, ("a", 1))
    one.link_up(2, ("b", 1))
    one.heard(2, [("a", 1, 10**9 * SECOND, True)], 0)
    one.heard(1, [("a", 1, 10 * SECOND, True)], 0)
    assert 9.9 < waited_s(one, 0, 0) < 10
    assert one.news(2, 0) == [("c", 1, 0, True), ("a", 1, 10 * SECOND, True)]


def test_an_origin_that_was_off_does_not_make_what_it_had_before_younger() -> None:
    ways = Ways({"a": GatewayLocation(1, 1)})
    one = clocks("b", ways, 1)
    one.heard(1, [("a", 1, 0, True)], 0)
    one.link_down(1)
    ways.there["a"] = GatewayLocation(2, 2)
    one.link_up(2, ("peer-2", 1))
    one.heard(2, [("a", 1, 5 * SECOND, True), ("a", 2, 5 * SECOND, True)], 12 * SECOND)
    assert 11.9 < waited_s(one, 0, 12 * SECOND) < 12
    assert one.waited_us(("a", 2), 5 * SECOND, 12 * SECOND) == 0


def test_a_gateway_is_not_told_of_its_own_clock() -> None:
    one = clocks("b", None, 1)
    assert one.heard(1, [("b", 1, 10**9, True)], 0) == []
    assert one.reads(("b", 1), 3) == 3


def test_of_a_life_that_its_disk_has_lost_a_gateway_hears_from_its_neighbours() -> None:
    one = clocks("b", None, 1)
    one.heard(1, [("b", 2, 10, True), ("b", 3, 10, True)], 0)
    assert one.reads(("b", 2), 0) == 10
    one.load([("b", 3, 0, 0)])
    assert [one.reads(("b", 3), now_us) for now_us in (0, 7, 12)] == [10, 16, 21]


# -- what is told ----------------------------------------------------------------------------------


def test_a_neighbour_is_told_once_what_it_does_not_know_and_again_when_it_knows_it_worse() -> None:
    one = clocks("b", Ways({"a": GatewayLocation(1, 1)}), 1, 2)
    one.heard(1, [("a", 1, 5, True)], 0)
    assert one.news(2, 0) == [("b", 1, 0, True), ("a", 1, 5, True)]
    assert one.news(2, SECOND) == []
    one.heard(1, [("a", 1, 5 + 2 * NEWS_US, True)], 0)
    assert one.news(2, 0, of=[A]) == [("a", 1, 5 + 2 * NEWS_US, True)]
    one.heard(1, [("a", 1, 5, True)], 0)
    assert one.news(2, 0) == [("a", 1, 5, True)]


def test_a_still_network_tells_of_clocks_every_half_an_hour() -> None:
    one, told = clocks("b", None, 1), 0
    for minute in range(24 * 60):
        told += len(one.news(1, minute * 60 * SECOND))
    assert 40 <= told <= 48


def test_what_is_hearsay_is_believed_nowhere_where_anybody_knows() -> None:
    ways = Ways({"a": GatewayLocation(1, 1)})
    one = clocks("c", ways, 1, 2)
    one.heard(1, [("a", 1, 10**9 * SECOND, False)], 0)
    assert waited_s(one, 0, 0) > 10
    one.heard(2, [("a", 1, 10 * SECOND, True)], 0)
    assert 9.9 < waited_s(one, 0, 0) < 10
    one.heard(1, [("a", 1, 5 * SECOND, True)], 0)
    assert 4.9 < waited_s(one, 0, 0) < 5


def test_what_was_hearsay_is_told_again_when_it_is_known() -> None:
    ways = Ways()
    one = clocks("c", ways, 1, 2)
    one.heard(1, [("a", 1, 5, True)], 0)
    assert ("a", 1, 5, False) in one.news(2, 0)
    ways.there["a"] = GatewayLocation(1, 1)
    assert one.news(2, 0) == [("a", 1, 5, True)]


def test_who_told_of_a_clock_is_not_told_of_it() -> None:
    one = clocks("b", Ways({"a": GatewayLocation(1, 1)}), 1)
    one.heard(1, [("a", 1, 5, True)], 0)
    assert one.news(1, 0) == [("b", 1, 0, True)]


def test_over_a_link_that_is_not_up_nothing_is_heard_or_told() -> None:
    one = clocks("b")
    assert one.heard(1, [("a", 1, 5, True)], 0) == []
    assert one.news(1, 0) == []
    assert one.reads(A, 0) is None


# -- what is kept ----------------------------------------------------------------------------------


def test_what_is_known_is_known_in_the_next_life() -> None:
    before = clocks("b", Ways({"a": GatewayLocation(1, 1)}), 1)
    before.heard(1, [("a", 1, 5, True)], 0)
    after = OriginClocks(("b", 2))
    after.load(before.save(SECOND))
    assert 9.9 < waited_s(after, 5, 10 * SECOND) < 10
    assert after.reads(("b", 1), 77) == 77


def test_what_is_kept_is_written_anew_only_where_it_has_become_worse() -> None:
    one = clocks("b", None, 1)
    assert one.save(0)
    assert not one.save(1_000 * SECOND)
    one.accepted(A, STAMP_US + 5, 1_000 * SECOND)
    assert one.save(1_000 * SECOND)
    assert not one.save(2_000 * SECOND)
    assert one.save(2_000 * SECOND + SAVED_US << DRIFT_BITS)


def test_lives_of_which_nothing_is_left_are_forgotten_everywhere() -> None:
    one = clocks("b", None, 1, 2)
    one.heard(1, [("a", 1, 5, True), ("c", 1, 5, True)], 0)
    one.accepted(("d", 1), STAMP_US + 5, 0)
    one.load([("b", 7, 0, 0)])
    one.news(2, 0)
    one.keep_only(lambda stream: stream == ("c", 1), GONE_US)
    assert one.reads(A, 0) == 5
    assert one.reads(("d", 1), 0) == 5
    one.keep_only(lambda stream: stream == ("c", 1), GONE_US + 1)
    assert [one.reads(stream, 0) for stream in (A, ("c", 1), ("d", 1), ("b", 7))] == [
        *(None, 5, None, None)
    ]
    assert one.reads(("b", 1), 3) == 3


def test_an_origin_that_signs_many_lives_crowds_out_none_but_its_own() -> None:
    one = clocks("b", None, 1, 2)
    one.accepted(("c", 1), STAMP_US + 5, 0)
    one.heard(1, [("c", 1, 5, True)], 0)
    for life in range(1, 1_000):
        one.accepted(("a", life), STAMP_US + 5, 0)
        one.heard(1, [("a", life, 5, True)], 0)
    assert one.reads(("a", 999 - MAX_LIVES), 0) is None
    assert one.reads(("a", 1_000 - MAX_LIVES), 0) == 5
    assert one.reads(("c", 1), 0) == 5
    told = one.news(2, 0)
    assert len(told) == MAX_LIVES + 2
    assert one.news(2, 0) == []


def test_lives_that_neighbours_tell_of_go_round_in_no_ring() -> None:
    """Three neighbours of each other; each life that one of them drops may come again."""
    ring = [clocks(f"gw-{n}") for n in range(3)]
    for n, one in enumerate(ring):
        for other in range(3):
            if other != n:
                one.link_up(other, (f"gw-{other}", 1))
    for life in range(1, 4 * MAX_LIVES):
        ring[life % 3].accepted(("a", life), STAMP_US + life, 0)
    said = 0
    for now_s in range(50):
        todo = [(n, None) for n in range(3)]
        while todo:
            n, of = todo.pop()
            for other in range(3):
                told = ring[n].news(other, now_s * SECOND, of) if other != n else []
                said += len(told) * (now_s > 5)
                if told and (heard := ring[other].heard(n, told, now_s * SECOND)):
                    todo.append((other, heard))
    assert said == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), max_size=200))
def test_readings_are_of_the_lives_that_came_last(puts: list[tuple[int, int]]) -> None:
    readings = ClockReadings()
    for gateway, life in puts:
        readings.put((f"gw-{gateway}", life), ClockReading(life, 0))
        assert (f"gw-{gateway}", life) in readings
    for gateway in range(31):
        of = readings.of(f"gw-{gateway}")
        assert len(of) <= MAX_LIVES
        assert all(reading.clock_us == life for life, reading in of.items())
    kept = [stream for stream in readings if stream[1] % 2]
    readings.forget(lambda stream, reading: stream[1] % 2 == 0)
    assert list(readings) == kept
    readings.clear()
    assert list(readings) == []


def test_gateways_are_bounded() -> None:
    readings = ClockReadings()
    for gateway in range(MAX_GATEWAYS + 1):
        readings.put((f"gw-{gateway}", 1), ClockReading(1, 0))
    assert readings.get(("gw-0", 1)) is None
    assert readings.get(("gw-1", 1)) is not None


# -- the wire form ---------------------------------------------------------------------------------


def test_what_is_told_reads_back() -> None:
    told = [("a", life, 10**15 + life, life % 2 == 0) for life in range(1, MAX_TOLD + 2)]
    messages = list(origin_clocks.pack(told))
    assert [len(origin_clocks.unpack(one)) for one in messages] == [MAX_TOLD, 1]
    assert [row for one in messages for row in origin_clocks.unpack(one)] == told


@given(
    st.lists(
        st.tuples(
            st.tuples(
                st.sampled_from(["a", "A", "", "x" * 64, "$a", "b\0"]), st.integers(-1, 1 << 33)
            ),
            st.one_of(st.integers(-1, 1 << 70), st.just(MAX_CLOCK_US)),
        ),
        max_size=9,
    ),
    st.integers(0, 1 << 62),
)
def test_whatever_origins_sign_what_is_told_of_it_ends_no_link(
    stamps: list[tuple[tuple[str, int], int]], later_us: int
) -> None:
    one = clocks("b", None, 1)
    for stream, stamp_us in stamps:
        one.accepted(stream, stamp_us, 0)
    told = one.news(1, min(later_us, MAX_CLOCK_US))
    assert [row for each in origin_clocks.pack(told) for row in origin_clocks.unpack(each)] == told


@given(st.binary(max_size=60))
def test_no_bytes_but_rows_are_read(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert all(len(row) == 4 for row in origin_clocks.unpack(data))


@pytest.mark.parametrize(
    "row",
    [
        ["a", 1, 1],
        ["A", 1, 1, True],
        ["a", 0, 1, True],
        ["a", True, 1, True],
        ["a", 1, -1, True],
        ["a", 1, True, True],
        ["a", 1, MAX_CLOCK_US + 1, True],
        ["a", 1 << 32, 1, True],
        ["a", 1, 1, 1],
        [b"a", 1, 1, True],
        "a",
        None,
    ],
)
def test_what_no_gateway_tells_is_refused(row: object) -> None:
    assert origin_clocks.unpack(msgpack.packb([["a", 1, 1, False]])) == [("a", 1, 1, False)]
    with pytest.raises(ProtocolError):
        origin_clocks.unpack(msgpack.packb([["a", 1, 1, False], row]))


def test_a_life_whose_clock_is_told_of_is_one_that_there_can_be() -> None:
    for epoch in (1, MAX_BOOT_EPOCH):
        assert life_of("gw-a", epoch) == ("gw-a", epoch)
    for wrong in (0, MAX_BOOT_EPOCH + 1, True, 1.0, None):
        with pytest.raises(ProtocolError, match="life whose clock is told of"):
            life_of("gw-a", wrong)
    with pytest.raises(ProtocolError, match="gateway whose clock is told of"):
        life_of("GW", 1)
