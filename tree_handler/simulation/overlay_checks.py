"""The invariants of every overlay, checked from outside (tree-protocol, invariants 1, 2, 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Protocol

from tree_handler.overlays import wire as overlay_wire
from tree_handler.overlays.audience import AudienceMembers, Audiences
from tree_handler.overlays.overlays import Overlays
from tree_handler.overlays.plan import Plan
from tree_handler.overlays.policy import RootPolicy
from tree_handler.routing.interest import Interest
from tree_handler.simulation.checks import Checks, component
from tree_handler.simulation.network import EdgeConnection, End
from tree_handler.spanning.bpdu import Bpdu, Kind


class OverlayHost(Protocol):
    """A gateway with overlays, as the checks see it."""

    gateway_id: str
    ends: dict[int, End]
    overlays: Overlays

    @property
    def records(self) -> Mapping[str, Interest]:
        """Return the records of all gateways that it knows."""


class OverlayChecks:
    """Checks invariant 1 of each overlay at every instant at which a link joins it.

    Args:
        checks: notes what does not hold.

    """

    def __init__(self, checks: Checks) -> None:
        self.spoken: Counter[str] = Counter()
        """Messages about overlays, their bytes, greetings, and BPDUs in them by kind."""
        self.largest = 0
        """Overlays that one gateway was in at once, at most."""
        self.begun = 0
        """Times that a link joined an overlay."""
        self._checks = checks
        self._seen: dict[tuple[str, int, bytes], Set[int]] = {}

    @property
    def changes(self) -> int:
        """Return how many greetings and BPDUs other than HELLO overlays have sent."""
        kinds = sum(self.spoken[kind.name] for kind in Kind if kind is not Kind.HELLO)
        return self.spoken["greetings"] + kinds

    def said(self, message: bytes) -> None:
        """Count a message."""
        self.spoken["messages"] += 1
        self.spoken["bytes"] += len(message)
        for item in overlay_wire.decode(message):
            if not item.bpdus:
                self.spoken["greetings"] += 1
            for bpdu in item.bpdus:
                self.spoken[Bpdu.decode(bpdu).kind.name] += 1

    def look_at(self, gateway_id: str, ends: Mapping[int, End], overlays: Overlays) -> None:
        """Look for rings that the links close over which this gateway has begun to forward."""
        instances = overlays.instances
        self.largest = max(self.largest, len(instances))
        for name, instance in instances.items():
            key = gateway_id, instance.tree.identity.boot_epoch, name
            before = self._seen.get(key, frozenset())
            if instance.forwarding != before:
                self._seen[key] = instance.forwarding
                for link in sorted(instance.forwarding - before):
                    self.begun += 1
                    end = ends.get(link)
                    if end is not None and _live(end.connection, name):
                        self._check_ring(end.connection, name)

    def _check_ring(self, closed: EdgeConnection, name: bytes) -> None:
        first, second = [end.host for end in closed.ends]
        paths = {first: [first.gateway_id]}
        front = [first]
        while front:
            at = front.pop()
            for end in at.ends.values():
                other = end.peer.host
                if end.connection is closed or other in paths or not _live(end.connection, name):
                    continue
                paths[other] = [*paths[at], other.gateway_id]
                front.append(other)
        if second in paths:
            ring = " - ".join(paths[second])
            self._checks.found(1, f"live ring {ring} in overlay {name.hex()}")

    # -- after quiet ---------------------------------------------------------------------------

    def check_settled(self, gateways: Mapping[str, OverlayHost]) -> None:
        """Check that every overlay there should be is one tree with the right root, and used."""
        records = {i: gateways[i].records[i] for i in gateways}
        audiences = Audiences.from_records(records)
        plans = {
            i: Plan.of(audiences, records, i, gateway.overlays.settings.max_overlays)
            for i, gateway in sorted(gateways.items())
        }
        for gateway_id, right in plans.items():
            gateway = gateways[gateway_id]
            if gateway.overlays.plan.overlays != right.overlays:
                self._checks.found(2, f"{gateway_id} plans other overlays than follow from all")
            own = {name for name, members in right.overlays.items() if gateway_id in members}
            if gateway.overlays.instances.keys() != own:
                self._checks.found(2, f"{gateway_id} runs other overlays than it is in")
            for name in sorted(own):
                self._check_tree(gateway, name, right.overlays[name], gateways)
            self._check_ways(gateway, gateways, right)

    def _check_tree(
        self,
        gateway: OverlayHost,
        name: bytes,
        members: AudienceMembers,
        gateways: Mapping[str, OverlayHost],
    ) -> None:
        found, what = self._checks.found, f"overlay {name.hex()}"
        instances = {
            i: gateways[i].overlays.instances[name]
            for i in members
            if name in gateways[i].overlays.instances
        }
        if len(instances) < len(members):
            found(2, f"not all members run {what}")
            return
        candidates = [i.tree.identity for i in instances.values() if i.tree.identity.transit]
        root = min(candidates, key=lambda identity: identity.root.precedence).gateway_id
        here = instances[gateway.gateway_id]
        own = gateway.overlays
        if own.settings.policy is RootPolicy.CAPACITY:
            right = replace(here.tree.identity, boot_epoch=own.identity.boot_epoch)
            if right != own.identity:
                found(2, f"{gateway.gateway_id} stands as {right} in {what}")
        if here.tree.root_id != root:
            found(2, f"{gateway.gateway_id} follows {here.tree.root_id}, not {root} in {what}")
        if here.way is None:
            found(2, f"{gateway.gateway_id} does not use {what}")
        live = _live_neighbours(gateways, name)
        if component(gateway.gateway_id, lambda i: live.get(i, ())) != members:
            found(2, f"{gateway.gateway_id} does not reach all of {what}")

    def _check_ways(
        self,
        gateway: OverlayHost,
        gateways: Mapping[str, OverlayHost],
        plan: Plan,
    ) -> None:
        """Send a message of each topic over its overlay: each member must get it once."""
        record = gateway.records[gateway.gateway_id]
        for topic in sorted(record.publishes):
            name = plan.overlay_of(topic)
            way = gateway.overlays.way(topic)
            if (None if way is None else way.overlay) != name:
                self._checks.found(2, f"{gateway.gateway_id} sends {topic} another way: {way}")
            if way is None:
                continue
            got = Counter([gateway.gateway_id])
            under_way = [gateway.ends[link].peer for link in way.links]
            while under_way and got.total() <= len(way.members):
                end = under_way.pop()
                host = gateways[end.host.gateway_id]
                got[host.gateway_id] += 1
                onward = host.overlays.onward(way.overlay, end.link)
                under_way += [host.ends[link].peer for link in onward or ()]
            if got != Counter(way.members):
                self._checks.found(3, f"{topic} of {gateway.gateway_id} reached {dict(got)}")

    def check_quiet(
        self, spoken: Counter[str], gateways: Mapping[str, OverlayHost], intervals: int
    ) -> None:
        """Check invariant 7 on what was ``spoken`` in so many hello intervals of stillness."""
        others = [kind.name for kind in Kind if kind is not Kind.HELLO and spoken[kind.name]]
        if others or spoken["greetings"]:
            self._checks.found(7, f"still overlays sent {others or 'greetings'}")
        most = 0
        for gateway in gateways.values():
            for instance in gateway.overlays.instances.values():
                peers = [end.peer.host.gateway_id for end in gateway.ends.values()]
                most += sum(peer in instance.members for peer in peers) * (intervals + 1)
        if spoken["HELLO"] > most:
            self._checks.found(7, f"{spoken['HELLO']} overlay HELLOs, at most {most} are due")


def _live(connection: EdgeConnection, name: bytes) -> bool:
    """Return whether messages of an overlay pass: both ends are open and forward them."""
    return not connection.broken and all(
        end.open and end.host.alive and end.link in _forwarding(end.host, name)
        for end in connection.ends
    )


def _forwarding(host: object, name: bytes) -> Iterable[int]:
    overlays: Overlays | None = getattr(host, "overlays", None)
    instance = None if overlays is None else overlays.instances.get(name)
    return frozenset() if instance is None else instance.forwarding


def _live_neighbours(gateways: Mapping[str, OverlayHost], name: bytes) -> dict[str, set[str]]:
    return {
        i: {e.peer.host.gateway_id for e in g.ends.values() if _live(e.connection, name)}
        for i, g in gateways.items()
    }
