"""Goal: the benchmark of a fleet has the tree of row A13, and notices what is not found."""

from __future__ import annotations

import pytest

from benchmarks.fleet_cases import FULL, check_found, is_in
from benchmarks.fleet_devices import DEVICES, SENSORS, sensors_of
from benchmarks.fleet_tree import IDENTITIES, TREE
from benchmarks.query_client import NoAnswerError

WANTED = {("gw-0", "/b0-d0/s0"), ("gw-1", "/b0-d0/s0")}


def depth(number: int) -> int:
    parent = TREE[number].parent
    return 0 if parent is None else 1 + depth(parent)


def test_ten_gateways_stand_in_four_layers() -> None:
    assert [depth(number) for number in range(len(TREE))] == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]


def test_four_thousand_resources_are_registered_and_each_device_can_have_a_key() -> None:
    assert len(TREE) * FULL.bundles * DEVICES * SENSORS == 4_000
    assert len(set(sensors_of("b0-d0"))) == SENSORS
    assert FULL.devices <= IDENTITIES


@pytest.mark.parametrize(
    ("scope", "number", "found"),
    [
        ("group", 0, {0}),
        ("domain", 0, {0}),
        ("group", 1, {1}),
        ("group", 6, {3, 6, 7}),
        ("domain", 6, {1, 3, 4, 6, 7, 8}),
        ("all", 9, set(range(10))),
    ],
)
def test_a_scope_has_the_gateways_of_its_place(scope: str, number: int, found: set[int]) -> None:
    asked = TREE[number]
    assert {at for at, spot in enumerate(TREE) if is_in(scope, asked, spot)} == found


def test_a_look_up_that_finds_each_once_is_taken() -> None:
    check_found("gw-0", WANTED, sorted(WANTED))


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (sorted(WANTED)[:1], "1 missing, 0 too many"),
        ([*WANTED, ("gw-2", "/b0-d0/s0")], "0 missing, 1 too many"),
        ([*WANTED, *WANTED], "0 missing, 2 too many"),
        ([("gw-2", "/b0-d0/s0")], "2 missing, 1 too many"),
    ],
)
def test_a_look_up_that_finds_less_or_more_is_not(links: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(NoAnswerError, match=said):
        check_found("gw-0", WANTED, links)
