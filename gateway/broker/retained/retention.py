"""Retention of one message on each topic, decided by versions as on every other gateway.

A message that a client publishes with RETAIN is given a stamp where it is accepted, and carries it
in its batch; with the origin that is its version (`tree_handler.retained.hybrid_clock`). The newest
version of a topic is retained, in whatever order versions come. An older one is a message like any
other: subscribers get it, and what is retained stays. A deletion leaves a tombstone.

What a plugin retains has no version: it stays on this gateway, and gives way to what has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from gateway.base import wall_clock
from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.durability.persistence import Persistence
from gateway.broker.hooks import Owner
from gateway.broker.limits import Limits
from gateway.broker.outbound.message import LearntMessage, Message
from gateway.broker.retained.messages import RetainedLimitError, RetainedMessages
from gateway.trust.policy.origins import OriginRules
from gateway.trust.shares.origin_topics import OriginTopics
from gateway.trust.shares.user_topics import UserTopics
from tree_handler.retained.hybrid_clock import EARLIEST_US, HybridClock, RetainedVersion
from tree_handler.retained.left_to_log import PUT_OFF_MAX
from tree_handler.retained.message import VERSION
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import RetainedVersions


class Retention:
    """The retained messages of one broker, as versions.

    Args:
        limits: how many and how long.
        durability: keeps them over a crash.
        refusals: is told what was not retained.
        now: the loop's clock, in seconds.
        origins: decides what of whom may be retained; None for all.

    Attributes:
        clock: gives stamps.
        versions: the version of each topic.
        shares: which user has how much of what is retained.
        deleted: which user's deletions are remembered.
        by_gateways: by way of which gateway how much of it came.
        older: messages that came behind a newer one of their topic.
        without_room: messages that were not retained for a limit.

    """

    def __init__(
        self,
        limits: Limits,
        durability: Persistence,
        refusals: CountedLines,
        now: Callable[[], float],
        origins: OriginRules | None = None,
    ) -> None:
        self._origins = origins
        self.clock = HybridClock()
        self.older = self.without_room = 0
        self._durability = durability
        self._refusals = refusals
        self.now = now
        self._messages: RetainedMessages[Message] = RetainedMessages(
            lambda m: m.size_bytes + len(m.proof), limits.retained_messages, limits.retained_bytes
        )
        self._statistics: RetainedMessages[Message] = RetainedMessages(lambda m: m.size_bytes)
        """The broker's own, ``$SYS``."""
        own_id = durability.own[0]
        most, most_of_one = limits.retained_tombstones, limits.retained_tombstones_per_gateway
        self.versions = RetainedVersions(limits.retained_tombstone_s, most, own_id, most_of_one)
        most, most_bytes = limits.retained_messages_per_user, limits.retained_bytes_per_user
        self.shares = UserTopics("retained messages", most, most_bytes)
        self.deleted = UserTopics("deletions", limits.retained_tombstones_per_user)
        most, most_bytes = limits.retained_messages_per_gateway, limits.retained_bytes_per_gateway
        self.by_gateways = OriginTopics(most, most_bytes)
        self._put_off: dict[str, RetainedVersion] = {}
        """The versions that a neighbour told and subscribers were not given."""
        self._given: dict[RetainedVersion, None] = {}
        """The versions that subscribers were given as retained and that are not."""

    def __len__(self) -> int:
        """Topics with a retained message; statistics are not counted."""
        return len(self._messages)

    @property
    def bytes_held(self) -> int:
        """Their memory."""
        return self._messages.bytes_held

    def get(self, topic: str) -> Message | None:
        """Return the message retained on a topic, if there is one."""
        return self._messages.get(topic)

    def match(self, topic_filter: str) -> Iterator[tuple[str, Message]]:
        """Yield what is retained on the topics that a filter matches."""
        kept = self._statistics if topic_filter.startswith("$SYS") else self._messages
        return kept.match(topic_filter, self.now())

    def payloads(self, filters: Iterable[str]) -> dict[str, bytes]:
        """Return the payloads that are retained on the topics that filters match, by topic."""
        return {topic: kept.payload for one in filters for topic, kept in self.match(one)}

    def kept_on(self, topic: str) -> tuple[bytes, float] | None:
        """Return what is retained on a topic, and the seconds since a gateway accepted it.

        These are 0 where they are not known: it has no version, or one of a clock that was wrong.
        """
        message = self._messages.get(topic)
        if message is None or message.expired(self.now()):
            return None
        now_us, since_us = wall_clock.now_us(), message.properties.get(VERSION, (0, 0))[0]
        is_known = EARLIEST_US < since_us < now_us
        return message.payload, (now_us - since_us) / 1e6 if is_known else 0.0

    def walk(self, topic_filter: str, most: int) -> Iterator[tuple[str, Message] | None]:
        """Yield the same one by one, at most so many; see `RetainedMessages.walk`."""
        kept = self._statistics if topic_filter.startswith("$SYS") else self._messages
        return kept.walk(topic_filter, self.now(), most)

    def retain_statistic(self, message: Message) -> None:
        """Keep one of the broker's own; it has no version and stays here."""
        self._statistics.set(message.topic, message)

    # -- messages ------------------------------------------------------------------------------

    def stamp(self, message: Message) -> None:
        """Give a message that this gateway accepts its version, if it has none yet."""
        if VERSION not in message.properties:
            stamp = self.clock.stamp(wall_clock.now_us(), self.versions.stamp(message.topic))
            message.properties = {**message.properties, VERSION: tuple(stamp)}

    def why_full(self, owner: Owner, topic: str, size_bytes: int) -> str:
        """Say why a client here may not have a message retained; return nothing if it may.

        What is retained it may always delete. Who has deleted too much has nothing new retained:
        that would be the next to be deleted.

        Args:
            owner: whose client it is.
            topic: on which it publishes.
            size_bytes: of the message; 0 if it is to delete what is retained.

        """
        before = self._whose(topic)
        if before is None and (why_full := self.deleted.why_full(owner, topic, 0)):
            return why_full
        if not size_bytes:
            return ""
        of_user = self.shares.why_full(owner, topic, size_bytes)
        return of_user or self.by_gateways.why_full(self._durability.own[0], size_bytes, before)

    def retain(
        self, message: Message, owner: Owner | None = None, *, is_again: bool = False
    ) -> bool:
        """Keep a message as its topic's retained one if it is the newest, and return whether it is.

        An empty one ends what is retained [MQTT-3.3.1-6].

        Args:
            message: with RETAIN.
            owner: whose client published it here; None for all others.
            is_again: it was retained before this start, so no gateway's share bounds it.

        """
        version = self._version(message)
        if version is None:
            return self._retain_here(message, owner)
        if not self.may_speak(version.origin, message.topic):
            return self._only_given(message, version)
        self.clock.observe(version.stamp, wall_clock.now_us())
        topic = message.topic
        if version >= self._put_off.get(topic, version):
            self._put_off.pop(topic, None)  # the log has brought it, or a newer one
        if not self.versions.is_news(topic, version):
            self.older += version != self.versions.version(topic)
            return False
        if not message.payload:
            now_s = self.now()
            grave = Tombstone(version, number_of(message), message.qos, now_s)
            self._delete(topic)
            if self.versions.bury(topic, grave, now_s, message.proof):
                self.deleted.keep(owner, topic, 0)
        elif self._keep(message, owner, is_again=is_again):
            self.versions.set(topic, version, message.proof)
            self.deleted.release(topic)
        else:
            return self._only_given(message, version)
        self._changed(topic)
        return True

    def was_given(self, version: RetainedVersion) -> bool:
        """Return whether subscribers had a version that was not retained: it is no news."""
        return version in self._given

    def _only_given(self, message: Message, version: RetainedVersion) -> bool:
        """Note a message that is delivered and not retained; it is not."""
        if not isinstance(message, LearntMessage):
            self._given[version] = None
            if len(self._given) > PUT_OFF_MAX:
                del self._given[next(iter(self._given))]
        return False

    def may_speak(self, origin: str, topic: str) -> bool:
        """Return whether what a gateway published there may be retained.

        One that may not is counted.
        """
        may = self._origins is None or self._origins.may_speak(origin, topic)
        if not may:
            who = f"{topic[:80]!r} came into the tree by {origin}"
            self._refusals.count("message not retained: not that gateway's topic", who)
        return may

    def placed(self, message: Message) -> None:
        """A message that was retained before the log had it has its number now."""
        grave = self.versions.tombstone(message.topic)
        if grave is not None and grave.version == self._version(message):
            grave = Tombstone(grave.version, number_of(message), grave.qos, grave.since_s)
            self.versions.replace(message.topic, grave)
        if self.versions.version(message.topic) is not None:  # else it was not retained
            self._changed(message.topic)

    def bury(self, topic: str, grave: Tombstone, proof: bytes = b"") -> None:
        """A topic's message was deleted or has expired, as a checkpoint or a neighbour says."""
        origin = grave.version.origin
        if self.versions.is_news(topic, grave.version) and self.may_speak(origin, topic):
            self.clock.observe(grave.version.stamp, wall_clock.now_us())
            self._delete(topic)
            self.deleted.release(topic)
            self.versions.bury(topic, grave, self.now(), proof)
            self._changed(topic)

    def put_off(self, topic: str, version: RetainedVersion) -> None:
        """Subscribers were not given this version: it may come through the log, as news."""
        self._put_off[topic] = version
        if len(self._put_off) > PUT_OFF_MAX:
            del self._put_off[next(iter(self._put_off))]

    def take_put_off(self, topic: str) -> RetainedVersion | None:
        """Return the version of a topic that was put off; None if none is. It is so no longer."""
        return self._put_off.pop(topic, None)

    def expire(self, now_s: float) -> None:
        """Let go of messages and tombstones whose time is over; to be called again and again."""
        for topic, m in self._messages.expire(now_s):
            self.shares.release(topic)
            self.by_gateways.release(self._origin_of(m), m.size_bytes)
            self.versions.expired(topic, now_s, (number_of(m), m.qos, m.payload, m.properties))
            self._changed(topic)
        early = self.versions.dropped_early
        for topic in self.versions.expire(now_s):
            self.deleted.release(topic)
            self._changed(topic)
        if times := self.versions.dropped_early - early:
            kind = "tombstone of a retained message dropped early"
            self._refusals.count(kind, "retained messages", times)

    def _version(self, message: Message) -> RetainedVersion | None:
        """Return a message's version; None for one that stays here."""
        stamp = message.properties.get(VERSION)
        if message.ref is None:
            own = self._durability.own
            return None if stamp is None else RetainedVersion(stamp[0], stamp[1], *own)
        stream, number = message.ref
        if stamp is None:  # of a log from before there were stamps: older than all that have one
            return RetainedVersion(0, number, *stream)
        return RetainedVersion(stamp[0], stamp[1], *stream)

    def _retain_here(self, message: Message, owner: Owner | None) -> bool:
        topic = message.topic
        if self.versions.is_live(topic):
            return False
        return self._keep(message, owner) if message.payload else self._delete(topic)

    def _delete(self, topic: str) -> bool:
        self.shares.release(topic)
        if (before := self._whose(topic)) is not None:
            self.by_gateways.release(*before)
        return self._messages.delete(topic)

    def _origin_of(self, message: Message) -> str:
        return self._durability.own[0] if message.ref is None else message.ref[0][0]

    def _whose(self, topic: str) -> tuple[str, int] | None:
        """By way of which gateway a topic's message came, and its size."""
        found = self._messages.get(topic)
        return None if found is None else (self._origin_of(found), found.size_bytes)

    def _keep(self, message: Message, owner: Owner | None, *, is_again: bool = False) -> bool:
        expires_at_s = math.inf if message.expires_at_s is None else message.expires_at_s
        before, by, origin = self._whose(message.topic), self.by_gateways, self._origin_of(message)
        why_full = by.why_full(origin, message.size_bytes, before)
        if why_full and not is_again:
            self.without_room += 1
            where = f"{message.topic[:80]!r} came into the tree by {origin}"
            self._refusals.count(f"message not retained: {why_full}", where)
            return False
        try:
            self._messages.set(message.topic, message, expires_at_s)
        except RetainedLimitError as error:
            self.without_room += 1
            self._refusals.count("message not retained", str(error))
            return False
        if before is not None:
            by.release(*before)
        by.keep(origin, message.size_bytes)
        self.shares.keep(owner, message.topic, message.size_bytes)
        return True

    def _changed(self, topic: str) -> None:
        self._durability.retained_changed(topic)


def number_of(message: Message) -> int:
    """Return a message's number in its stream; 0 for one that no log has yet."""
    return 0 if message.ref is None else message.ref[1]
