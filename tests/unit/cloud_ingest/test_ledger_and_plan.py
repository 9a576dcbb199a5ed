"""Goal: whatever comes twice, late, cut otherwise or after a crash, each number is decoded once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.ingest.plan import (
    STRETCH_BYTES,
    YEAR_9999_US,
    SpoolSpot,
    SpoolStretch,
    TriggerPlan,
    shared_out,
)
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger.number_ledger import (
    LedgerChange,
    LedgerError,
    NumberLedger,
    ReportedPlace,
    Stream,
)
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals

GW = Stream("gw", 1, control=False, logged=True)
Span = tuple[int, int]
SPANS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 12)).map(lambda s: (s[0], s[0] + s[1] - 1)),
    max_size=25,
)


def header(first: int, last: int, flags: int = Flags.LOGGED, length: int = 100) -> Header:
    return Header("gw", 1, first, last - first + 1, flags, 1_000, 40, length)


def planned(ledger: NumberLedger, spans: list[Span], start: int = 0) -> TriggerPlan:
    plan = TriggerPlan(ledger)
    for i, span in enumerate(spans):
        at = start + i * 100
        plan.take(SpoolSpot("spool", "segment", at, at), header(*span))
    plan.change.done["spool"] = start + len(spans) * 100
    return plan


def numbers(plan: TriggerPlan, spans: list[Span], start: int = 0) -> list[int]:
    """Return every number that tasks decode, as often as it occurs in the stretches."""
    found: list[int] = []
    for stretch in plan.stretches:
        for at in range(stretch.start, stretch.end, 100):
            kept = (spans[(at - start) // 100],) if stretch.keep is None else stretch.keep
            for first, last in kept:
                found += range(first, last + 1)
    return found


@given(triggers=st.lists(SPANS, max_size=5))
def test_each_number_is_decoded_once_in_any_order_and_with_any_overlap(
    triggers: list[list[Span]],
) -> None:
    ledger, decoded, position = NumberLedger(), list[int](), 0
    for spans in triggers:
        plan = planned(ledger, spans, position)
        decoded += numbers(plan, spans, position)
        position += len(spans) * 100
        ledger.apply(plan.change)
    everything = {n for spans in triggers for first, last in spans for n in range(first, last + 1)}
    assert sorted(decoded) == sorted(everything)
    copies = sum(last - first + 1 for spans in triggers for first, last in spans)
    totals = ledger.all.totals.get("gw", GatewayTotals())
    assert (totals.messages, totals.duplicates) == (len(everything), copies - len(everything))


@given(spans=SPANS, again=st.integers(0, 25), quarantined=st.sets(st.integers(1, 72)))
def test_a_crash_before_any_commit_and_a_lost_checkpoint_change_nothing(
    spans: list[Span], again: int, quarantined: set[int]
) -> None:
    """Died before the quarantine's commit, between the two, and behind both; then all again."""
    ledger = NumberLedger()
    planned(ledger, spans)  # died: nothing is known of it
    plan = planned(ledger, spans)
    decoded = numbers(plan, spans)
    held = LedgerChange()
    held.held[GW] = Intervals((n, n) for n in quarantined & set(decoded))
    ledger.apply(held)  # the quarantine has its part, and the job dies
    plan = planned(ledger, spans)
    assert sorted(numbers(plan, spans)) == sorted(set(decoded) - quarantined)
    ledger.apply(plan.change)
    assert ledger.all.held == {}
    totals = ledger.all.totals.get("gw", GatewayTotals())
    assert totals.undecodable == len(quarantined & set(decoded))
    before = totals.messages, totals.duplicates
    repeated = planned(ledger, spans[:again])  # the checkpoint is gone: from the beginning
    assert repeated.stretches == []
    ledger.apply(repeated.change)
    assert (totals.messages, totals.duplicates) == before


@given(triggers=st.lists(SPANS, max_size=4))
def test_the_ledger_is_the_fold_of_its_commits_and_survives_packing(
    triggers: list[list[Span]],
) -> None:
    ledger, refolded = NumberLedger(), NumberLedger()
    for spans in triggers:
        change = planned(ledger, spans).change
        change.place("gw", ReportedPlace(7, "campus", "north", None))
        change.damage["spool"] = {5: 77}
        ledger.apply(change)
        refolded.apply(LedgerChange.unpack(change.pack()))
        refolded = NumberLedger.unpack(refolded.pack())
    assert refolded.pack() == NumberLedger.unpack(ledger.pack()).pack()


def test_the_ledger_does_not_grow_with_messages() -> None:
    ledger, sizes = NumberLedger(), []
    for start in range(1, 100_001, 1_000):
        ledger.apply(planned(ledger, [(start, start + 999)]).change)
        sizes.append(len(ledger.all.seen[GW]))
    assert set(sizes) == {1}


def test_streams_are_apart_by_life_by_kind_and_by_log() -> None:
    plan = TriggerPlan(NumberLedger())
    spot = SpoolSpot("spool", "segment", 0, 0)
    kinds = (Flags.LOGGED, Flags.NONE, Flags.LOGGED | Flags.CONTROL, Flags.CONTROL)
    heard = [plan.take(spot, header(1, 3, flags)) for flags in kinds]
    assert heard == [(), (), ((1, 3),), ((1, 3),)]  # those between gateways are no task's
    assert len(plan.change.seen) == 4
    totals = plan.change.totals["gw"]
    assert (totals.messages, totals.logged, totals.control, totals.duplicates) == (6, 3, 6, 0)


