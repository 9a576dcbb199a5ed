"""A gateway's place in the tree: its root, and its own distance to it."""

from __future__ import annotations

from tree_handler.spanning.bpdu import UNREACHABLE_MS
from tree_handler.spanning.election import Identity, Root
from tree_handler.spanning.feasibility import Distance, Sources
from tree_handler.spanning.neighbour import Neighbour


class TreePosition:
    """The place of a gateway in the tree, as it announces it.

    Args:
        identity: the gateway; at first it is its own root.
        sources: what it has announced of other roots.

    """

    def __init__(self, identity: Identity, sources: Sources) -> None:
        self.own = identity.root
        """The tree whose root this gateway is when it follows no other."""
        self.root = self.own
        """The tree it is in."""
        self.parent: Neighbour | None = None
        """The neighbour that its own distance derives from."""
        self.hops = 0
        """Links to the root; the last known while there is no way."""
        self._sequence = 1
        self._own_sequence = 1
        self._sources = sources

    @property
    def at_root(self) -> bool:
        """Return whether this gateway is the root."""
        return self.root == self.own

    def is_outlived_by(self, root: Root) -> bool:
        """Return whether a root is a later life of this gateway, which lost its life counter."""
        return root.gateway_id == self.own.gateway_id and root.boot_epoch > self.own.boot_epoch

    @property
    def is_over(self) -> bool:
        """Return whether the root is known to have restarted: this tree will not come back."""
        return not self.at_root and self._sources.superseded(self.root)

    @property
    def holds(self) -> bool:
        """Return whether there is a way to the root."""
        if self.at_root:
            return True
        parent = self.parent
        return (
            parent is not None
            and parent.names(self.root)
            and parent.path_ms != UNREACHABLE_MS
            and not self.is_over
        )

    @property
    def distance(self) -> Distance:
        """The distance to announce; `UNREACHABLE_MS` with the last sequence if there is no way."""
        epoch = self.root.boot_epoch
        if self.at_root:
            return Distance(epoch, self._own_sequence, 0)
        if self.parent is None or self.parent.offer is None or not self.holds:
            return Distance(epoch, self._sequence, UNREACHABLE_MS)
        return Distance(epoch, self.parent.offer.sequence, self.parent.path_ms)

    @property
    def feasibility_distance(self) -> Distance:
        """The best distance announced in this tree, `UNREACHABLE_MS` if there was none."""
        if self.at_root:
            return self.distance
        remembered = self._sources.remembered(self.root.gateway_id)
        if remembered is None or remembered.epoch != self.root.boot_epoch:
            return Distance(self.root.boot_epoch, 0, UNREACHABLE_MS)
        return remembered

    def enter(self, root: Root) -> None:
        """Change the tree; one's own starts again with a newer sequence."""
        self.root = root
        self.hops = 0
        self._sequence = 0
        self.raise_sequence()

    def reseal(self, own: Root) -> None:
        """Have this gateway's own tree named under another signature; it stays the same tree."""
        if self.at_root:
            self.root = own
        self.own = own

    def raise_sequence(self) -> None:
        """At the root: start a new sequence. Elsewhere nothing happens."""
        if self.at_root:
            self._own_sequence += 1

    def announce(self, now: float) -> Distance:
        """Return the distance to announce, noted before it is sent (RFC 8966 section 3.7.3)."""
        distance = self.distance
        self._sequence = distance.sequence
        if not self.at_root and distance.cost_ms != UNREACHABLE_MS:
            assert self.parent is not None and self.parent.offer is not None
            self.root = self.parent.offer.root  # the same one, by its newest signature
            self.hops = self.parent.offer.hops + 1
            self._sources.announce(self.root, distance.sequence, distance.cost_ms, now)
        return distance
