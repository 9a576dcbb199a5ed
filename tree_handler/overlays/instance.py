"""One overlay on one gateway: a `SpanningTree` over the links to other members.

To its tree a session with a neighbour (`overlays.wire`) is a connection: up when both ends
are known to run the overlay, down when either has begun anew. So what `spanning_tree` proves of
connections holds here: BPDUs are ordered, and none of an earlier life of either end is taken.

How a session comes about: each end greets on every link to a member, with its own number.
Whoever is greeted, or told a new number, brings the session up and says HELLO under both
numbers. A BPDU that names another number than the receiver's own is of an earlier session.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from light_dataclasses import dataclass
from tree_handler.overlays.audience import AudienceMembers
from tree_handler.overlays.wire import MAX_BPDUS, Item
from tree_handler.seal import Seals
from tree_handler.spanning.bpdu import Bpdu
from tree_handler.spanning.election import Root
from tree_handler.spanning.round_trip import SETTLED_SAMPLES
from tree_handler.spanning.spanning_tree import Drop, Identity, Parameters, Send, SpanningTree

SETTLE_HELLOS = 1
"""Hello intervals for which the root must have been the same before data take this way."""


@dataclass(frozen=True, slots=True)
class OverlayWay:
    """The route of a message through an overlay.

    Attributes:
        overlay: the overlay that it travels in.
        links: where it leaves this gateway.
        members: whom it will reach.

    """

    overlay: bytes
    links: frozenset[int]
    members: AudienceMembers


@dataclass(slots=True)
class _Session:
    peer_id: str
    own: int
    rtt_ms: float | None
    peer: int = 0
    connection: int = 0
    """The tree's number for it, 0 while it is not up."""


@dataclass(frozen=True, slots=True)
class OverlayContext:
    """The parts that all overlays of a gateway share.

    Attributes:
        numbers: gives session numbers.
        counters: what was ignored, by reason.
        seals: signs what this gateway stands for election with, and checks that of roots; None
            where nobody signs.

    """

    numbers: Iterator[int]
    counters: Counter[str]
    seals: Seals | None = None


