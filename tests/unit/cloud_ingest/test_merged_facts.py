"""Parts of a micro-batch's facts are put together so that nothing of them is lost."""

from __future__ import annotations

import itertools

from cloud_ingest.evidence.facts import (
    Activity,
    BatchFacts,
    Delays,
    GivenUp,
    Numbers,
    SensorSpan,
    Statement,
    gateways_of,
    merged,
    only_of,
)


def joined(*spans: SensorSpan) -> SensorSpan:
    (found,) = merged(1, 2, [BatchFacts(sensors=(one,)) for one in spans]).sensors
    return found


def test_spans_of_a_sensor_are_one_in_whichever_order_they_come() -> None:
    # gateway, sensor, count, first_us, last_us, low, high, first, last, changes
    early = SensorSpan("a", "s", 3, 10, 20, -5.0, 7.0, 1.0, 2.0, 4)
    late = SensorSpan("a", "s", 2, 20, 30, -1.0, 9.0, 3.0, 4.0, 1)
    for one, other in itertools.permutations((early, late)):
        assert joined(one, other) == SensorSpan("a", "s", 5, 10, 30, -5.0, 9.0, 1.0, 4.0, 6)
    same = SensorSpan("a", "s", 2, 20, 30, -1.0, 9.0, 2.0, 4.0, 1)
    assert joined(early, same).changes == 5  # where they meet nothing differs
    across = SensorSpan("a", "s", 2, 19, 30, -9.0, 1.0, 3.0, 4.0, 1)
    assert joined(early, across) == SensorSpan("a", "s", 5, 10, 30, -9.0, 7.0, 1.0, 4.0, 5)
    within = SensorSpan("a", "s", 1, 15, 15, 0.0, 0.0, 0.0, 0.0, 0)
    for one, other in itertools.permutations((early, within)):
        assert joined(one, other) == SensorSpan("a", "s", 4, 10, 20, -5.0, 7.0, 1.0, 2.0, 4)


def test_counts_of_a_gateway_are_added_up_and_its_times_span_all() -> None:
    parts = [
        Activity("a", 1, 2, 3, None, None, 7),
        Activity("a", 10, 20, 30, 5, 6, 9),
        Activity("b", 1, 0, 0, None, None, 1),
        Activity("a", 100, 200, 300, 4, 8, 8),
        Activity("b", 1, 0, 0, None, None, 1),
    ]
    found = merged(3, 4, [BatchFacts(activity=(one,)) for one in parts])
    assert found.activity == (
        Activity("a", 111, 222, 333, 4, 8, 9),
        Activity("b", 2, 0, 0, None, None, 1),
    )
    assert (found.batch_id, found.committed_us, found.read_until_us) == (3, 4, None)


def test_delays_are_added_up_by_gateway_minute_and_stage() -> None:
    parts = [
        Delays("a", 1, "origin-table", {0: 1, 1: 2}),
        Delays("a", 1, "origin-table", {1: 3, 2: 4}),
        Delays("a", 2, "origin-table", {0: 5}),
        Delays("a", 1, "device-origin", {0: 6}),
        Delays("b", 1, "origin-table", {0: 7}),
    ]
    assert merged(1, 2, [BatchFacts(delays=(one,)) for one in parts]).delays == (
        Delays("a", 1, "origin-table", {0: 1, 1: 5, 2: 4}),
        *parts[2:],
    )


def statement(collected_us: int, gateway: str, epoch: int, sequence: int) -> Statement:
    return Statement(gateway, epoch, sequence, None, collected_us, "member", b"")


def test_the_rest_is_all_there_and_statements_are_in_order() -> None:
    ordered = [
        statement(1, "b", 9, 9),
        statement(2, "a", 1, 5),
        statement(2, "a", 2, 3),
        statement(2, "a", 2, 4),
        statement(2, "b", 1, 1),
    ]
    numbers = [Numbers("a", at, False, True, ((at, at),), ()) for at in (3, 1, 2)]
    gone = [GivenUp("a", at, ((at, at),), 1) for at in (3, 1, 2)]
    parts = [
        BatchFacts(statements=(one,), read_until_us=until_us)
        for one, until_us in zip(reversed(ordered), (None, 9, 7, 8, None), strict=True)
    ]
    parts += [BatchFacts(numbers=(one,)) for one in numbers]
    parts += [BatchFacts(given_up=(one,)) for one in gone]
    found = merged(1, 2, parts)
    assert found.statements == tuple(ordered)
    assert (found.numbers, found.given_up) == (tuple(numbers), tuple(gone))
    assert found.read_until_us == 7


def test_what_is_told_of_some_gateways_is_all_of_theirs_and_nothing_of_others() -> None:
    def told(*names: str) -> BatchFacts:
        return BatchFacts(
            batch_id=3,
            committed_us=4,
            statements=tuple(statement(1, name, 1, 1) for name in names if name != "g"),
            numbers=tuple(Numbers(f"{name}1", 1, False, True, (), ()) for name in names),
            activity=tuple(Activity(f"{name}2", 1, 0, 0, None, None, 1) for name in names),
            delays=tuple(Delays(f"{name}3", 1, "origin-table", {0: 1}) for name in names),
            sensors=tuple(
                SensorSpan(f"{name}4", "s", 1, 1, 1, 0.0, 0.0, 0.0, 0.0, 0) for name in names
            ),
            given_up=tuple(GivenUp(f"{name}5", 1, ((1, 1),), 1) for name in names),
            read_until_us=5,
        )

    all_of_a = {"a", *(f"a{at}" for at in range(1, 6))}
    assert gateways_of(told("a")) == all_of_a
    assert only_of(told("a", "b"), all_of_a) == told("a")
    assert only_of(told("b"), all_of_a) == BatchFacts(batch_id=3, committed_us=4, read_until_us=5)
