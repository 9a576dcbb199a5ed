"""Growth of a network: what the tree costs a gateway, and how fast it settles.

Random networks in which each gateway has the same number of links, trees alone, without traffic.
"""

from __future__ import annotations

import gc
import random
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType

from light_dataclasses import dataclass
from tree_handler.simulation.gateway import Gateway, Start, Watch
from tree_handler.simulation.network import Clock, Edge, Network
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.spanning_tree import Identity, Parameters, SpanningTree

DELAY_S, JITTER_S = 0.002, 0.0002
LINKED_WITHIN_S = 0.2
"""All links are made within this time of a cold start."""
STILL_INTERVALS = 4
POLL_S = 0.02
PATIENCE_S = 60.0
WEIGHED = 20
"""Gateways whose memory is measured; the mean is reported."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The measurements of one network.

    Attributes:
        gateways: how many.
        degree: links of each.
        depth: links from the root to the farthest gateway.
        cold_start_hellos: hello intervals from a cold start to one tree.
        cold_start_bpdus: BPDUs that a gateway sent until then, in the mean.
        still_bpdus: BPDUs that a gateway sends in a still hello interval, in the mean.
        new_root_hellos: hello intervals from the root's death to one tree.
        new_root_bpdus: BPDUs that a gateway sent in that time, in the mean.
        tree_bytes: memory of one gateway's tree, in the mean.

    """

    gateways: int
    degree: int
    depth: int
    cold_start_hellos: float
    cold_start_bpdus: float
    still_bpdus: float
    new_root_hellos: float
    new_root_bpdus: float
    tree_bytes: int


class _Meadow:
    """A network of trees alone."""

    def __init__(self, gateways: int, degree: int, seed: int) -> None:
        self.clock = Clock()
        self.watch = Watch()
        self.parameters = Parameters()
        self.gateways: dict[str, Gateway] = {}
        self.edges = regular_network(gateways, degree, seed)
        self._network = Network(self.clock, random.Random(seed))
        chance = random.Random(f"gateways {seed}")
        for number in range(gateways):
            octets = ".".join(str(number >> shift & 255) for shift in (16, 8, 0))
            capability = float(chance.choice((1, 2, 2, 3, 5)))
            identity = Identity(f"gw-{number}", 1, capability, f"10.{octets}")
            tree = SpanningTree(identity, self.parameters, 0.0)
            gateway = Gateway(Start(tree, self.clock, self._network, self.watch))
            gateway.begin()
            self.gateways[gateway.gateway_id] = gateway
        for first, second in self.edges:
            edge = Edge((f"gw-{first}", f"gw-{second}"), DELAY_S, JITTER_S)
            self._network.edges.append(edge)
            dialler = self.gateways[edge.ids[0]]
            other: Callable[[], Gateway | None] = partial(self.gateways.get, edge.ids[1])
            dial = partial(self._network.dial, edge, dialler, other)
            self.clock.at(chance.uniform(0, LINKED_WITHIN_S), dial)

    @property
    def sent(self) -> int:
        return self.watch.said.total()

    def until_one_tree_s(self) -> float:
        """Return how long it takes from now until all follow the best root over live links.

        Raises:
            TimeoutError: it did not come about.

        """
        began_s = self.clock.now
        while not self._is_one_tree():
            if self.clock.now > began_s + PATIENCE_S:
                raise TimeoutError(f"{len(self.gateways)} gateways: no tree in {PATIENCE_S} s")
            self.clock.run(self.clock.now + POLL_S)
        return self.clock.now - began_s

    def best(self) -> str:
        """Return the gateway that must be root."""
        return min(self.gateways, key=lambda i: self.gateways[i].tree.identity.root.precedence)

    def depths(self) -> dict[str, int]:
        """Live links from the best root to each gateway that can be reached from it."""
        root = self.best()
        depth, front = {root: 0}, deque((root,))
        while front:
            at = front.popleft()
            for end in self.gateways[at].ends.values():
                other = end.peer.host.gateway_id
                if end.connection.live and other not in depth:
                    depth[other] = depth[at] + 1
                    front.append(other)
        return depth

    def _is_one_tree(self) -> bool:
        best = self.best()
        return all(g.tree.root_id == best for g in self.gateways.values()) and len(
            self.depths()
        ) == len(self.gateways)


def grow(gateways: int, degree: int = 4, seed: int = 1) -> Growth:
    """Let a network start, stand still, and lose its root.

    Args:
        gateways: how many.
        degree: links of each.
        seed: of the network.

    Raises:
        TimeoutError: it did not come to one tree within a minute of virtual time.

    """
    meadow = _Meadow(gateways, degree, seed)
    hello_s = meadow.parameters.hello_s
    cold_start_s = meadow.until_one_tree_s()
    cold_start_bpdus = meadow.sent
    meadow.clock.run(cold_start_s + 20 * hello_s)
    before = meadow.watch.said.copy()
    meadow.clock.run(meadow.clock.now + STILL_INTERVALS * hello_s)
    said = meadow.watch.said - before
    depth = max(meadow.depths().values())
    weighed = random.Random(seed).sample(sorted(meadow.gateways), min(WEIGHED, gateways))
    tree_bytes = sum(deep_bytes(meadow.gateways[i].tree) for i in weighed) // len(weighed)
    sent_before = meadow.sent
    meadow.gateways.pop(meadow.best()).stop(silently=False)
    new_root_s = meadow.until_one_tree_s()
    return Growth(
        gateways,
        degree,
        depth,
        cold_start_s / hello_s,
        cold_start_bpdus / gateways,
        said[Kind.HELLO] / gateways / STILL_INTERVALS,
        new_root_s / hello_s,
        (meadow.sent - sent_before) / gateways,
        tree_bytes,
    )


def deep_bytes(thing: object) -> int:
    """Return the memory of an object and all that it refers to, less classes, functions and
    modules."""
    seen: set[int] = set()
    front, total = [thing], 0
    while front:
        at = front.pop()
        if id(at) in seen or isinstance(at, (type, FunctionType, ModuleType)):
            continue
        seen.add(id(at))
        total += sys.getsizeof(at)
        front.extend(gc.get_referents(at))
    return total


def regular_network(gateways: int, degree: int, seed: int) -> list[tuple[int, int]]:
    """Return a connected random network in which nearly each gateway has so many links.

    A ring through all of them, in a drawn order, and further rings until the degree is reached:
    a pair that is linked already is not linked twice.
    """
    chance = random.Random(f"edges {seed}")
    pairs: set[tuple[int, int]] = set()
    for _ in range(max(1, min(degree, gateways - 1) // 2)):
        order = list(range(gateways))
        chance.shuffle(order)
        ring = zip(order, order[1:] + order[:1], strict=True)
        pairs.update((min(a, b), max(a, b)) for a, b in ring if a != b)
    return sorted(pairs)
