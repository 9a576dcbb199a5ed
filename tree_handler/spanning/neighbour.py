"""The neighbour table (row B2): what a gateway knows of the other end of each link."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from light_dataclasses import dataclass
from tree_handler.spanning.bpdu import MAX_COST_MS, MAX_HOPS, UNREACHABLE_MS, Bpdu, BpduFlags
from tree_handler.spanning.election import Root
from tree_handler.spanning.feasibility import Distance
from tree_handler.spanning.round_trip import RoundTrip


class Role(enum.Enum):
    """A link's role, as MQTT-ST and 802.1D name it."""

    ROOT = "root"
    """Towards the root: to the parent."""
    DESIGNATED = "designated"
    """Away from the root: to a child that was accepted."""
    BLOCKED = "blocked"
    """Carries BPDUs only."""


@dataclass(slots=True)  # not frozen: one is made for each HELLO
class Offer:
    """A distance to a root, as a neighbour's last HELLO gives it.

    Attributes:
        root: the tree.
        distance: what the feasibility condition compares.
        hops: from the neighbour to the root.
        parent: gateway id of the neighbour's parent.
        transit: the neighbour carries messages for others.
        seeking: it has lost the root and hopes.
        agrees: it forwards data over the link.

    """

    root: Root
    distance: Distance
    hops: int
    parent: str
    transit: bool
    seeking: bool
    agrees: bool

    @classmethod
    def of(cls, hello: Bpdu) -> Offer:
        """Return what a HELLO offers."""
        root, flags = hello.root, int(hello.flags)
        return cls(
            root,
            Distance(root.boot_epoch, hello.sequence, hello.cost_ms),
            hello.hops,
            hello.parent,
            bool(flags & _TRANSIT),
            bool(flags & _SEEKING),
            bool(flags & _AGREEMENT),
        )

    @property
    def sequence(self) -> int:
        """The root's sequence number."""
        return self.distance.sequence

    @property
    def cost_ms(self) -> int:
        """From the neighbour to the root; `UNREACHABLE_MS` if it has lost it."""
        return self.distance.cost_ms

    @property
    def finite(self) -> bool:
        """Return whether the neighbour has a way to the root."""
        return self.distance.cost_ms != UNREACHABLE_MS


# Arithmetic of enumerations is slow.
_TRANSIT, _SEEKING, _AGREEMENT = (
    int(BpduFlags.TRANSIT),
    int(BpduFlags.SEEKING),
    int(BpduFlags.AGREEMENT),
)

ToldRoot = tuple[Root, int, bool, bool]
"""The part of a HELLO that neighbours act on: root, sequence, whether finite, whether seeking."""


@dataclass(slots=True, eq=False)
class Neighbour:
    """The other end of one link.

    Attributes:
        link: the shell's number of the link.
        peer_id: gateway id of the neighbour, authenticated by the shell.
        round_trip: what the link costs.
        last_heard_s: when the last BPDU came, or bytes of what is before the next one.
        epoch: the neighbour's boot epoch, None before its first BPDU.
        capability: the neighbour's C.
        offer: its last HELLO.
        asked: number of this side's JOIN that is pending or accepted, 0 if there is none.
        granted: the neighbour accepted it: this side is its child.
        refused: the neighbour refused the last JOIN and has said no HELLO since.
        child_root: the tree in which the neighbour is this side's child, None if it is not.
        told: what this side's last HELLO on the link said.
        requested: the last SEQUENCE_REQUEST sent here: the tree and the sequence to exceed.
        path_ms: cost of the path through this neighbour; `UNREACHABLE_MS` beyond the limits.

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
    told: ToldRoot | None = None
    requested: tuple[Root, int] | None = None
    path_ms: int = UNREACHABLE_MS

    def take(self, offer: Offer) -> None:
        """Note what the neighbour's HELLO offers."""
        self.offer = offer
        self.refused = False
        self.reckon()

    def reckon(self) -> None:
        """Work out what the path costs, from the offer and the link."""
        offer = self.offer
        if offer is None or not offer.finite or offer.hops >= MAX_HOPS:
            self.path_ms = UNREACHABLE_MS
        else:
            cost_ms = offer.distance.cost_ms + self.round_trip.cost_ms
            self.path_ms = cost_ms if cost_ms <= MAX_COST_MS else UNREACHABLE_MS

    def names(self, root: Root) -> bool:
        """Return whether the neighbour is in this very tree, as far as is known here."""
        return self.offer is not None and self.offer.root == root

    @property
    def preference(self) -> tuple[int, float, str, int]:
        """Sorts before that of a neighbour that is the worse parent in the same tree (B5)."""
        return self.path_ms, -self.capability, self.peer_id, self.link

    def dead_at(self, silence_s: float) -> float:
        """Return when the neighbour counts as dead: a slow link may be silent for twice as long."""
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
        last_heard: when its last BPDU or bytes before it came, on the clock of the caller.

    """

    link: int
    peer_id: str
    role: Role
    rtt_ms: float | None
    peer_capability: float
    peer_root: str
    peer_cost_ms: int | None
    last_heard: float


def older_lives(neighbours: Iterable[Neighbour], peer_id: str) -> list[Neighbour]:
    """Return those of several links to one gateway that lead to lives before its latest."""
    lives = [(n.epoch, n) for n in neighbours if n.peer_id == peer_id and n.epoch is not None]
    latest = max((epoch for epoch, _ in lives), default=0)
    return [n for epoch, n in lives if epoch < latest]