def test_what_stays_at_its_origin_is_noted_and_what_was_given_up_is_not() -> None:
    plan = TriggerPlan(NumberLedger())
    spot = SpoolSpot("spool", "segment", 0, 0)
    for first, last in ((3, 6), (5, 9)):
        plan.take(spot, batch.passed(("gw", 1), first, last)[1])
    plan.take(spot, batch.passed(("gw", 1), 20, 29, Flags.PASSED | Flags.LOST | Flags.LOCAL)[1])
    assert {stream: list(ranges) for stream, ranges in plan.change.kept_local.items()} == {
        GW: [(3, 9)]
    }
    assert [(one.seen, one.kept_local) for one in plan.numbers()] == [((), ((3, 9),))]


def test_what_stays_at_its_origin_is_told_though_all_that_came_with_it_was_a_copy() -> None:
    ledger = NumberLedger()
    ledger.apply(planned(ledger, [(1, 3)]).change)
    plan = planned(ledger, [(1, 3)])
    assert plan.numbers() == ()
    plan.take(SpoolSpot("spool", "segment", 100, 100), batch.passed(("gw", 1), 4, 6)[1])
    assert [(one.seen, one.kept_local) for one in plan.numbers()] == [((), ((4, 6),))]


def test_a_stream_with_new_numbers_of_both_kinds_is_told_once() -> None:
    plan = planned(NumberLedger(), [(1, 3)])
    plan.take(SpoolSpot("spool", "segment", 100, 100), batch.passed(("gw", 1), 4, 6)[1])
    assert [(one.seen, one.kept_local) for one in plan.numbers()] == [(((1, 3),), ((4, 6),))]


def test_batches_side_by_side_are_one_stretch_up_to_its_size_and_a_cut_one_stands_alone() -> None:
    plan = TriggerPlan(NumberLedger())
    length = STRETCH_BYTES // 2
    for i, span in enumerate([(1, 3), (4, 6), (7, 9), (8, 12), (13, 13)]):
        spot = SpoolSpot("spool", "segment", i * length, i * length)
        plan.take(spot, header(*span, length=length))
    assert [(s.start // length, s.end // length, s.keep) for s in plan.stretches] == [
        (0, 2, None),
        (2, 3, None),
        (3, 4, ((10, 12),)),
        (4, 5, None),
    ]


@given(lengths=st.lists(st.integers(1, 1_000), max_size=40), tasks=st.integers(1, 8))
def test_stretches_are_shared_out_evenly_and_in_their_order(lengths: list[int], tasks: int) -> None:
    stretches = [
        SpoolStretch("spool", "segment", sum(lengths[:i]), sum(lengths[: i + 1]))
        for i in range(len(lengths))
    ]
    shares = shared_out(stretches, tasks)
    assert sorted((s for share in shares for s in share), key=lambda s: s.start) == stretches
    assert all(share == sorted(share, key=lambda s: s.start) for share in shares)
    loads = [sum(s.length for s in share) for share in shares]
    assert not loads or max(loads) - min(loads) <= max(lengths)


@pytest.mark.parametrize("text", ["", "no ledger", LedgerChange().pack()[:-3]])
def test_metadata_that_is_no_ledger_is_refused(text: str) -> None:
    with pytest.raises(LedgerError):
        LedgerChange.unpack(text)


def test_a_snapshot_of_another_version_is_refused() -> None:
    with pytest.raises(LedgerError):
        NumberLedger.unpack(b"x")


def test_a_place_that_is_told_late_does_not_take_the_place_of_a_newer_one() -> None:
    change = LedgerChange()
    change.place("gw", ReportedPlace(9, "campus", "north", None))
    change.place("gw", ReportedPlace(5, "campus", "south", None))
    assert change.places["gw"].group == "north"


def test_a_batch_is_planned_from_what_its_header_says() -> None:
    frame = batch.encode("gw", 1, 5, [Entry("t", b"1")], flags=Flags.LOGGED, origin_time_us=9)
    plan = TriggerPlan(NumberLedger())
    plan.take(SpoolSpot("spool", "segment", 0, 0), batch.check(frame))
    assert plan.change.totals["gw"].last_us == 9
    assert list(plan.change.seen[GW]) == [(5, 5)]


def test_a_time_of_the_calendar_s_last_second_counts_and_one_beyond_it_does_not() -> None:
    for beyond_us, last_us in ((0, YEAR_9999_US), (1, 7)):
        plan = TriggerPlan(NumberLedger())
        for at, time_us in enumerate((7, YEAR_9999_US + beyond_us)):
            told = Header("gw", 1, 1 + at, 1, Flags.LOGGED, time_us, 40, 100)
            plan.take(SpoolSpot("s", "0.log", at * 100, at * 100), told)
        totals = plan.change.totals["gw"]
        assert (totals.first_us, totals.last_us, totals.messages) == (7, last_us, 2)
