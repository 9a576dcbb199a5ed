"""The state of a small network as a value, and the invariants that it has to keep.

A state is the production class `SpanningTree` of each gateway, pickled, and what is under way
between them; `exploration_network` makes new ones of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import field

from light_dataclasses import dataclass
from tree_handler.simulation.exploration_key import message_key, tree_key
from tree_handler.spanning.bpdu import Bpdu
from tree_handler.spanning.spanning_tree import Identity, SpanningTree

CLOSED = None
"""Under way: the other end has closed, or the link is broken."""


@dataclass(frozen=True, slots=True)
class EventBudget:
    """A number of events of each kind that may still happen, beside deliveries.

    Attributes:
        breaks: links that break; each end learns of it in its time.
        links: links that are made (again) between gateways that have none.
        deaths: gateways that die; each neighbour learns of it behind what was sent before.
        starts: gateways that start again, with the next boot epoch.
        timers: timers that fire.

    """

    breaks: int = 0
    links: int = 0
    deaths: int = 0
    starts: int = 0
    timers: int = 0

    def __str__(self) -> str:
        return (
            f"{self.breaks} breaks, {self.links} links, {self.deaths} deaths,"
            f" {self.starts} starts, {self.timers} timers"
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A gateway: its tree, pickled, and its clock. One that is dead has no ``tree``.

    Attributes:
        key: the same for trees that do the same from now on.
        number: of the last BPDU that it numbered.

    """

    identity: Identity
    tree: bytes = b""
    now: float = 0.0
    key: int = 0
    number: int = 0

    @classmethod
    def of(cls, identity: Identity, tree: SpanningTree, now: float) -> Node:
        """Put a tree away."""
        number = tree._announcer.number
        return cls(identity, pickle.dumps(tree), now, hash(tree_key(tree, now)), number)

    def revived(self) -> SpanningTree:
        """Return its tree, to be changed."""
        tree: SpanningTree = pickle.loads(self.tree)  # noqa: S301  # made here, of our own
        return tree


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection, by the indexes of its two gateways; most fields have a value for each end."""

    ends: tuple[int, int]
    number: int
    whole: bool = True
    open: tuple[bool, bool] = (True, True)
    forwards: tuple[bool, bool] = (False, False)
    coming: tuple[tuple[Bpdu | None, ...], tuple[Bpdu | None, ...]] = ((), ())
    """The messages under way to each end."""
    _keys: dict[tuple[int, int], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def key(self, numbers: tuple[int, int]) -> int:
        """Return a key that connections share over which the same comes.

        Args:
            numbers: the last number that each end has given to a BPDU.

        """
        key = self._keys.get(numbers)
        if key is None:
            coming = tuple(
                tuple(message_key(bpdu, numbers[1 - side], numbers[side]) for bpdu in bpdus)
                for side, bpdus in enumerate(self.coming)
            )
            key = hash((self.ends, self.number, self.whole, self.open, self.forwards, coming))
            self._keys[numbers] = key
        return key

    @property
    def live(self) -> bool:
        """Return whether data pass."""
        return self.whole and all(self.open) and all(self.forwards)


@dataclass(frozen=True, slots=True)
class ExploredState:
    """Everything that decides what can happen next."""

    nodes: tuple[Node, ...]
    wires: tuple[Wire, ...]
    budget: EventBudget

    @property
    def key(self) -> int:
        """Return a key that states share from which the same can happen."""
        nodes = self.nodes
        wires = tuple(
            wire.key((nodes[wire.ends[0]].number, nodes[wire.ends[1]].number))
            for wire in self.wires
        )
        return hash((tuple(node.key for node in nodes), wires, self.budget))


class InvariantError(Exception):
    """An invariant does not hold; the message says which, and how it came to it."""


def check_forest(wires: Sequence[Wire]) -> None:
    """Check that the live links are a forest.

    Raises:
        InvariantError: they are not.

    """
    tree_of: dict[int, int] = {}

    def find(i: int) -> int:
        while tree_of.get(i, i) != i:
            i = tree_of[i]
        return i

    for wire in wires:
        if wire.live:
            first, second = [find(end) for end in wire.ends]
            if first == second:
                live = [w.ends for w in wires if w.live]
                raise InvariantError(f"invariant 1: a ring among the live links {live}")
            tree_of[first] = second


def astray(state: ExploredState) -> str:
    """Return who does not follow the best root in reach over live links, and how."""
    alive = [i for i, node in enumerate(state.nodes) if node.tree]
    trees = {i: state.nodes[i].revived() for i in alive}
    linked = _parts(alive, [w.ends for w in state.wires if w.whole and all(w.open)])
    live = _parts(alive, [w.ends for w in state.wires if w.live])
    for i in alive:
        best = min(linked[i], key=lambda k: state.nodes[k].identity.root.precedence)
        if trees[i].root_id != state.nodes[best].identity.gateway_id:
            return f"{state.nodes[i].identity.gateway_id} follows {trees[i].root_id}"
        if best not in live[i]:
            return f"{state.nodes[i].identity.gateway_id} has no live way to {trees[i].root_id}"
    return ""


def _parts(alive: list[int], pairs: list[tuple[int, int]]) -> dict[int, frozenset[int]]:
    parts = {i: frozenset((i,)) for i in alive}
    for first, second in pairs:
        both = parts[first] | parts[second]
        for i in both:
            parts[i] = both
    return parts