class Instance:
    """One life of one gateway in one overlay.

    Args:
        overlay: the overlay's id.
        members: who is in it.
        identity: what this gateway stands for election with; its boot epoch is higher than in any
            earlier life in this overlay.
        parameters: timers and margins.
        now: monotonic time in seconds, as in every event.
        shared: by all overlays of the gateway.

    """

    def __init__(
        self,
        overlay: bytes,
        members: AudienceMembers,
        identity: Identity,
        parameters: Parameters,
        now: float,
        shared: OverlayContext,
    ) -> None:
        self.overlay = overlay
        self.members = members
        self._seals = shared.seals
        self.tree = SpanningTree(self._stands(identity), parameters, now)
        self.forwarding: frozenset[int] = frozenset()
        """Links that carry data of this overlay now."""
        self.way: OverlayWay | None = None
        """The way that data go, None while the tree is not settled."""
        self._numbers = shared.numbers
        self._counters = shared.counters
        self._settle_s = SETTLE_HELLOS * parameters.hello_s
        self._sessions: dict[int, _Session] = {}
        self._links: dict[int, int] = {}
        self._connections = 0
        self._said: list[tuple[int, Item]] = []
        self._root_id = self.tree.root_id
        self._settled_at = now + self._settle_s
        self._seen_s = now

    # -- events --------------------------------------------------------------------------------

    def link_up(self, link: int, peer_id: str, rtt_ms: float | None, now: float) -> None:
        """Greet a member over a link; ``rtt_ms`` is its smoothed round trip if that is known."""
        if len(self._sessions) >= self.tree.parameters.max_links:
            self._counters["overlay_too_many_links"] += 1
            return
        self._sessions[link] = session = _Session(peer_id, next(self._numbers), rtt_ms)
        self._say(link, session)
        self._refresh(now)

    def link_down(self, link: int, now: float) -> None:
        """Note that a link is gone."""
        session = self._sessions.pop(link, None)
        if session is not None:
            self._down(session, now)
            self._refresh(now)

    def measured(self, link: int, rtt_ms: float, now: float) -> None:
        """Take in the smoothed round-trip time of a link."""
        session = self._sessions.get(link)
        if session is not None:
            session.rtt_ms = rtt_ms
            if session.connection:
                self._tell_rtt(session.connection, rtt_ms, now)
                self._carry_out(now)

    def receive(self, link: int, item: Item, now: float) -> None:
        """Take in what a neighbour says about this overlay.

        Raises:
            BpduError: a BPDU of it can't be read; those before it are taken.

        """
        session = self._sessions.get(link)
        if session is None:
            self._counters["overlay_not_a_member"] += 1
            return
        if item.own == 0:
            session.peer = 0
            self._down(session, now)
            self._carry_out(now)
            return
        if item.peer not in (0, session.own):
            self._counters["overlay_stale_session"] += 1
            return
        if item.own != session.peer:
            self._down(session, now)
            session.peer = item.own
            self._up(link, session, now)
        for encoded in item.bpdus:
            if session.connection:
                bpdu = Bpdu.decode(encoded)
                if not self._is_candidate(bpdu.root):
                    self._counters["overlay_root_unproven"] += 1
                    continue
                self.tree.receive(session.connection, bpdu, now)
                self._carry_out(now)

    def reseal(self) -> None:
        """Stand for election as before, under the key that this gateway has now."""
        self.tree.reseal(self._stands(self.tree.identity))

    def _stands(self, identity: Identity) -> Identity:
        return identity if self._seals is None else self._seals.stands(identity, self.overlay)

    def _is_candidate(self, root: Root) -> bool:
        """Return whether a root is one of this overlay, by its own word where gateways sign."""
        if self._seals is None:
            return True
        return root.gateway_id in self.members and self._seals.is_candidate(root, self.overlay)

    def handle_timer(self, now: float) -> None:
        """Do what is due. Calling it early does no harm."""
        if now >= self.tree.next_timer():
            self.tree.handle_timer(now)
        self._carry_out(now)

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        settles = self.way is None and self._settled_at > self._seen_s
        return min(self.tree.next_timer(), self._settled_at if settles else math.inf)

    def close(self) -> None:
        """Stop: nothing is forwarded any more, and the neighbours are told."""
        self.forwarding, self.way = frozenset(), None
        for link, session in self._sessions.items():
            self._said.append((link, Item(self.overlay, 0, session.peer, [])))
        self._sessions.clear()
        self._links.clear()

    def take_said(self) -> list[tuple[int, Item]]:
        """Return what to send over which link, in this order."""
        said, self._said = self._said, []
        return said

    # -- queries -------------------------------------------------------------------------------

    @property
    def is_root(self) -> bool:
        """Return whether this gateway is the root."""
        return self.tree.root_id == self.tree.identity.gateway_id

    @property
    def parent_id(self) -> str | None:
        """Gateway id of the parent, None at a root."""
        parent = self.tree.parent_link
        return None if parent is None else self._sessions[self._links[parent]].peer_id

    # -- sessions ------------------------------------------------------------------------------

    def _up(self, link: int, session: _Session, now: float) -> None:
        self._connections += 1
        session.connection = self._connections
        self._links[session.connection] = link
        self.tree.link_up(session.connection, session.peer_id, now)
        if session.rtt_ms is not None:
            self._tell_rtt(session.connection, session.rtt_ms, now)
        self._carry_out(now)

    def _tell_rtt(self, connection: int, rtt_ms: float, now: float) -> None:
        for _ in range(SETTLED_SAMPLES):  # it is smooth already
            self.tree.measured(connection, rtt_ms, now)

    def _down(self, session: _Session, now: float) -> None:
        if session.connection:
            connection, session.connection = session.connection, 0
            self.tree.link_down(connection, now)
            self._carry_out(now)
            del self._links[connection]

    def _dropped(self, connection: int) -> None:
        """The tree has given a connection up: begin a new session on its link."""
        link = self._links.pop(connection)
        session = self._sessions[link]
        session.connection = session.peer = 0
        session.own = next(self._numbers)
        self._say(link, session)

    def _say(self, link: int, session: _Session, bpdu: Bpdu | None = None) -> None:
        bpdus = [] if bpdu is None else [bpdu.encode()]
        for before, item in reversed(self._said):
            if before == link:
                if (item.own, item.peer) != (session.own, session.peer):
                    break
                if len(item.bpdus) < MAX_BPDUS:
                    item.bpdus += bpdus
                    return
                break
        self._said.append((link, Item(self.overlay, session.own, session.peer, bpdus)))

    # -- the tree ------------------------------------------------------------------------------

    def _carry_out(self, now: float) -> None:
        for action in self.tree.take_actions():
            match action:
                case Send(connection, bpdu) if connection in self._links:
                    link = self._links[connection]
                    self._say(link, self._sessions[link], bpdu)
                case Drop(connection, _) if connection in self._links:
                    self._dropped(connection)
        self._refresh(now)

    def _refresh(self, now: float) -> None:
        """Bring `forwarding` and `way` up to what the tree says now."""
        tree, links = self.tree, self._links
        self._seen_s = now
        self.forwarding = frozenset(links[c] for c in tree.forwarding if c in links)
        if self._root_id != tree.root_id:
            self._root_id = tree.root_id
            self._settled_at = now + self._settle_s
        if not self._is_settled(now):
            self.way = None
        elif self.way is None or self.way.links != self.forwarding:
            self.way = OverlayWay(self.overlay, self.forwarding, self.members)

    def _is_settled(self, now: float) -> bool:
        """Return whether all members in sight are in one tree, and this gateway is joined to it."""
        tree = self.tree
        if now < self._settled_at or not self.forwarding:
            return False
        if not self.is_root and tree.parent_link not in tree.forwarding:
            return False
        if not all(session.connection for session in self._sessions.values()):
            return False
        return all(neighbour.peer_root == tree.root_id for neighbour in tree.neighbours())
