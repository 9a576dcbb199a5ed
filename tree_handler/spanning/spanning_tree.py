"""One gateway's part in the spanning tree: without a loop at every instant, and self-healing.

Stated here: why it works, and what each event does. Which neighbour is the parent is
`parent_choice`, who is the better root `election`, what may be a parent `feasibility`, when a
link carries data `agreement`, what a link costs `round_trip`.

What is a live edge
    Each end of a link forwards or discards. Data count only if both ends forward: the sender
    when they leave and the receiver when they arrive, on the same connection. A link both of
    whose ends forward at an instant is live, and the live links are a forest at every instant.

Why there is no loop
    An end forwards because it is the other's child (ACCEPT came) or its parent (ACCEPT went).
    A gateway forwards to one parent at most, so a cycle of live links could only be a ring of
    gateways each of which is the child of the next. Both ends of a live link are in the same
    tree (root and boot epoch): a gateway that changes its tree stops all its links first. So
    the ring would be one in a single tree. But there a child's feasibility distance - the best
    (epoch, sequence, cost) it has announced - is strictly worse than its parent's: it was when
    the child chose on the parent's announcement, the parent checked it again when it accepted,
    the parent's only improves, and the child's improves only by what it derives from the
    parent, to which the link's cost of at least 1 ms is added. Around a ring this can't be.
    The order of distances is that of RFC 8966 section 3.5.1. Only the distance in the present
    tree is needed for this; what `Sources` keeps beyond it ends stale news of a dead root.

    Messages under way are not edges: one that left before its sender stopped can reach the same
    gateway again by a newer path, once. Replication drops it by its number.

How a root that is gone is found out
    Who loses its way to the root and has no feasible neighbour announces the root as
    unreachable and asks for a newer sequence. It is *stranded*, and keeps its children. It
    hopes as long as a neighbour still announces a way, or a tree neighbour says that it hopes
    on account of somebody else (SEEKING). As every way is derived from a parent's, and parents
    form no ring, the last of them ends at the dead root and is retracted; hope along the edges
    of a forest ends after it. Then the stranded give the root up at once. The deadline for
    those who hope in vain is a safety net, not the usual way.

How HELLOs flow
    The root raises its sequence every ``hello_s`` and its HELLO is passed on from parent to
    child at once, on every link, as 802.1D passes configuration messages on: neighbours
    differ in sequence only while the wave passes. Between waves a HELLO goes out only if what
    others act on has changed. All that is sent on a still network is one HELLO for each
    direction of each link and interval.

Events go in with the caller's monotonic time in seconds; `SpanningTree.take_actions` says what
to do. The shell's links are authenticated, ordered and reliable, and lose what is under way
when they end; each connection has a number of its own. No BPDU makes the core raise.
"""

from __future__ import annotations

import math
from collections import Counter

from tree_handler.spanning import agreement, feasibility
from tree_handler.spanning.actions import (
    Changed,
    Discard,
    Drop,
    Forward,
    Outlived,
    Send,
    SpanningAction,
)
from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.announcer import Announcer
from tree_handler.spanning.bpdu import UNREACHABLE_MS, Bpdu, Kind
from tree_handler.spanning.election import Identity, Root
from tree_handler.spanning.feasibility import Distance, Sources
from tree_handler.spanning.neighbour import Neighbour, Offer, Role, Snapshot, older_lives
from tree_handler.spanning.offers import Offers
from tree_handler.spanning.parameters import Parameters
from tree_handler.spanning.parent_choice import ParentChoice
from tree_handler.spanning.place import TreePosition
from tree_handler.spanning.round_trip import RoundTrip
from tree_handler.spanning.silence import Silence

__all__ = ["Changed", "Discard", "Drop", "Forward", "Identity", "Outlived", "Parameters"]
__all__ += ["Role", "Send", "Snapshot", "SpanningAction", "SpanningTree"]

STALE = 2
"""So many times the silence of a dead neighbour no news of a root that is gone are under way."""
RELAY_PATIENCE = 1.25
"""Intervals that a gateway waits for its parent's HELLO before it sends its own without."""


