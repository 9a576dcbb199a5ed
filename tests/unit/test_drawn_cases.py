"""`drawn` leaves cases out of a run by the seed, and each case has its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import by_seed
import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
Draw = Callable[[list[Any], int], list[Any]]


@dataclass(frozen=True)
class Node:
    nodeid: str


@dataclass(frozen=True)
class Case:
    """An item of pytest, as far as it is looked at."""

    nodeid: str
    count: int
    of_module: bool = False

    def iter_markers_with_node(self, name: str) -> Iterator[tuple[Any, pytest.Mark]]:
        marked = Node(self.nodeid.partition("::")[0]) if self.of_module else self
        yield marked, getattr(pytest.mark, name)(self.count).mark


@pytest.fixture
def not_drawn(pytestconfig: pytest.Config) -> Draw:
    (conftest,) = (
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(CONFTEST)
    )
    found: Draw = conftest.not_drawn
    return found


def cases(test: str, count: int, of: int) -> list[Case]:
    return [Case(f"test_a.py::{test}[{number}]", count) for number in range(of)]


def test_a_seed_leaves_out_the_same_cases_whatever_their_order(not_drawn: Draw) -> None:
    all_cases = cases("test_x", 3, 8)
    assert len(not_drawn(all_cases, 7)) == 5
    assert set(not_drawn(all_cases, 7)) == set(not_drawn(all_cases[::-1], 7))


def test_each_case_has_its_turn(not_drawn: Draw) -> None:
    all_cases = cases("test_x", 2, 8)
    seen = [set(all_cases) - set(not_drawn(all_cases, seed)) for seed in range(60)]
    assert set.union(*seen) == set(all_cases)


def test_each_test_has_its_own_count_and_a_module_counts_its_tests(not_drawn: Draw) -> None:
    one, other = cases("test_x", 1, 4), cases("test_y", 9, 4)
    module = [Case(f"test_b.py::test_{number}", 2, of_module=True) for number in range(5)]
    left_out = not_drawn([*one, *other, *module], 1)
    assert [sum(case in left_out for case in some) for some in (one, other, module)] == [3, 0, 3]


def test_some_values_are_drawn_by_the_seed_in_their_order_and_all_of_them_with_soak(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = "gedcfab"
    monkeypatch.setattr(pytestconfig.option, "soak", False)
    drawn = []
    for seed in range(40):
        monkeypatch.setattr(pytestconfig.option, "seed", seed)
        one = by_seed.some(pytestconfig, values, 3)
        assert one == by_seed.some(pytestconfig, values, 3) == sorted(one, key=values.index)
        assert len(set(one)) == 3
        drawn.append(one)
    assert {value for one in drawn for value in one} == set(values)
    assert by_seed.some(pytestconfig, values, 8) == list(values)
    monkeypatch.setattr(pytestconfig.option, "soak", True)
    assert by_seed.some(pytestconfig, values, 3) == values
