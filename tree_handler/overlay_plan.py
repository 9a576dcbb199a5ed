"""Which overlays there are, and who is in which: a pure function of the gateways' records (C5).

A topic's members are the gateways that advertise it and those with a subscription that matches
it. Topics with the same members share one overlay, which is named by its members, so gateways
with the same records find the same overlays and nobody hands them out. While their records
differ they may run different overlays; but one name always means one set of members.

Left to the routed way are: what nobody publishes or subscribes, what concerns one gateway
only, members that aren't connected by links among themselves (a link counts if both ends tell
it), and overlays beyond the limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from tree_handler.interest import Interest
from tree_handler.topic_filters import FilterIndex

ID_BYTES = 8
"""Length of an overlay's name."""
MAX_CACHED_TOPICS = 10_000
"""Topics whose overlay is remembered; beyond it all are looked up again."""

Members = frozenset[str]


def overlay_id(members: Members) -> bytes:
    """The name of the overlay of these members."""
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

    overlays: Mapping[bytes, Members]
    topics: Mapping[bytes, int]
    disconnected: int
    over_limit: int
    _members_of: Callable[[str], Members]
    _cache: dict[str, bytes | None]

    @classmethod
    def of(cls, records: Mapping[str, Interest], own_id: str, max_overlays: int) -> Plan:
        """Work the plan out.

        Args:
            records: of all gateways, by id.
            own_id: whoever has no way of told links to this gateway is left out: a record
                outlives its gateway.
            max_overlays: beyond so many, those with the highest ids are left out on all gateways
                alike; so a new one displaces one other at most.

        """
        links = _told_by_both(records)
        within = _reach({own_id}, links, records)
        reached = [record for i, record in records.items() if i in within]
        index: FilterIndex[str] = FilterIndex()
        advertisers: dict[str, set[str]] = {}
        for record in reached:
            for topic_filter in record.subscribes:
                index.add(topic_filter, record.gateway_id)
            for topic in record.publishes:
                if not (topic.startswith("$") or "+" in topic or "#" in topic):
                    advertisers.setdefault(topic, set()).add(record.gateway_id)

        def members_of(topic: str) -> Members:
            subscribers = index.match(topic)
            return frozenset(subscribers | advertisers.get(topic, set()) if subscribers else ())

        topics: dict[bytes, int] = {}
        sets: dict[bytes, Members] = {}
        for topic in advertisers:
            members = members_of(topic)
            if len(members) > 1:
                name = overlay_id(members)
                sets[name] = members
                topics[name] = topics.get(name, 0) + 1
        used = {i: m for i, m in sorted(sets.items()) if _connected(m, links, records)}
        chosen = dict(list(used.items())[:max_overlays])
        return cls(
            chosen,
            {name: topics[name] for name in chosen},
            len(sets) - len(used),
            len(used) - len(chosen),
            members_of,
            {},
        )

    def overlay_of(self, topic: str) -> bytes | None:
        """The overlay that carries a topic, None if it goes the routed way."""
        cache = self._cache
        try:
            return cache[topic]
        except KeyError:
            pass
        if len(cache) >= MAX_CACHED_TOPICS:
            cache.clear()
        name = overlay_id(self._members_of(topic))
        found = cache[topic] = name if name in self.overlays else None
        return found


NO_PLAN = Plan({}, {}, 0, 0, lambda topic: frozenset(), {})
"""Of a gateway that knows of nobody."""


def _told_by_both(records: Mapping[str, Interest]) -> dict[str, set[str]]:
    return {
        i: {n for n in record.neighbours if n in records and i in records[n].neighbours}
        for i, record in records.items()
    }


def _reach(
    start: set[str], links: Mapping[str, Set[str]], records: Mapping[str, Interest]
) -> set[str]:
    """All that can be reached from ``start`` without passing a leaf, itself included."""
    seen, front = set(start), list(start)
    while front:
        at = front.pop()
        if at not in start and not records[at].transit:
            continue
        for other in links.get(at, ()):
            if other not in seen:
                seen.add(other)
                front.append(other)
    return seen


def _connected(
    members: Members, links: Mapping[str, Set[str]], records: Mapping[str, Interest]
) -> bool:
    """Whether links among the members join them all, without passing a leaf."""
    transit = next((i for i in members if records[i].transit), None)
    if transit is None:
        return False
    among = {i: links[i] & members for i in members}
    return len(_reach({transit}, among, records)) == len(members)