class SpanningTree:
    """The state machine of one gateway.

    Args:
        identity: what this gateway stands for election with.
        parameters: timers and margins.
        now: monotonic time in seconds, as in every event.

    """

    def __init__(self, identity: Identity, parameters: Parameters, now: float) -> None:
        self.identity = identity
        self.parameters = parameters
        self.counters: Counter[str] = Counter()
        """Counts of what was ignored, refused or dropped, by reason."""
        self._neighbours: dict[int, Neighbour] = {}
        self._sources = Sources()
        self._actions: list[SpanningAction] = []
        self._place = TreePosition(identity, self._sources)
        self._announcer = Announcer(identity, self._place, self._actions)
        self._offers = Offers(identity, self._neighbours, self._sources)
        self._agreements = Agreements(
            self._place, self._neighbours, self._actions, self._announcer.say
        )
        self._choice = ParentChoice(self._place, self._offers, self._agreements, parameters)
        self._silence = Silence(self._neighbours, parameters)
        self._hello_at = now + parameters.hello_s
        self._raised_s = -math.inf
        self._raise_at = math.inf
        self._announced = (self._place.root, self._place.distance.sequence)
        self._status = self._state()

    # -- events --------------------------------------------------------------------------------

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Note a new connection to an authenticated neighbour.

        Raises:
            ValueError: if ``link`` is in use.

        """
        if link in self._neighbours:
            raise ValueError(f"link {link} is up already")
        parameters = self.parameters
        if peer_id == self.identity.gateway_id:
            self._drop(link, "own_id", f"{peer_id} is this gateway's own id")
            return
        if len(self._neighbours) >= parameters.max_links:
            self._drop(link, "too_many_links", f"more than {parameters.max_links} links")
            return
        if any(other.peer_id == peer_id for other in self._neighbours.values()):
            self.counters["second_link"] += 1
        margins = parameters.switch_margin, parameters.switch_margin_ms
        round_trip = RoundTrip(parameters.unmeasured_ms, *margins)
        self._neighbours[link] = Neighbour(link, peer_id, round_trip, now)
        self._silence.begins(now)
        self._settle(now, f"link to {peer_id} up")

    def link_down(self, link: int, now: float) -> None:
        """Note that a connection ended. No later action names it."""
        neighbour = self._neighbours.pop(link, None)
        if neighbour is not None:
            self._agreements.gone(neighbour)
            self._settle(now, f"link to {neighbour.peer_id} down")

    def receive(self, link: int, bpdu: Bpdu, now: float) -> None:
        """Take in what a neighbour says."""
        neighbour = self._neighbours.get(link)
        if neighbour is None:
            self.counters["unknown_link"] += 1
            return
        if bpdu.sender != neighbour.peer_id or neighbour.epoch not in (None, bpdu.sender_epoch):
            self.counters["wrong_sender"] += 1
            return
        if self._place.is_outlived_by(bpdu.root):
            self.counters["own_epoch_ahead"] += 1
            self._actions.append(Outlived(bpdu.root.boot_epoch))
        neighbour.last_heard_s = now
        neighbour.capability = bpdu.capability
        if neighbour.epoch is None:
            neighbour.epoch = bpdu.sender_epoch
            self._retire_older(neighbour)
        if link in self._neighbours:
            self._take(neighbour, bpdu, now)
        self._settle(now, f"{bpdu.kind.name} from {neighbour.peer_id}")

    def heard(self, link: int, at: float) -> None:
        """Bytes came over a link at a time, though perhaps no BPDU: told before `handle_timer`."""
        self._silence.heard(link, at)

    def measured(self, link: int, rtt_ms: float, now: float) -> None:
        """Take in one sample of a link's round-trip time.

        Raises:
            ValueError: if it is negative or not finite.

        """
        neighbour = self._neighbours.get(link)
        if neighbour is None:
            self.counters["unknown_link"] += 1
            return
        if neighbour.round_trip.sample(rtt_ms):
            neighbour.reckon()
            self._settle(now, f"round trip to {neighbour.peer_id}")

    def reseal(self, identity: Identity) -> None:
        """Stand for election as before, under another signature: that of a newer key."""
        self.identity = identity
        self._place.reseal(identity.root)

    def handle_timer(self, now: float) -> None:
        """Do what is due. Calling it early does no harm."""
        late_s = now - self.next_timer()
        if late_s > self.parameters.hello_s:
            self.counters["late_timer"] += 1
            self._silence.stood_still(late_s)
        why = "timer"
        for neighbour in self._silence.dead(now):
            why = f"{neighbour.peer_id} is silent"
            self._forget(neighbour, "silent", why)
        if now >= self._hello_at:
            self._hello_at = now + self.parameters.hello_s
            self._sources.forget(now - self.parameters.remember_s, self._place.root.gateway_id)
            self._place.raise_sequence()
            for neighbour in self._neighbours.values():
                neighbour.told = None
        if now >= self._raise_at:
            self._raise(now)
        self._settle(now, why)

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        return min(self._hello_at, self._raise_at, self._choice.give_up_at, self._silence.look_at)

    def take_actions(self) -> list[SpanningAction]:
        """Return what to do now, in this order; the caller does it before the next event."""
        actions = self._actions.copy()
        self._actions.clear()
        return actions

    # -- queries -------------------------------------------------------------------------------

    @property
    def root_id(self) -> str:
        """Gateway id of the root."""
        return self.root.gateway_id

    @property
    def root(self) -> Root:
        """The life of the root that is followed."""
        return self._place.root

    @property
    def cost_ms(self) -> int | None:
        """Cost of the path to the root, None while there is none."""
        return self._place.distance.cost_ms if self._place.holds else None

    @property
    def hops(self) -> int:
        """Links on the path to the root, or on the last one while there is none."""
        return self._place.hops

    @property
    def parent_link(self) -> int | None:
        """The link to the parent, None at a root."""
        parent = self._place.parent
        return None if parent is None else parent.link

    @property
    def has_substitute(self) -> bool:
        """Return whether another neighbour may become the parent at once if this one is lost."""
        return self._offers.has_other(self._place.root, self._place.parent)

    @property
    def forwarding(self) -> frozenset[int]:
        """The links that carry data."""
        return frozenset(self._agreements.forwarding)

    @property
    def sizes(self) -> tuple[int, int]:
        """Return how many neighbours are in the table, and how many roots are remembered."""
        return len(self._neighbours), len(self._sources)

    def role(self, link: int) -> Role:
        """Return the role of this side's end of a link.

        Raises:
            KeyError: if there is no such link.

        """
        return self._agreements.role(self._neighbours[link])

    def neighbours(self) -> list[Snapshot]:
        """Return the neighbour table."""
        return [n.snapshot(self._agreements.role(n)) for n in self._neighbours.values()]

    # -- what neighbours say -------------------------------------------------------------------

    def _take(self, neighbour: Neighbour, bpdu: Bpdu, now: float) -> None:
        agreements = self._agreements
        match bpdu.kind:
            case Kind.HELLO:
                self._hello(neighbour, bpdu, now)
            case Kind.JOIN:
                self._join(neighbour, bpdu)
            case Kind.LEAVE:
                agreements.release(neighbour)
            case Kind.SEQUENCE_REQUEST:
                self._sequence_request(neighbour, bpdu, now)
            case Kind.ACCEPT | Kind.REFUSE if not neighbour.asked == bpdu.answers != 0:
                self.counters["stale_answer"] += 1
            case Kind.REFUSE:
                agreements.refused(neighbour)
            case Kind.ACCEPT if not agreement.agreed(bpdu.root, self._place.root):
                agreements.leave(neighbour)
            case Kind.ACCEPT if neighbour is self._place.parent:
                agreements.granted()
            case Kind.ACCEPT if self._offers.eligible(neighbour, self._place.root):
                agreements.change_over()
            case Kind.ACCEPT:
                agreements.leave(neighbour)

    def _hello(self, neighbour: Neighbour, bpdu: Bpdu, now: float) -> None:
        if bpdu.root.gateway_id != self.identity.gateway_id:
            self._sources.heard(bpdu.root)
            if bpdu.root.gateway_id != self._place.root.gateway_id:
                stale_s = STALE * self.parameters.silence_s
                self._sources.goes_on(bpdu.root, bpdu.sequence, now, stale_s)
        offer = Offer.of(bpdu)
        neighbour.take(offer)
        if neighbour.granted and neighbour.names(self._place.root) and not offer.agrees:
            self.counters["agreement_lost"] += 1
            self._agreements.leave(neighbour)

    def _join(self, neighbour: Neighbour, bpdu: Bpdu) -> None:
        agreements = self._agreements
        if neighbour is agreements.candidate:
            agreements.leave(neighbour)
        own = self._place.feasibility_distance
        child = Distance(bpdu.root.boot_epoch, bpdu.sequence, bpdu.cost_ms)
        if (
            self.identity.transit
            and neighbour is not self._place.parent
            and agreement.agreed(bpdu.root, self._place.root)
            and own.cost_ms != UNREACHABLE_MS
            and feasibility.feasible(own, child)
        ):
            agreements.accept(neighbour, bpdu.number, bpdu.root)
        else:
            self.counters["refused_join"] += 1
            self._announcer.say(neighbour, Kind.REFUSE, bpdu.number)

    def _sequence_request(self, neighbour: Neighbour, bpdu: Bpdu, now: float) -> None:
        place, parent = self._place, self._place.parent
        if bpdu.root != place.root:
            self.counters["stale_request"] += 1
        elif place.at_root:
            if bpdu.sequence >= place.distance.sequence:
                self._raise_at = max(now, self._raised_s + self.parameters.request_interval_s)
                if now >= self._raise_at:
                    self._raise(now)
        elif parent is not None and parent is not neighbour and place.holds:
            self._announcer.request(parent, place.root, bpdu.sequence)

    def _raise(self, now: float) -> None:
        self._raise_at = math.inf
        self._raised_s = now
        self._place.raise_sequence()

    # -- what neighbours are told --------------------------------------------------------------

    def _settle(self, now: float, why: str) -> None:
        """Decide on what has become known, and tell whom it concerns."""
        self._choice.decide(now)
        place = self._place
        distance = place.announce(now)
        finite = distance.cost_ms != UNREACHABLE_MS
        hopes = set() if finite else self._offers.hopes(place.root, self._agreements)
        for neighbour in self._neighbours.values():
            seeking = bool(hopes and hopes - {neighbour.link})
            told = place.root, distance.sequence, finite, seeking
            if neighbour.told != told:
                neighbour.told = told
                agrees = neighbour.link in self._agreements.forwarding
                self._announcer.hello(neighbour, distance, seeking=seeking, agrees=agrees)
        for neighbour, root, sequence in self._offers.wanted(place.root, stranded=not finite):
            self._announcer.request(neighbour, root, sequence)
        if self._announced != (place.root, distance.sequence):
            self._announced = (place.root, distance.sequence)
            patience = 1.0 if place.at_root else RELAY_PATIENCE
            self._hello_at = now + patience * self.parameters.hello_s
        if self._status != (status := self._state()):
            self._status = status
            self._actions.append(Changed(f"{why}: {self}"))

    # -- the ends of neighbours ----------------------------------------------------------------

    def _retire_older(self, neighbour: Neighbour) -> None:
        """Of links to two lives of the same gateway only those to the later one stay."""
        for older in older_lives(self._neighbours.values(), neighbour.peer_id):
            self._forget(older, "older_life", f"{neighbour.peer_id} has restarted")

    def _forget(self, neighbour: Neighbour, counter: str, why: str) -> None:
        del self._neighbours[neighbour.link]
        if self._agreements.gone(neighbour):
            self._actions.append(Discard(neighbour.link))
        self._drop(neighbour.link, counter, why)

    def _drop(self, link: int, counter: str, why: str) -> None:
        self.counters[counter] += 1
        self._actions.append(Drop(link, why))

    def _state(self) -> tuple[Root, int | None, frozenset[int]]:
        return self.root, self.parent_link, self.forwarding

    def __str__(self) -> str:
        """Root, parent and the links that forward, for a log line."""
        parent = "none" if self._place.parent is None else self._place.parent.peer_id
        return f"root {self.root}, parent {parent}, forwarding {sorted(self.forwarding)}"
