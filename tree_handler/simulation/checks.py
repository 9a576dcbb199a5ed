"""The invariants, checked from outside on what gateways do (tree-protocol, invariants 1, 2, 7)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from light_dataclasses import dataclass
from tree_handler.simulation.gateway import Gateway, Watch
from tree_handler.simulation.network import Clock, EdgeConnection, End, Network
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.election import Root
from tree_handler.spanning.feasibility import MAX_SOURCES


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
    """Checks invariant 1 at every instant at which an edge can become live, and 6 at each event.

    Args:
        clock: virtual time.
        replay: how to run the network again.

    """

    def __init__(self, clock: Clock, replay: str) -> None:
        super().__init__()
        self.violations: list[Violation] = []
        """The violations, in the order of time; at most `MAX_VIOLATIONS`."""
        self.last_change_s = 0.0
        """The time when a link last started or stopped to forward."""
        self.most_actions = 0.0
        """The most that a gateway did at once, for each link that it had and one more."""
        self._clock = clock
        self._replay = replay

    def forwards(self, end: End) -> None:
        """Look for a ring that this end closes."""
        self.last_change_s = self._clock.now
        if end.connection.live:
            ring = _ring(end.connection)
            if ring is not None:
                self.found(1, "live ring " + " - ".join(ring))

    def discards(self, end: End) -> None:
        """Nothing can go wrong when an end stops."""
        self.last_change_s = self._clock.now

    def acts(self, gateway: Gateway, actions: int) -> None:
        """Check that a gateway keeps and says no more than its bounds allow (invariant 6)."""
        tree, links = gateway.tree, len(gateway.ends)
        self.most_actions = max(self.most_actions, actions / (links + 1))
        if actions > ACTIONS_PER_LINK * (links + 1):
            self.found(6, f"{gateway.gateway_id} does {actions} things at once on {links} links")
        neighbours, roots = tree.sizes
        if neighbours > tree.parameters.max_links or roots > MAX_SOURCES:
            self.found(6, f"{gateway.gateway_id} keeps {neighbours} links and {roots} roots")

    def found(self, invariant: int, what: str) -> None:
        """Note a violation."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(invariant, self._clock.now, what, self._replay))


ACTIONS_PER_LINK = 4
"""At one event a gateway stops a link, says so, says HELLO, asks and starts it, at most."""
MAX_VIOLATIONS = 20
"""More of one run tell nothing new."""


def _ring(closed: EdgeConnection) -> list[str] | None:
    """Return the gateways of a ring of live connections through ``closed``, None if there is none.

    Looks from both ends in turn, so that the smaller side of a tree decides how long it takes.
    """
    sides = []
    for end in closed.ends:
        start = end.host
        sides.append(({start: [start.gateway_id]}, [start]))
    while all(front for _, front in sides):
        for (paths, front), (others, _) in (sides, sides[::-1]):
            if not front:
                break
            at = front.pop()
            if at in others:
                return paths[at] + others[at][-2::-1]
            for end in at.ends.values():
                other = end.peer.host
                if end.connection is not closed and end.connection.live and other not in paths:
                    paths[other] = [*paths[at], other.gateway_id]
                    front.append(other)
    return None


