"""Every order in which a small network's events can come: a model checker for the spanning tree.

Where `simulation` draws one order of events for each seed, `explore` takes them all: which
BPDU arrives next, which link breaks or is made again, which gateway dies or starts, whose timer
fires - each gateway's clock runs as it likes, so a timer may fire at any moment. Budgets bound
how often what is not a delivery may happen; within them the search is complete unless it says
otherwise. States that were met before are not gone through again; they are told apart by 64 bits
of what decides on what comes next.

At each instant at which a link starts to forward invariant 1 is checked. From each state in
which nothing is under way, the network is left alone with fair clocks, and must reach one tree
(invariant 2), again without a ring on the way.
"""

from __future__ import annotations

import itertools
from dataclasses import field, replace

from light_dataclasses import dataclass
from tree_handler.simulation.exploration_network import ExplorationEvent, ExploredNetwork
from tree_handler.simulation.exploration_state import EventBudget, ExploredState, InvariantError

FEWEST_IN_SHAPE = 3


def shape(name: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return the gateways and links of a network: ``pair``, ``line-3``, ``ring-4``, ``mesh-4``, ...

    Raises:
        ValueError: if there is no such shape.

    """
    if name == "pair":
        return 2, ((0, 1),)
    kind, _, count = name.partition("-")
    gateways = int(count) if count.isdecimal() else 0
    line = tuple((i, i + 1) for i in range(gateways - 1))
    if gateways < FEWEST_IN_SHAPE or kind not in ("line", "ring", "mesh"):
        raise ValueError(f"no shape {name}")
    if kind == "line":
        return gateways, line
    if kind == "ring":
        return gateways, (*line, (0, gateways - 1))
    return gateways, tuple(itertools.combinations(range(gateways), 2))


@dataclass(slots=True)
class SearchCoverage:
    """The extent of a search, and its findings.

    Attributes:
        states: different ones.
        events: steps from one to another.
        still: states in which nothing was under way, each left alone to settle.
        complete: nothing within the budgets was left out.
        found: what did not hold, with the events that led there.

    """

    states: int = 0
    events: int = 0
    still: int = 0
    complete: bool = True
    found: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"{self.states} states, {self.events} events, {self.still} left alone,"
            f" {'complete' if self.complete else 'NOT COMPLETE'}"
        )
        return "\n  ".join([text, *self.found])


@dataclass(frozen=True, slots=True)
class Search:
    """One search.

    Attributes:
        shape: of the network; see the function of this name.
        settled: begin with one tree; else with gateways that have just started.
        budget: what may happen.

    """

    shape: str
    settled: bool
    budget: EventBudget

    @property
    def gateways(self) -> int:
        """Return how many there are."""
        return shape(self.shape)[0]

    def __str__(self) -> str:
        return f"{self.shape}, {'settled' if self.settled else 'cold'}, {self.budget}"


def run(search: Search, most_states: int = 10**9) -> SearchCoverage:
    """Go through all that can happen in a search; see `explore`."""
    gateways, pairs = shape(search.shape)
    network = ExploredNetwork(pairs)
    begin = network.settled if search.settled else network.cold
    return explore(network, begin(gateways, search.budget), most_states)


def explore(
    network: ExploredNetwork, start: ExploredState, most_states: int = 10**9, most_found: int = 1
) -> SearchCoverage:
    """Go through all that can happen from a state.

    Args:
        network: what can happen.
        start: where to begin.
        most_states: stop after so many, and say that it is not complete.
        most_found: stop after so many violations.

    """
    covered = SearchCoverage()
    seen = {start.key}
    settled: set[int] = set()
    stack: list[tuple[ExploredState, object]] = [(start, None)]
    while stack and len(covered.found) < most_found:
        state, path = stack.pop()
        event: ExplorationEvent | None = None
        try:
            if not any(any(wire.coming) for wire in state.wires):
                _settle(network, state, covered, settled)
            for event in network.events(state):
                after = network.after(state, event)
                covered.events += 1
                if after.key not in seen:
                    seen.add(after.key)
                    stack.append((after, (event, path)))
        except InvariantError as error:
            covered.found.append(f"{error} after {_told(path, event)}")
            covered.complete = False
        if len(seen) >= most_states and stack:
            covered.complete = False
            break
    covered.states = len(seen)
    return covered


def _settle(
    network: ExploredNetwork, state: ExploredState, covered: SearchCoverage, settled: set[int]
) -> None:
    alone = replace(state, budget=EventBudget())
    if alone.key not in settled:
        settled.add(alone.key)
        network.calm(alone)
        covered.still += 1


def _told(path: object, last: ExplorationEvent | None) -> str:
    events = [] if last is None else [last]
    while isinstance(path, tuple):
        events.append(path[0])
        path = path[1]
    return ", ".join(f"{kind} {i} {side}" for kind, i, side in reversed(events))


def _searches() -> tuple[Search, ...]:
    cold, calm = False, True
    rows = (
        ("pair", cold, EventBudget(breaks=1, links=1, timers=2)),
        ("pair", calm, EventBudget(breaks=1, links=1, deaths=1, starts=1, timers=2)),
        ("line-3", calm, EventBudget(breaks=1, links=1)),
        ("line-3", calm, EventBudget(links=2, deaths=1, starts=1)),
        ("ring-3", cold, EventBudget()),
        ("ring-3", calm, EventBudget(breaks=1, timers=1)),
        ("ring-3", calm, EventBudget(deaths=1, timers=1)),
        ("ring-3", calm, EventBudget(breaks=1, links=1)),
        ("ring-3", calm, EventBudget(breaks=2)),
        ("line-4", cold, EventBudget()),
        ("line-4", calm, EventBudget(breaks=1, timers=1)),
        ("line-4", calm, EventBudget(breaks=1, links=1)),
        ("line-4", calm, EventBudget(breaks=2)),
        ("line-4", calm, EventBudget(links=2, deaths=1, starts=1)),
        ("ring-4", cold, EventBudget()),
        ("ring-4", calm, EventBudget(breaks=1, timers=1)),
        ("ring-4", calm, EventBudget(breaks=2)),
        ("ring-4", calm, EventBudget(deaths=1, timers=1)),
        ("mesh-4", calm, EventBudget(breaks=1)),
        ("mesh-4", calm, EventBudget(breaks=2)),
        ("mesh-4", calm, EventBudget(deaths=1)),
    )
    return tuple(Search(*row) for row in rows)


SEARCHES = _searches()
"""The searches that `hedgerow simulate --exhaustive` goes through."""
