"""The invariants, checked from outside on what gateways do (tree-protocol, invariants 1, 2, 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tree_handler.bpdu import Kind
from tree_handler.election import Root
from tree_handler.simulation_gateway import Gateway, Watch
from tree_handler.simulation_network import Clock, Connection, End, Network


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        invariant: its number.
        at_s: the virtual time.
        what: what was seen.
        replay: how to run the network again.

    """

    invariant: int
    at_s: float
    what: str
    replay: str

    def __str__(self) -> str:
        return (
            f"invariant {self.invariant} at {self.at_s:.6f} s: {self.what}; replay: {self.replay}"
        )


class Checks(Watch):
    """Checks invariant 1 at every instant at which an edge can become live.

    Args:
        clock: virtual time.
        network: whose connections are looked at.
        replay: how to run the network again.

    """

    def __init__(self, clock: Clock, network: Network, replay: str) -> None:
        super().__init__()
        self.violations: list[Violation] = []
        """What was found, in the order of time; at most `MAX_VIOLATIONS`."""
        self.last_change_s = 0.0
        """When a link last started or stopped to forward."""
        self._clock = clock
        self._network = network
        self._replay = replay

    def forwards(self, end: End) -> None:
        """Look for a ring that this end closes."""
        self.last_change_s = self._clock.now
        if end.connection.live:
            ring = _way_round(end.connection, self._network.connections)
            if ring is not None:
                self.found(1, "live ring " + " - ".join(ring))

    def discards(self, end: End) -> None:
        """Nothing can go wrong when an end stops."""
        self.last_change_s = self._clock.now

    def found(self, invariant: int, what: str) -> None:
        """Note a violation."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(invariant, self._clock.now, what, self._replay))


MAX_VIOLATIONS = 20
"""More of one run tell nothing new."""


def _way_round(closed: Connection, connections: Iterable[Connection]) -> list[str] | None:
    """The gateways of a ring of live connections through ``closed``, None if there is none."""
    neighbours: dict[str, list[str]] = {}
    for connection in connections:
        if connection is not closed and connection.live:
            first, second = connection.edge.ids
            neighbours.setdefault(first, []).append(second)
            neighbours.setdefault(second, []).append(first)
    start, goal = closed.edge.ids
    reached_from = {start: ""}
    front = [start]
    while front:
        at = front.pop()
        if at == goal:
            ring = [at]
            while (at := reached_from[at]) != "":
                ring.append(at)
            return ring
        for other in neighbours.get(at, ()):
            if other not in reached_from:
                reached_from[other] = at
                front.append(other)
    return None


def _component(start: str, neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    seen, front = {start}, [start]
    while front:
        for other in neighbours(front.pop()):
            if other not in seen:
                seen.add(other)
                front.append(other)
    return seen


def right_roots(gateways: dict[str, Gateway], network: Network) -> dict[str, Root]:
    """Who must be root for whom: the best of those that can be reached without passing a leaf."""
    paths: dict[str, set[str]] = {gateway_id: set() for gateway_id in gateways}
    for edge in network.edges:
        first, second = edge.ids
        if edge.usable and first in paths and second in paths:
            paths[first].add(second)
            paths[second].add(first)
    own = {gateway_id: gateway.tree.identity for gateway_id, gateway in gateways.items()}

    def onward(at: str) -> Iterable[str]:
        return (other for other in paths[at] if own[other].transit)

    roots = {}
    for gateway_id in gateways:
        reach = [own[i].root for i in _component(gateway_id, onward) if own[i].transit]
        roots[gateway_id] = min(
            reach, key=lambda root: root.precedence, default=own[gateway_id].root
        )
    return roots


def check_one_tree(gateways: dict[str, Gateway], network: Network, checks: Checks) -> None:
    """Check invariant 2 on a network that had time to settle."""
    live: dict[str, set[str]] = {gateway_id: set() for gateway_id in gateways}
    for connection in network.connections:
        if connection.live:
            first, second = connection.edge.ids
            live[first].add(second)
            live[second].add(first)
    for gateway_id, root in right_roots(gateways, network).items():
        tree = gateways[gateway_id].tree
        if tree.root_id != root.gateway_id:
            checks.found(2, f"{gateway_id} follows {tree.root_id}, not {root}")
        elif root.gateway_id not in _component(gateway_id, live.__getitem__):
            checks.found(2, f"{gateway_id} has no live way to its root {root}")


def check_quiet(
    said: dict[Kind, int], gateways: dict[str, Gateway], intervals: float, checks: Checks
) -> None:
    """Check invariant 7 on what was ``said`` in so many hello intervals of stillness."""
    others = sorted(kind.name for kind, count in said.items() if count and kind is not Kind.HELLO)
    if others:
        checks.found(7, f"a still network sent {', '.join(others)}")
    directions = sum(len(gateway.ends) for gateway in gateways.values())
    most = directions * (intervals + 1)
    if said.get(Kind.HELLO, 0) > most:
        checks.found(7, f"{said[Kind.HELLO]} HELLOs, at most {most:.0f} are due")
