"""The overlays and their members: a pure function of the gateways' records (C5).

A topic's members are the gateways that advertise it and those with a subscription that matches
it. Topics with the same members share one overlay, which is named by its members, so gateways
with the same records find the same overlays and nobody hands them out. While their records
differ they may run different overlays; but one name always means one set of members.

Left to the routed way are: what nobody publishes or subscribes, what concerns one gateway
only, members that aren't connected by links among themselves (a link counts if both ends tell
it), and overlays beyond the limit.

Who isn't in reach is in no overlay: a record outlives its gateway. Nothing passes a leaf, so a leaf
can stand at the edge of several networks that don't reach each other. The overlays of each are
planned by themselves, and so its gateways and the leaf find the same ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Set

from light_dataclasses import dataclass
from tree_handler.overlays.audience import Audience, AudienceMembers, Audiences
from tree_handler.routing.interest import Interest

ID_BYTES = 8
"""Length of an overlay's name."""
MAX_CACHED_TOPICS = 10_000
"""Topics whose overlay is remembered; beyond it all are looked up again."""


def overlay_id(members: AudienceMembers) -> bytes:
    """Return the name of the overlay of these members."""
    return hashlib.blake2s("\0".join(sorted(members)).encode(), digest_size=ID_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Plan:
    """The overlays that follow from one set of records.

    Attributes:
        overlays: the members of each overlay that is used, by its id.
        topics: how many advertised topics each one carries.
        disconnected: sets of members without enough links among themselves.
        over_limit: overlays left out because there would be too many.

    """

    overlays: Mapping[bytes, AudienceMembers]
    topics: Mapping[bytes, int]
    disconnected: int
    over_limit: int
    _audiences: Audiences
    _networks: tuple[AudienceMembers, ...]
    _ids: Mapping[AudienceMembers, bytes]
    _cache: dict[str, bytes | None]

    @classmethod
    def of(
        cls,
        audiences: Audiences,
        records: Mapping[str, Interest],
        own_id: str,
        max_overlays: int,
    ) -> Plan:
        """Work the plan out.

        Args:
            audiences: that follow from ``records``; the plan holds until they change.
            records: of all gateways, by id.
            own_id: whoever has no way of told links to this gateway is left out.
            max_overlays: beyond so many in a network, those with the highest ids are left out on
                all its gateways alike; so a new one displaces one other at most.

        """
        links = _told_by_both(records)
        networks = _networks_of(own_id, links, records)
        topics: Counter[AudienceMembers] = Counter()
        used, chosen = 0, dict[bytes, AudienceMembers]()
        for network in networks:
            here = _topics_by_members(audiences, network)
            topics.update(here)
            named = {overlay_id(m): m for m in here if _connected(m, links, records)}
            used += len(named)
            chosen.update(sorted(named.items())[:max_overlays])
        return cls(
            chosen,
            {name: topics[members] for name, members in chosen.items()},
            len(topics) - used,
            used - len(chosen),
            audiences,
            networks,
            {members: name for name, members in chosen.items()},
            {},
        )

    def overlay_of(self, topic: str) -> bytes | None:
        """Return the overlay that carries a topic, None if it goes the routed way.

        A leaf between networks uses the overlay of the largest one that has one for the topic.
        """
        cache = self._cache
        try:
            return cache[topic]
        except KeyError:
            pass
        if len(cache) >= MAX_CACHED_TOPICS:
            cache.clear()
        audience = self._audiences.of(topic)
        names = (self._ids.get(_members(audience, network)) for network in self._networks)
        found = cache[topic] = next((name for name in names if name is not None), None)
        return found


def _topics_by_members(audiences: Audiences, network: AudienceMembers) -> Counter[AudienceMembers]:
    """Count the topics that somebody of a network advertises, by who of it they concern."""
    topics: Counter[AudienceMembers] = Counter()
    for audience, count in audiences.topics.items():
        if audience.advertisers & network:
            members = _members(audience, network)
            if len(members) > 1:
                topics[members] += count
    return topics


def _members(audience: Audience, network: AudienceMembers) -> AudienceMembers:
    """Return the members of a topic's overlay: nobody if nobody in reach wants it."""
    subscribers = audience.subscribers & network
    return subscribers | (audience.advertisers & network) if subscribers else frozenset()


NO_PLAN = Plan({}, {}, 0, 0, Audiences(), (), {}, {})
"""Of a gateway that knows of nobody."""


def _networks_of(
    own_id: str, links: Mapping[str, Set[str]], records: Mapping[str, Interest]
) -> tuple[AudienceMembers, ...]:
    """Return the networks that a gateway is in, the largest first; a leaf can be in several."""
    own = records.get(own_id)
    inside = {own_id} if own is None or own.transit else links[own_id]
    networks: set[AudienceMembers] = set()
    for gateway_id in inside:
        record = records.get(gateway_id)
        if record is not None and record.transit:
            networks.add(frozenset(_reach(gateway_id, links, records)))
    return tuple(sorted(networks, key=lambda network: (-len(network), min(network))))


def _told_by_both(records: Mapping[str, Interest]) -> dict[str, set[str]]:
    return {
        i: {n for n in record.neighbours if n in records and i in records[n].neighbours}
        for i, record in records.items()
    }


def _reach(start: str, links: Mapping[str, Set[str]], records: Mapping[str, Interest]) -> set[str]:
    """Return all that can be reached from one that is no leaf without passing a leaf, itself
    included."""
    seen, front = {start}, [start]
    while front:
        at = front.pop()
        if records[at].transit:
            new = links[at] - seen
            seen |= new
            front += new
    return seen


def _connected(
    members: AudienceMembers, links: Mapping[str, Set[str]], records: Mapping[str, Interest]
) -> bool:
    """Return whether links among the members join them all, without passing a leaf."""
    transit = next((i for i in members if records[i].transit), None)
    if transit is None:
        return False
    among = {i: links[i] & members for i in members}
    return len(_reach(transit, among, records)) == len(members)