def component(start: str, neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    """Return all that can be reached from ``start``, itself included."""
    seen, front = {start}, [start]
    while front:
        for other in neighbours(front.pop()):
            if other not in seen:
                seen.add(other)
                front.append(other)
    return seen


def usable_paths(gateways: dict[str, Gateway], network: Network) -> dict[str, set[str]]:
    """Return whom each gateway can connect to now."""
    paths: dict[str, set[str]] = {gateway_id: set() for gateway_id in gateways}
    for edge in network.edges:
        first, second = edge.ids
        if edge.usable and first in paths and second in paths:
            paths[first].add(second)
            paths[second].add(first)
    return paths


def within_reach(gateways: dict[str, Gateway], network: Network, now: float) -> dict[str, set[str]]:
    """Return the gateways that each can ask now: a paused one over connections that it has."""
    paths, links = usable_paths(gateways, network), linked(gateways, network)
    for gateway_id, gateway in gateways.items():
        if gateway.paused_until_s > now:
            for other in paths[gateway_id] - links[gateway_id]:
                paths[other].discard(gateway_id)
            paths[gateway_id] &= links[gateway_id]
    return paths


def linked(
    gateways: dict[str, Gateway], network: Network, since_s: float = math.inf
) -> dict[str, set[str]]:
    """Return the gateways linked to each, as both see it, by connections made before a time."""
    links: dict[str, set[str]] = {gateway_id: set() for gateway_id in gateways}
    for connection in network.connections:
        first, second = connection.edge.ids
        is_open = connection.made_s < since_s and all(end.open for end in connection.ends)
        if is_open and {first, second} <= links.keys():
            links[first].add(second)
            links[second].add(first)
    return links


def right_roots(gateways: dict[str, Gateway], network: Network) -> dict[str, Root]:
    """Return the right root of each gateway: the best that it reaches without passing a leaf."""
    paths = usable_paths(gateways, network)
    own = {gateway_id: gateway.tree.identity for gateway_id, gateway in gateways.items()}

    def onward(at: str) -> Iterable[str]:
        return (other for other in paths[at] if own[other].transit)

    roots = {}
    for gateway_id in gateways:
        reach = [own[i].root for i in component(gateway_id, onward) if own[i].transit]
        roots[gateway_id] = min(
            reach, key=lambda root: root.precedence, default=own[gateway_id].root
        )
    return roots


def astray(gateways: dict[str, Gateway], network: Network) -> list[str]:
    """Return who does not follow the right root over live links, and how.

    Empty if there is one tree.
    """
    live: dict[str, set[str]] = {gateway_id: set() for gateway_id in gateways}
    for connection in network.connections:
        if connection.live:
            first, second = connection.edge.ids
            live[first].add(second)
            live[second].add(first)
    found = []
    for gateway_id, root in right_roots(gateways, network).items():
        followed = gateways[gateway_id].tree.root_id
        if followed != root.gateway_id:
            found.append(f"{gateway_id} follows {followed}, not {root}")
        elif root.gateway_id not in component(gateway_id, live.__getitem__):
            found.append(f"{gateway_id} has no live way to its root {root}")
    return found


@dataclass(frozen=True, slots=True)
class StillWindow:
    """A time in which a network may be still.

    Attributes:
        said: what had been said when it began.
        links: who had which links then.

    """

    said: Counter[Kind]
    links: frozenset[tuple[str, int, int]]

    @classmethod
    def begins(cls, checks: Checks, gateways: Mapping[str, Gateway]) -> StillWindow:
        """Return one that begins now."""
        return cls(checks.said.copy(), _links(gateways))

    def is_still(self, checks: Checks, gateways: Mapping[str, Gateway]) -> bool:
        """Return whether nothing but HELLOs was said so far, and no link came or went.

        Who has a link that has gone by now may have said HELLOs over it.
        """
        said = checks.said - self.said
        is_silent = not any(count and kind is not Kind.HELLO for kind, count in said.items())
        return is_silent and self.links == _links(gateways)

    def check_quiet(
        self, checks: Checks, gateways: Mapping[str, Gateway], intervals: float
    ) -> None:
        """Check invariant 7 on what was said in it, which is so many hello intervals long."""
        said = checks.said - self.said
        others = sorted(kind.name for kind in said if said[kind] and kind is not Kind.HELLO)
        if others:
            checks.found(7, f"a still network sent {', '.join(others)}")
        most = len(_links(gateways)) * (intervals + 1)
        if said[Kind.HELLO] > most:
            checks.found(7, f"{said[Kind.HELLO]} HELLOs, at most {most:.0f} are due")


def _links(gateways: Mapping[str, Gateway]) -> frozenset[tuple[str, int, int]]:
    lives = ((one, gateway.boot_epoch, gateway) for one, gateway in gateways.items())
    return frozenset((one, epoch, link) for one, epoch, life in lives for link in life.ends)
