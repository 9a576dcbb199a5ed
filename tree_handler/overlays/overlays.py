"""Topic overlays: a spanning tree for each set of members (C5, C6; IEEE 802.1Q, clause 13).

As a multiple spanning tree bridge runs an instance for each set of VLANs, a gateway runs a
`SpanningTree` for each set of gateways that share topics, over the links between two of
them. So a message passes only gateways that publish or want its topic, and the roots share the
load. All that `spanning_tree` states of one tree holds for each overlay by itself.

An overlay is a fast path and nothing else. Which of its messages a gateway must get, and how it
gets those that the overlay did not bring, is `routed replication`'s matter; while there is no
settled overlay for a topic it goes the routed way over the common tree.

What keeps overlays apart:

- an overlay is named by its members (`overlays.plan`), and a batch names the overlay that it
  travels in. It is passed on by that very instance, and discarded by whoever does not run
  it or does not forward over the link that it came by;
- a gateway's life in an overlay has an epoch of its own, higher than all before: its boot epoch,
  then a count. So a gateway that leaves an overlay and enters it again is to the others
  one that has restarted, and its distances stay ordered (see `feasibility`);
- a link's session in an overlay ends when either end's life there does (`overlays.instance`).

Signalling: what is due for a link at one instant is one message, whatever the number of
overlays. The roots of a gateway's overlays raise their sequences at the same instants, so a
still network sends about one message for each direction of a link, interval and *gateway
that is a root*.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from light_dataclasses import dataclass
from tree_handler.overlays import wire as overlay_wire
from tree_handler.overlays.audience import AudienceMembers, Audiences
from tree_handler.overlays.instance import Instance, OverlayContext, OverlayWay
from tree_handler.overlays.plan import NO_PLAN, Plan
from tree_handler.overlays.policy import RootPolicy, Weights, standings
from tree_handler.overlays.wire import Item
from tree_handler.routing.interest import Interest
from tree_handler.seal import Seals
from tree_handler.spanning.election import MAX_EPOCH, Identity
from tree_handler.spanning.parameters import Parameters

__all__ = ["OverlayChanged", "OverlaySnapshot", "OverlayWay", "Overlays", "Say", "Settings"]

LIVES_BITS = 31
"""A gateway enters overlays at most so often (as a power of two) from one start to the next."""
RTT_STEP = 0.05
"""The cost of a link is looked at again when its round-trip time has changed by this fraction."""
STEPS_IN_HELLO = 4
"""Timers of settled overlays are kept at so many instants of a hello interval, and move to the
first of them by one at a time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of overlays; the same on all gateways of a tree.

    Attributes:
        policy: who becomes root.
        weights: what counts as load under `RootPolicy.BALANCE`.
        max_overlays: overlays in the whole tree of gateways; more go the routed way.

    """

    policy: RootPolicy = RootPolicy.CAPACITY
    weights: Weights = field(default_factory=Weights)
    max_overlays: int = 64


@dataclass(frozen=True, slots=True)
class Say:
    """Send this message about overlays over the link."""

    link: int
    message: bytes


@dataclass(frozen=True, slots=True)
class OverlayChanged:
    """An overlay began, ended, or has another root, parent or forwarding link."""

    why: str


OverlayAction = Say | OverlayChanged


@dataclass(frozen=True, slots=True)
class OverlaySnapshot:
    """An overlay, for status.

    Attributes:
        overlay: its id.
        members: ids of those in it, sorted.
        topics: advertised topics that it carries.
        root: id of its root.
        parent: id of this gateway's parent in it, None at the root.
        cost_ms: cost of the path to the root, None while there is none.
        forwarding: links that carry data of it.
        settled: whether messages take this way.

    """

    overlay: bytes
    members: tuple[str, ...]
    topics: int
    root: str
    parent: str | None
    cost_ms: int | None
    forwarding: frozenset[int]
    settled: bool


@dataclass(slots=True)
class _Link:
    peer_id: str
    rtt_ms: float | None = None


class Overlays:
    """The overlays of one gateway.

    Args:
        identity: what this gateway stands for election with in the common tree.
        parameters: timers and margins, of every overlay.
        settings: see there.
        now: monotonic time in seconds, as in every event.
        seals: see `OverlayContext`.

    """

    def __init__(
        self,
        identity: Identity,
        parameters: Parameters,
        settings: Settings,
        now: float,
        seals: Seals | None = None,
    ) -> None:
        self.identity = identity
        self.parameters = parameters
        self.settings = settings
        self.counters: Counter[str] = Counter()
        """Counts of what was discarded, ignored or left to the routed way, by reason."""
        self.plan = NO_PLAN
        self.instances: dict[bytes, Instance] = {}
        """The overlays that this gateway is in."""
        self._audiences = Audiences()
        self._told_links: dict[str, tuple[AudienceMembers, bool]] = {}
        self._links: dict[int, _Link] = {}
        self._actions: list[OverlayAction] = []
        self._began_s = now
        self._step_s = parameters.hello_s / STEPS_IN_HELLO
        self._lives = 0
        numbers = itertools.count(1)
        self._shared = OverlayContext(numbers, self.counters, seals)
        self._states: dict[bytes, tuple[str, str | None, frozenset[int]]] = {}

    # -- events --------------------------------------------------------------------------------

    def records_changed(self, records: Mapping[str, Interest], now: float) -> None:
        """Take in what all gateways, this one included, tell of themselves."""
        own_id = self.identity.gateway_id
        links = {i: (record.neighbours, record.transit) for i, record in records.items()}
        if not self._audiences.take(records) and links == self._told_links:
            return
        self._told_links = links
        most = self.settings.max_overlays
        self.plan = plan = Plan.of(self._audiences, records, own_id, most)
        own = {name: m for name, m in plan.overlays.items() if own_id in m}
        for name in sorted(self.instances.keys() - own.keys()):
            self._end(name)
        new = {name: m for name, m in own.items() if name not in self.instances}
        if new:
            self._begin(new, records, now)
        self._settle("records")

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Note a link to an authenticated neighbour."""
        self._links[link] = _Link(peer_id)
        for instance in self.instances.values():
            if peer_id in instance.members:
                instance.link_up(link, peer_id, None, now)
        self._settle(f"link to {peer_id} up")

    def link_down(self, link: int, now: float) -> None:
        """Note that a link ended."""
        gone = self._links.pop(link, None)
        if gone is not None:
            for instance in self.instances.values():
                instance.link_down(link, now)
            self._settle(f"link to {gone.peer_id} down")

    def measured(self, link: int, rtt_ms: float, now: float) -> None:
        """Take in the smoothed round-trip time of a link; a small change changes nothing.

        Raises:
            ValueError: it is negative or not finite.

        """
        state = self._links.get(link)
        if state is None:
            return
        known_ms = state.rtt_ms
        if known_ms is None or abs(rtt_ms - known_ms) > RTT_STEP * known_ms:
            state.rtt_ms = rtt_ms
            for instance in self.instances.values():
                instance.measured(link, rtt_ms, now)
            self._settle(f"round trip to {state.peer_id}")

    def receive(self, link: int, message: bytes, now: float) -> None:
        """Take in what a neighbour says about overlays.

        Raises:
            ProtocolError: it is no such message, or a BPDU in it is none.

        """
        state = self._links.get(link)
        if state is None:
            self.counters["overlay_unknown_link"] += 1
            return
        for item in overlay_wire.decode(message):
            instance = self.instances.get(item.overlay)
            if instance is None:
                self.counters["overlay_unknown"] += 1
            else:
                instance.receive(link, item, now)
        self._settle(f"news of {state.peer_id}")

    def handle_timer(self, now: float) -> None:
        """Do what is due. Calling it early does no harm."""
        for instance in self.instances.values():
            at = self._due(instance)
            if now >= at:
                # The nominal time: lateness of one instant must not tear the next ones apart.
                instance.handle_timer(at if now - at < self._step_s else now)
        self._settle("timer")

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        return min((self._due(i) for i in self.instances.values()), default=math.inf)

    def take_actions(self) -> list[OverlayAction]:
        """Return what to do now, in this order; the caller does it before the next event."""
        actions, self._actions = self._actions, []
        return actions

    # -- the way of a message ------------------------------------------------------------------

    def way(self, topic: str) -> OverlayWay | None:
        """Return how a message of a local client goes now; None is the routed way."""
        name = self.plan.overlay_of(topic)
        instance = None if name is None else self.instances.get(name)
        if instance is None or instance.way is None:
            self.counters["routed_instead"] += 1
            return None
        return instance.way

    def hops(self, topic: str) -> frozenset[int] | None:
        """Return the links over which a message of a local client goes now; None is the routed
        way."""
        way = self.way(topic)
        return None if way is None else way.links

    def onward(self, overlay: bytes, link: int) -> frozenset[int] | None:
        """Return the links over which a batch goes on that came by ``link`` in an overlay.

        None if it is to be discarded: this gateway is not in the overlay, or the overlay does not
        forward over that link. It is counted.
        """
        instance = self.instances.get(overlay)
        if instance is None or link not in instance.forwarding:
            self.counters["overlay_discarded"] += 1
            return None
        return instance.forwarding - {link}

    # -- queries -------------------------------------------------------------------------------

    @property
    def rooted(self) -> int:
        """Overlays of which this gateway is the root."""
        return sum(i.is_root for i in self.instances.values() if i.forwarding)

    def snapshots(self) -> list[OverlaySnapshot]:
        """Return the overlays that this gateway is in, for status."""
        return [
            OverlaySnapshot(
                name,
                tuple(sorted(instance.members)),
                self.plan.topics.get(name, 0),
                instance.tree.root_id,
                instance.parent_id,
                instance.tree.cost_ms,
                instance.forwarding,
                instance.way is not None,
            )
            for name, instance in sorted(self.instances.items())
        ]

    # -- within --------------------------------------------------------------------------------

    def _begin(
        self, new: Mapping[bytes, AudienceMembers], records: Mapping[str, Interest], now: float
    ) -> None:
        identity, settings = self.identity, self.settings
        stand = dict.fromkeys(new, identity.capability)
        if settings.policy is RootPolicy.BALANCE:
            stand = standings(new, records, identity.gateway_id, settings.weights)
        for name, members in sorted(new.items()):
            epoch = self._next_epoch()
            if epoch is None:
                self.counters["overlay_epochs_used_up"] += 1
                continue
            self.instances[name] = instance = Instance(
                name,
                members,
                replace(identity, boot_epoch=epoch, capability=stand[name]),
                self.parameters,
                now,
                self._shared,
            )
            for link, state in self._links.items():
                if state.peer_id in members:
                    instance.link_up(link, state.peer_id, state.rtt_ms, now)

    def _end(self, name: bytes) -> None:
        instance = self.instances.pop(name)
        instance.close()
        self._send(instance.take_said())
        self._states.pop(name, None)
        self._actions.append(OverlayChanged(f"overlay {name.hex()} ended"))

    def reseal(self, identity: Identity) -> None:
        """This gateway signs with another key now, as its part in the common tree says."""
        self.identity = identity
        for instance in self.instances.values():
            instance.reseal()

    def _next_epoch(self) -> int | None:
        epoch = (self.identity.boot_epoch << LIVES_BITS) + self._lives
        if epoch > MAX_EPOCH or self._lives >= 1 << LIVES_BITS:
            return None
        self._lives += 1
        return epoch

    def _due(self, instance: Instance) -> float:
        """Return when an overlay's timer is due: settled ones share the steps of a hello."""
        at = instance.next_timer()
        if instance.way is None or at == math.inf:
            return at
        steps = math.ceil((at - self._began_s) / self._step_s - 1e-6)
        steps += steps % STEPS_IN_HELLO != 0
        return max(at, self._began_s + steps * self._step_s)

    def _settle(self, why: str) -> None:
        """Pass on what the overlays have to say, and tell what changed."""
        self._send([said for i in self.instances.values() for said in i.take_said()])
        for name, instance in self.instances.items():
            state = instance.tree.root_id, instance.parent_id, instance.forwarding
            if self._states.get(name) != state:
                self._states[name] = state
                self._actions.append(
                    OverlayChanged(f"overlay {name.hex()}: {why}: {instance.tree}")
                )

    def _send(self, said: Iterable[tuple[int, Item]]) -> None:
        by_link: dict[int, list[Item]] = {}
        for link, item in said:
            if link in self._links:
                by_link.setdefault(link, []).append(item)
        for link, items in by_link.items():
            self._actions += [Say(link, message) for message in overlay_wire.encode(items)]
