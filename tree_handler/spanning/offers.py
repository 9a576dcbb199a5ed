"""Neighbours' offers of a root: which may be taken, which is best, and what is to be hoped for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tree_handler.spanning import feasibility
from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.bpdu import UNREACHABLE_MS
from tree_handler.spanning.election import Identity, Precedence, Root
from tree_handler.spanning.feasibility import Sources
from tree_handler.spanning.neighbour import Neighbour, Offer


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
        """Return whether ``one`` beats ``other``; a leaf's own root loses against all."""
        return self._rank(one) < self._rank(other)

    def eligible(self, neighbour: Neighbour, root: Root | None = None) -> bool:
        """Return whether a neighbour may become the parent (in tree ``root``, if one is named)."""
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
        """Return the best root that is within reach, and the best parent for it."""
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
        """Return the best parent in a tree."""
        choices = [n for n in self._neighbours.values() if self.eligible(n, root)]
        return min(choices, key=lambda n: n.preference, default=None)

    def has_other(self, root: Root, parent: Neighbour | None) -> bool:
        """Return whether a neighbour other than the parent may be the parent in a tree."""
        return any(n is not parent and self.eligible(n, root) for n in self._neighbours.values())

    @property
    def answer_s(self) -> float:
        """Return how long an answer over any of the links may take."""
        slowest_ms = (n.round_trip.slowest_ms for n in self._neighbours.values())
        return max(slowest_ms, default=0) / 1000

    def wanted(self, root: Root, *, stranded: bool) -> Iterator[tuple[Neighbour, Root, int]]:
        """Yield who is to be asked for a sequence newer than which, and of which root.

        Offers of a better root than ``root`` that may not be taken yet, or of this one if it is
        lost. A root that has forgotten its latest epoch, with its disk, is itself told of it.
        """
        for n in self._neighbours.values():
            offer = n.offer
            if (
                offer is None
                or not (stranded if offer.root == root else self.better(offer.root, root))
                or not self._is_way(n, offer)
                or n.refused
                or self.eligible(n)
            ):
                continue
            remembered = self._sources.remembered(offer.root.gateway_id)
            if remembered is None:
                continue
            if remembered.epoch == offer.root.boot_epoch:
                yield n, offer.root, remembered.sequence
            elif n.peer_id == offer.root.gateway_id:
                yield n, replace(offer.root, boot_epoch=remembered.epoch), remembered.sequence

    def hopes(self, root: Root, agreements: Agreements) -> set[int]:
        """Return the links that give a gateway which has lost ``root`` a reason to wait for it.

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
        """Return whether there is a way to some other gateway's root through a neighbour."""
        return (
            neighbour.path_ms != UNREACHABLE_MS
            and offer.transit
            and offer.root.gateway_id != self._identity.gateway_id
        )

    def _rank(self, root: Root) -> tuple[bool, Precedence]:
        return root == self._own and not self._identity.transit, root.precedence
