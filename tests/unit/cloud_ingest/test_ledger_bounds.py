"""Goal: whatever a gateway claims, the ledger is bounded, no message is lost or doubled."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloud_ingest.ingest.plan import SpoolSpot, TriggerPlan, UnsureStretch
from cloud_ingest.ledger.number_ledger import (
    MAX_DAMAGE,
    VERSION,
    LedgerChange,
    LedgerError,
    NumberLedger,
    Stream,
)
from cloud_ingest.ledger_limits import LedgerLimits
from tree_handler.batch import Flags, Header
from tree_handler.intervals import Intervals

SMALL = LedgerLimits(gaps=6, lives=2, total_gaps=20)
Claim = tuple[str, int, int, int, int]
"""Origin, epoch, flags, first number, how many."""
Message = tuple[str, int, int, int]
FLAGS = (Flags.LOGGED, Flags.NONE, Flags.LOGGED | Flags.CONTROL, Flags.LOGGED | Flags.PASSED)
_OF_LIFE = ((4, 3, 3), (1, 0, 5), (3, 9, 5), (4, 9, 7), (2, 0, 3), (1, 3, 3), (4, 0, 1), (3, 3, 3))
NINE_STREAMS: list[Claim] = [("gw-a", *each, 1) for each in (*_OF_LIFE, (2, 1, 7))]
"""The last one is one too many for `SMALL`, and of a life that its first claim would close."""
CLAIMS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["gw-a", "gw-b"]),
            st.integers(1, 12),
            st.sampled_from(FLAGS),
            st.integers(1, 80),
            st.integers(1, 6),
        ),
        max_size=40,
    ),
    max_size=6,
)


def planned(ledger: NumberLedger, claims: Sequence[Claim]) -> TriggerPlan:
    plan = TriggerPlan(ledger)
    for i, (origin, epoch, flags, first, count) in enumerate(claims):
        head = Header(origin, epoch, first, count, flags, 1_000, 40, 100)
        plan.take(SpoolSpot("spool", "segment", i * 100, i * 100), head)
    plan.end()
    return plan


def put(plan: TriggerPlan, claims: Sequence[Claim], *, unsure: bool) -> Counter[Message]:
    """Count the messages of a plan's sure stretches, or those of its unsure ones.

    Tasks put messages of sure stretches into telemetry. They put those of unsure stretches aside,
    since a table may have them.
    """
    found: Counter[Message] = Counter()
    for stretch in plan.stretches:
        if isinstance(stretch, UnsureStretch) != unsure:
            continue
        for i in range(stretch.start // 100, stretch.end // 100):
            origin, epoch, flags, first, count = claims[i]
            kept = ((first, first + count - 1),) if stretch.keep is None else stretch.keep
            for low, high in kept:
                found.update((origin, epoch, flags, number) for number in range(low, high + 1))
    return found


def clients(claims: Sequence[Claim]) -> set[Message]:
    return {
        (origin, epoch, flags, number)
        for origin, epoch, flags, first, count in claims
        if flags in FLAGS[:2]
        for number in range(first, first + count)
    }


@given(triggers=CLAIMS, is_repacked=st.booleans())
def test_the_ledger_is_bounded_under_any_claims_and_each_message_is_kept_and_read_once(
    triggers: list[list[Claim]], is_repacked: bool
) -> None:
    ledger = NumberLedger(SMALL)
    telemetry, aside, sent = Counter[Message](), Counter[Message](), set[Message]()
    for claims in (*triggers, *triggers):  # and all once more, as of another spool
        plan = planned(ledger, claims)
        telemetry += put(plan, claims, unsure=False)
        aside += put(plan, claims, unsure=True)
        sent |= clients(claims)
        ledger.apply(LedgerChange.unpack(plan.change.pack()))
        if is_repacked:
            ledger = NumberLedger.unpack(ledger.pack(), SMALL)
        assert set(telemetry.values()) <= {1}
        assert telemetry.keys() | aside.keys() == sent
        _is_within(ledger, SMALL)


@given(triggers=CLAIMS)
@example(triggers=[NINE_STREAMS])
def test_the_fleet_is_told_of_each_message_that_a_task_keeps_whatever_is_closed_meanwhile(
    triggers: list[list[Claim]],
) -> None:
    ledger, told = NumberLedger(SMALL), set[Message]()
    for claims in triggers:
        plan = planned(ledger, claims)
        for one in plan.numbers():
            flags = FLAGS[2 if one.control else 0 if one.logged else 1]
            for first, last in one.seen:
                told.update((one.gateway, one.boot_epoch, flags, n) for n in range(first, last + 1))
        assert put(plan, claims, unsure=False).keys() <= told
        ledger.apply(plan.change)


def _is_within(ledger: NumberLedger, limits: LedgerLimits) -> None:
    parts = ledger.all.seen, ledger.all.kept_local, ledger.all.held
    for origin in ledger.lives:
        runs = sum(len(n) for part in parts for s, n in part.items() if s.origin == origin)
        assert runs == ledger.sizes[origin] <= limits.runs_a_gateway
        assert len(ledger.lives[origin]) <= limits.lives
        assert {s.epoch for part in parts for s in part if s.origin == origin} <= set(
            ledger.lives[origin]
        )
        assert len(ledger.all.closed.get(origin, ())) <= limits.lives
    assert len(ledger.all.floors) <= sum(map(len, ledger.lives.values())) * 4


@given(triggers=CLAIMS)
def test_within_the_limits_the_ledger_is_what_it_was_without_any(
    triggers: list[list[Claim]],
) -> None:
    ledger = NumberLedger()
    telemetry, sent = Counter[Message](), set[Message]()
    seen: dict[Stream, set[int]] = {}
    for claims in triggers:
        plan = planned(ledger, claims)
        telemetry += put(plan, claims, unsure=False)
        assert not put(plan, claims, unsure=True)
        assert plan.given_up() == ()
        sent |= clients(claims)
        for origin, epoch, flags, first, count in claims:
            if not flags & Flags.PASSED:
                kind = bool(flags & Flags.CONTROL), bool(flags & Flags.LOGGED)
                numbers = seen.setdefault(Stream(origin, epoch, *kind), set())
                numbers |= set(range(first, first + count))
        ledger.apply(plan.change)
    assert telemetry == Counter(sent)
    assert (ledger.all.floors, ledger.all.closed) == ({}, {})
    assert ledger.all.seen == {s: Intervals((n, n) for n in found) for s, found in seen.items()}


def test_a_gateway_that_leaves_out_every_other_number_takes_nothing_from_another() -> None:
    ledger = NumberLedger(LedgerLimits(gaps=100, lives=4, total_gaps=1_000))
    hostile = [("gw-x", 1, Flags.LOGGED, number, 1) for number in range(1, 2_000, 2)]
    honest = [("gw-a", 1, Flags.LOGGED, 1, 5), ("gw-a", 1, Flags.LOGGED, 9, 5)]
    plan = planned(ledger, [*hostile, *honest])
    ledger.apply(plan.change)
    assert ledger.sizes["gw-x"] <= 100
    given_up = plan.given_up()
    assert {one.gateway for one in given_up} == {"gw-x"}
    told = {gap for one in given_up for gap in one.gaps}
    assert (2, 2) in told
    assert sum(one.missing for one in given_up) == ledger.all.totals["gw-x"].given_up
    assert ledger.all.totals["gw-x"].given_up + ledger.sizes["gw-x"] == pytest.approx(1_000, abs=1)
    late = [("gw-a", 1, Flags.LOGGED, 6, 3), ("gw-x", 1, Flags.LOGGED, 2, 1)]
    plan = planned(ledger, late)
    assert put(plan, late, unsure=False) == Counter(("gw-a", 1, FLAGS[0], n) for n in (6, 7, 8))
    assert put(plan, late, unsure=True) == Counter([("gw-x", 1, FLAGS[0], 2)])
    # What it sends next is read as ever.
    fresh = [("gw-x", 1, Flags.LOGGED, 2_001, 9)]
    assert put(planned(ledger, fresh), fresh, unsure=False).total() == 9


def test_a_gateway_that_starts_without_end_keeps_its_present_life() -> None:
    limits = LedgerLimits(gaps=100, lives=8, total_gaps=1_000)
    ledger, telemetry = NumberLedger(limits), Counter[Message]()
    for epoch in range(1_000, 1_000_000, 1_000):  # ascending, as starts are
        claims = [("gw", epoch, Flags.LOGGED, 1, 3)]
        plan = planned(ledger, claims)
        telemetry += put(plan, claims, unsure=False)
        ledger.apply(plan.change)
    assert (len(telemetry), set(telemetry.values())) == (999 * 3, {1})
    assert len(ledger.lives["gw"]) <= 8
    assert len(ledger.all.closed["gw"]) <= 8
    old = [("gw", 1_000, Flags.LOGGED, 1, 4)]
    assert put(planned(ledger, old), old, unsure=True).total() == 4


def test_one_trigger_full_of_gaps_or_lives_is_planned_in_bounded_memory() -> None:
    ledger = NumberLedger(LedgerLimits(gaps=200, lives=10, total_gaps=1_000))
    plan = TriggerPlan(ledger)
    spot = SpoolSpot("spool", "segment", 0, 0)
    for number in range(40_000, 0, -2):  # downwards, so that each stands before the others
        plan.take(spot, Header("gw-x", 1, number, 1, Flags.LOGGED, 1_000, 40, 100))
    for epoch in range(1, 5_000):
        plan.take(spot, Header("gw-y", epoch, 1, 1, Flags.LOGGED, 1_000, 40, 100))
        assert len(plan.change.seen) <= 42
    plan.end()
    ledger.apply(plan.change)
    _is_within(ledger, ledger.limits)


def test_all_gateways_together_have_a_limit_and_the_largest_gives_way() -> None:
    ledger = NumberLedger(LedgerLimits(gaps=1_000, lives=4, total_gaps=300))
    claims = [(f"gw-{i}", 1, Flags.LOGGED, 2 * n + 1, 1) for i in range(4) for n in range(50)]
    claims += [("gw-x", 1, Flags.LOGGED, 2 * n + 1, 1) for n in range(200)]
    ledger.apply(planned(ledger, claims).change)
    assert sum(ledger.sizes.values()) <= 300
    assert [ledger.sizes[f"gw-{i}"] for i in range(4)] == [50] * 4


@pytest.mark.parametrize(("over", "kept"), [(0, 150), (1, 75)])
def test_at_the_limit_of_all_gateways_nothing_gives_way_and_above_it_half_of_the_largest(
    over: int, kept: int
) -> None:
    ledger = NumberLedger(LedgerLimits(gaps=1_000, lives=4, total_gaps=200))
    claims = [("gw-x", 1, Flags.LOGGED, 2 * n + 1, 1) for n in range(150)]
    claims += [("gw-y", 1, Flags.LOGGED, 2 * n + 1, 1) for n in range(50 + over)]
    ledger.apply(planned(ledger, claims).change)
    assert ledger.sizes == {"gw-x": kept, "gw-y": 50 + over}


def test_limits_below_one_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="lives: 0"):
        LedgerLimits(lives=0)


def test_a_ledger_of_before_is_read() -> None:
    ledger = NumberLedger()
    ledger.apply(planned(ledger, [("gw", 1, Flags.LOGGED, 1, 5)]).change)
    plain = msgpack.unpackb(zlib.decompress(ledger.pack()), strict_map_key=False)
    assert plain[-2:] == [[], {}]  # floors and closed lives, which it had not
    before = zlib.compress(msgpack.packb([1, *plain[1:-2]]))
    assert NumberLedger.unpack(before).all == ledger.all


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no zlib", "incorrect header"),
        (zlib.compress(b"\xc1"), "."),
        (zlib.compress(msgpack.packb([1, 2]))[:-1], "cut short, or too large"),
        (zlib.compress(msgpack.packb([VERSION + 1, [], [], [], {}, {}, {}, {}])), "of version 3"),
        (zlib.compress(msgpack.packb([0, [], [], [], {}, {}, {}, {}])), "ledger of version 0"),
        (zlib.compress(msgpack.packb([VERSION, 7])), "snapshot of the ledger: "),
        (zlib.compress(msgpack.packb([])), "snapshot of the ledger: "),
        (zlib.compress(msgpack.packb(7)), "snapshot of the ledger: "),
    ],
)
def test_what_is_no_snapshot_of_a_ledger_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(LedgerError, match=why):
        NumberLedger.unpack(data)


def test_of_damage_of_one_spool_so_much_is_known_and_the_oldest_goes_first() -> None:
    ledger = NumberLedger()
    ledger.apply(LedgerChange(damage={"a": dict.fromkeys(range(1, MAX_DAMAGE + 1), 1)}))
    assert len(ledger.all.damage["a"]) == MAX_DAMAGE
    ledger.apply(LedgerChange(damage={"a": {0: 2, MAX_DAMAGE + 1: 2}, "b": {0: 3}}))
    assert set(ledger.all.damage["a"]) == set(range(2, MAX_DAMAGE + 2))
    assert ledger.all.damage["b"] == {0: 3}


def test_what_a_change_says_of_a_life_that_is_closed_is_dropped() -> None:
    stream = Stream("gw", 3, False, True)
    ledger = NumberLedger()
    ledger.apply(LedgerChange(seen={stream: Intervals([(1, 5)])}))
    assert (ledger.sizes, ledger.floor(stream)) == ({"gw": 1}, 0)
    ledger.apply(LedgerChange(closed={"gw": Intervals([(3, 3)])}))
    assert ledger.floor(stream) is None
    ledger.apply(LedgerChange(seen={stream: Intervals([(9, 9)])}, floors={stream: 2}))
    assert (ledger.all.seen, ledger.all.floors, ledger.sizes["gw"]) == ({}, {}, 0)
