"""The neighbour table (row B2): what a gateway knows of the other end of each link."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tree_handler.bpdu import MAX_COST_MS, MAX_HOPS, UNREACHABLE_MS, Bpdu, Flags
from tree_handler.election import Root
from tree_handler.feasibility import Distance
from tree_handler.round_trip import RoundTrip


class Role(enum.Enum):
    """A link's role, as MQTT-ST and 802.1D name it."""

    ROOT = "root"
    """Towards the root: to the parent."""
    DESIGNATED = "designated"
    """Away from the root: to a child that was accepted."""
    BLOCKED = "blocked"
    """Carries BPDUs only."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A distance to a root, as a neighbour's last HELLO gives it.

    Attributes:
        root: the tree.
        sequence: the root's sequence number.
        cost_ms: from the neighbour to the root; `UNREACHABLE_MS` if it has lost it.
        hops: from the neighbour to the root.
        parent: gateway id of the neighbour's parent.
        flags: of the HELLO.

    """

    root: Root
    sequence: int
    cost_ms: int
    hops: int
    parent: str
    flags: Flags

    @classmethod
    def of(cls, hello: Bpdu) -> Offer:
        """What a HELLO offers."""
        return cls(hello.root, hello.sequence, hello.cost_ms, hello.hops, hello.parent, hello.flags)

    @property
    def finite(self) -> bool:
        """Whether the neighbour has a way to the root."""
        return self.cost_ms != UNREACHABLE_MS

    @property
    def agrees(self) -> bool:
        """Whether the neighbour forwards data over the link."""
        return Flags.AGREEMENT in self.flags

    @property
    def distance(self) -> Distance:
        """What the feasibility condition compares."""
        return Distance(self.root.boot_epoch, self.sequence, self.cost_ms)


Told = tuple[Root, int, bool, bool]
"""What a HELLO said that neighbours act on: root, sequence, whether finite, whether seeking."""


@dataclass(slots=True, eq=False)
class Neighbour:
    """The other end of one link.

    Attributes:
        link: the shell's number of the link.
        peer_id: gateway id of the neighbour, authenticated by the shell.
        round_trip: what the link costs.
        last_heard_s: when the last BPDU came.
        epoch: the neighbour's boot epoch, None before its first BPDU.
        capability: the neighbour's C.
        offer: its last HELLO.
        asked: number of this side's JOIN that is pending or accepted, 0 if there is none.
        granted: the neighbour accepted it: this side is its child.
        refused: the neighbour refused the last JOIN and has said no HELLO since.
        child_root: the tree in which the neighbour is this side's child, None if it is not.
        told: what this side's last HELLO on the link said.
        requested: the last SEQUENCE_REQUEST sent here: the tree and the sequence to exceed.

    """

    link: int
    peer_id: str
    round_trip: RoundTrip
    last_heard_s: float
    epoch: int | None = None
    capability: float = 0.0
    offer: Offer | None = None
    asked: int = 0
    granted: bool = False
    refused: bool = False
    child_root: Root | None = None
    told: Told | None = None
    requested: tuple[Root, int] | None = None

    def names(self, root: Root) -> bool:
        """Whether the neighbour is in this very tree, as far as is known here."""
        return self.offer is not None and self.offer.root == root

    @property
    def path_ms(self) -> int:
        """Cost of the path through this neighbour; `UNREACHABLE_MS` beyond the limits."""
        offer = self.offer
        if offer is None or not offer.finite or offer.hops >= MAX_HOPS:
            return UNREACHABLE_MS
        cost_ms = offer.cost_ms + self.round_trip.cost_ms
        return cost_ms if cost_ms <= MAX_COST_MS else UNREACHABLE_MS

    @property
    def preference(self) -> tuple[int, float, str, int]:
        """Sorts before that of a neighbour that is the worse parent in the same tree (B5)."""
        return self.path_ms, -self.capability, self.peer_id, self.link

    def dead_at(self, silence_s: float) -> float:
        """When the neighbour counts as dead: a slow link may be silent for twice as long."""
        slowest_s = self.round_trip.slowest_ms / 1000
        return self.last_heard_s + silence_s + min(silence_s, slowest_s)

    def snapshot(self, role: Role) -> Snapshot:
        """This row, for status."""
        offer = self.offer
        return Snapshot(
            self.link,
            self.peer_id,
            role,
            self.round_trip.srtt_ms,
            self.capability,
            offer.root.gateway_id if offer is not None else "",
            offer.cost_ms if offer is not None and offer.finite else None,
            self.last_heard_s,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A row of the neighbour table, for status.

    Attributes:
        link: the shell's number of the link.
        peer_id: gateway id of the neighbour.
        role: role of this side's end of the link.
        rtt_ms: smoothed round-trip time, None before the first sample.
        peer_capability: the neighbour's C.
        peer_root: gateway id of the root it announces, "" before its first HELLO.
        peer_cost_ms: its cost to that root, None if it has lost it or has said no HELLO.
        last_heard: when its last BPDU came, on the clock of the caller.

    """

    link: int
    peer_id: str
    role: Role
    rtt_ms: float | None
    peer_capability: float
    peer_root: str
    peer_cost_ms: int | None
    last_heard: float
