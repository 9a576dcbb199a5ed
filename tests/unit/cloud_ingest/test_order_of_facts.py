"""Facts of a micro-batch are taken in one order, in whichever they come."""

from __future__ import annotations

import itertools
import random

from cloud_ingest.evidence.facts import Activity, Interval, Numbers, SensorSpan, Statement
from cloud_ingest.fleet.order_of_facts import by_sensor, by_time, merged_numbers


def numbers(
    *seen: Interval,
    gateway: str = "a",
    epoch: int = 7,
    control: bool = False,
    logged: bool = True,
    kept: tuple[Interval, ...] = (),
) -> Numbers:
    return Numbers(gateway, epoch, control, logged, seen, kept)


def test_logged_numbers_of_clients_are_put_together_by_gateway_and_life() -> None:
    told = [
        numbers((1, 2), gateway="b", kept=((5, 5),)),
        numbers((3, 4), epoch=8),
        numbers((9, 9), epoch=7, kept=((1, 3), (5, 6))),
        numbers((6, 6), gateway="b", kept=((7, 10),)),
        numbers((100, 100), control=True, kept=((1, 99),)),
        numbers((101, 101), logged=False, kept=((1, 99),)),
        numbers((102, 102), control=True, logged=False, gateway="c"),
    ]
    assert list(merged_numbers(told)) == [
        ("a", 7, [(9, 9), (1, 3), (5, 6)], 5),
        ("a", 8, [(3, 4)], 0),
        ("b", 7, [(1, 2), (5, 5), (6, 6), (7, 10)], 5),
    ]


def test_what_a_gateway_says_is_taken_by_time_and_before_how_much_it_said() -> None:
    def said(at_us: int, gateway: str, epoch: int, sequence: int) -> Statement:
        return Statement(gateway, epoch, sequence, None, at_us, "status", b"")

    ordered = [
        said(1, "b", 9, 9),
        said(2, "a", 1, 5),
        said(2, "a", 2, 3),
        said(2, "a", 2, 4),
        said(2, "a", 2**63 - 1, 0),
        Activity("a", 1, 0, 0, None, None, 2),
        said(2, "b", 1, 1),
        Activity("b", 1, 0, 0, None, None, 2),
        Activity("a", 1, 0, 0, None, None, 3),
    ]
    drawn = random.Random(1).sample(ordered, len(ordered))
    assert sorted(drawn, key=by_time) == ordered


def test_sensors_are_taken_by_name_and_time_and_then_by_all_that_differs() -> None:
    # gateway, sensor, count, first_us, last_us, low, high, first, last, changes
    least = SensorSpan("a", "s", 1, 1, 1, 1.0, 1.0, 1.0, 1.0, 0)
    ordered = [
        least,
        SensorSpan("a", "s", 1, 1, 1, 1.0, 9.0, 1.0, 1.0, 0),
        SensorSpan("a", "s", 1, 1, 1, 9.0, 0.0, 1.0, 1.0, 0),
        SensorSpan("a", "s", 1, 1, 1, 0.0, 0.0, 1.0, 9.0, 0),
        SensorSpan("a", "s", 1, 1, 1, 0.0, 0.0, 9.0, 0.0, 0),
        SensorSpan("a", "s", 1, 1, 1, 0.0, 0.0, 0.0, 0.0, 9),
        SensorSpan("a", "s", 9, 1, 1, 0.0, 0.0, 0.0, 0.0, 0),
        SensorSpan("a", "s", 0, 1, 9, 0.0, 0.0, 0.0, 0.0, 0),
        SensorSpan("a", "s", 0, 9, 0, 0.0, 0.0, 0.0, 0.0, 0),
        SensorSpan("a", "t", 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0),
        SensorSpan("b", "a", 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0),
    ]
    for one, other in itertools.pairwise(ordered):
        assert by_sensor(one) < by_sensor(other)
