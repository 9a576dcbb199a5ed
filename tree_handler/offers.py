"""Which neighbours' offers of a root may be taken, which is best, and what there is to hope for."""

from __future__ import annotations

from tree_handler import feasibility
from tree_handler.agreement import Agreements
from tree_handler.bpdu import UNREACHABLE_MS
from tree_handler.election import Identity, Precedence, Root
from tree_handler.feasibility import Sources
from tree_handler.neighbour import Neighbour, Offer


class Offers:
    """The offers of a gateway's neighbours, as it may judge them.

    Args:
        identity: the gateway.
        neighbours: its neighbour table.
        sources: what it has announced.

    """

    def __init__(
        self, identity: Identity, neighbours: dict[int, Neighbour], sources: Sources
    ) -> None:
        self._identity = identity
        self._own = identity.root
        self._neighbours = neighbours
        self._sources = sources

    def better(self, one: Root, other: Root) -> bool:
        """Whether ``one`` beats ``other``; a leaf's own root loses against all."""
        return self._rank(one) < self._rank(other)

    def eligible(self, neighbour: Neighbour, root: Root | None = None) -> bool:
        """Whether a neighbour may become the parent (in the tree ``root``, if one is named)."""
        offer = neighbour.offer
        return (
            offer is not None
            and not neighbour.refused
            and (root is None or offer.root == root)
            and self._is_way(neighbour, offer)
            and feasibility.feasible(
                offer.distance, self._sources.remembered(offer.root.gateway_id)
            )
        )

    def best(self) -> tuple[Root, Neighbour] | None:
        """The best root that is within reach, and the best parent for it."""
        best: Root | None = None
        for neighbour in self._neighbours.values():
            offer = neighbour.offer
            if (
                offer is not None
                and (best is None or (offer.root != best and self.better(offer.root, best)))
                and self.eligible(neighbour)
            ):
                best = offer.root
        parent = None if best is None else self.best_in(best)
        return None if best is None or parent is None else (best, parent)

    def best_in(self, root: Root) -> Neighbour | None:
        """The best parent in a tree."""
        choices = [n for n in self._neighbours.values() if self.eligible(n, root)]
        return min(choices, key=lambda n: n.preference, default=None)

    def out_of_reach(self, root: Root, *, stranded: bool) -> list[tuple[Neighbour, Root]]:
        """Offers worth a newer sequence: of a better root than ``root``, or of this one if lost."""
        return [
            (n, n.offer.root)
            for n in self._neighbours.values()
            if n.offer is not None
            and (stranded if n.offer.root == root else self.better(n.offer.root, root))
            and self._is_way(n, n.offer)
            and not n.refused
            and not self.eligible(n)
        ]

    def hopes(self, root: Root, agreements: Agreements) -> set[int]:
        """The links that give a gateway which has lost ``root`` a reason to wait for it.

        A neighbour that still announces a way to it, or a tree neighbour that hopes itself.
        """
        return {
            n.link
            for n in self._neighbours.values()
            if n.offer is not None
            and n.offer.root == root
            and (self._is_way(n, n.offer) or (n.offer.seeking and agreements.in_tree(n)))
        }

    def _is_way(self, neighbour: Neighbour, offer: Offer) -> bool:
        """Whether there is a way to some other gateway's root through a neighbour."""
        return (
            neighbour.path_ms != UNREACHABLE_MS
            and offer.transit
            and offer.root.gateway_id != self._identity.gateway_id
        )

    def _rank(self, root: Root) -> tuple[bool, Precedence]:
        return root == self._own and not self._identity.transit, root.precedence
