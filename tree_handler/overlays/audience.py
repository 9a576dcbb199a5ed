"""Gateways that advertise and want each advertised topic, kept up to date by their records (C5).

A fleet can advertise thousands of topics, but they have few audiences, and a record that changes
changes few of them. So topics are looked at again only where a record says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tree_handler.routing.filter_trie import FilterTrie
from tree_handler.routing.interest import Interest
from tree_handler.routing.topic_filters import is_exact, matches

MAX_FILTERS_TO_SEARCH = 8
"""If more filters with wildcards have changed, all topics are looked at again."""

AudienceMembers = frozenset[str]
_NOBODY: AudienceMembers = frozenset()


class Audience(NamedTuple):
    """The gateways that a topic concerns.

    Attributes:
        advertisers: gateways that publish it.
        subscribers: gateways with a subscription that matches it.

    """

    advertisers: AudienceMembers
    subscribers: AudienceMembers


class Audiences:
    """The audiences of all advertised topics; what has a wildcard in it is not one."""

    def __init__(self) -> None:
        self.topics: Counter[Audience] = Counter()
        """The number of advertised topics of each audience."""
        self._records: dict[str, Interest] = {}
        self._index: FilterTrie[str, None] = FilterTrie()
        self._advertisers: dict[str, AudienceMembers] = {}
        self._audience: dict[str, Audience] = {}

    @classmethod
    def from_records(cls, records: Mapping[str, Interest]) -> Audiences:
        """Return the audiences that follow from these records."""
        audiences = cls()
        audiences.take(records)
        return audiences

    def take(self, records: Mapping[str, Interest]) -> bool:
        """Take in the records of all gateways, and return whether any topic has another audience
        now."""
        topics: set[str] = set()
        filters: set[str] = set()
        for gateway_id in self._records.keys() | records.keys():
            old, new = self._records.get(gateway_id), records.get(gateway_id)
            if old is not new:
                self._replace(gateway_id, old, new, topics, filters)
        self._records = dict(records)
        for topic in topics | self._matched_by(filters):
            self._look_at(topic)
        return bool(topics or filters)

    def of(self, topic: str) -> Audience:
        """Return the audience of a topic, advertised or not."""
        found = self._audience.get(topic)
        return found or Audience(_NOBODY, self._index.matching_keys(topic))

    def _replace(
        self,
        gateway_id: str,
        old: Interest | None,
        new: Interest | None,
        topics: set[str],
        filters: set[str],
    ) -> None:
        """Note what a gateway wants and publishes now; the topics and filters that changed."""
        wanted, wants = [_NOBODY if r is None else r.subscribes for r in (old, new)]
        for topic_filter in wanted - wants:
            self._index.delete(topic_filter, gateway_id)
        for topic_filter in wants - wanted:
            self._index.set(topic_filter, gateway_id, None)
        filters |= wanted ^ wants
        before, now = [_NOBODY if r is None else r.publishes for r in (old, new)]
        for topic in before ^ now:
            if topic[:1] != "$" and is_exact(topic):
                self._advertisers[topic] = self._advertisers.get(topic, _NOBODY) ^ {gateway_id}
                topics.add(topic)

    def _matched_by(self, filters: Iterable[str]) -> set[str]:
        """Return the advertised topics that these filters match, or more."""
        wild = [topic_filter for topic_filter in filters if not is_exact(topic_filter)]
        if len(wild) > MAX_FILTERS_TO_SEARCH:
            return set(self._advertisers)
        found = {topic for topic in filters if topic in self._advertisers}
        if wild:
            found |= {t for t in self._advertisers if any(matches(f, t) for f in wild)}
        return found

    def _look_at(self, topic: str) -> None:
        before = self._audience.pop(topic, None)
        if before is not None:
            self.topics[before] -= 1
            if not self.topics[before]:
                del self.topics[before]
        advertisers = self._advertisers[topic]
        if not advertisers:
            del self._advertisers[topic]
            return
        audience = Audience(advertisers, self._index.matching_keys(topic))
        self._audience[topic] = audience
        self.topics[audience] += 1
