"""All orders of events of small networks, within budgets that fit a test run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from unstopped_trees import all_but_to_stop

from gateway.base import build
from tree_handler.simulation.exploration import Search, run, shape
from tree_handler.simulation.exploration_state import EventBudget
from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.spanning_tree import SpanningTree

if build.running() == "compiled":
    pytest.skip("trees of the compiled build can't be pickled", allow_module_level=True)

SEARCHES = [
    Search("pair", False, EventBudget(breaks=1, links=1)),
    Search("pair", True, EventBudget(deaths=1, starts=1, links=1)),
    Search("line-3", True, EventBudget(breaks=1, links=1)),
    Search("ring-3", True, EventBudget(breaks=1)),
    Search("ring-3", True, EventBudget(deaths=1, timers=1)),
]
OF_FOUR = [
    Search("ring-4", True, EventBudget(breaks=1)),
    Search("ring-4", True, EventBudget(deaths=1)),
    Search("line-4", False, EventBudget()),
    Search("mesh-4", True, EventBudget(breaks=1)),
]
FOUR = pytest.mark.soak("orders of the events of four gateways take half a minute")


@pytest.mark.parametrize(
    "search", [*SEARCHES, *(pytest.param(one, marks=FOUR) for one in OF_FOUR)], ids=str
)
def test_no_order_of_events_closes_a_ring_or_leaves_two_trees(search: Search) -> None:
    covered = run(search)
    assert not covered.found
    assert covered.complete
    assert covered.still > 0


def test_a_search_that_stops_early_says_so() -> None:
    covered = run(Search("ring-3", True, EventBudget(breaks=1)), most_states=50)
    assert not covered.complete
    assert "NOT COMPLETE" in str(covered)


def test_links_that_never_stop_are_found_to_close_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search("ring-3", True, EventBudget(links=2, deaths=1, starts=1))
    assert not run(search, most_states=300).found
    monkeypatch.setattr(SpanningTree, "take_actions", all_but_to_stop)
    assert "invariant 1: a ring" in str(run(search))


def test_links_that_never_start_are_found_to_leave_two_trees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Agreements, "granted", lambda self: None)
    assert "invariant 2: gw-b has no live way" in str(run(Search("pair", False, EventBudget())))


@pytest.mark.parametrize("name", ["ring", "ring-2", "star-4", ""])
def test_a_shape_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no shape"):
        shape(name)
