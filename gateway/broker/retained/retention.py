"""Which message is retained on each topic, decided by versions as on every other gateway.

A message that a client publishes with RETAIN is given a stamp where it is accepted, and carries it
in its batch; with the origin that is its version (`tree_handler.retained.hybrid_clock`). The newest
version of a topic is retained, in whatever order versions come. An older one is a message like any
other: subscribers get it, and what is retained stays. A deletion leaves a tombstone.

What a plugin retains has no version: it stays on this gateway, and gives way to what has one.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from gateway.broker.limits import Limits
from gateway.broker.outbound.message import Message
from gateway.broker.retained.messages import RetainedLimitError
from gateway.mqtt import PacketError
from tree_handler.batch import Entry, Epoch
from tree_handler.retained.hybrid_clock import HybridClock, Version
from tree_handler.retained.message import VERSION, Retained
from tree_handler.retained.sync import PUT_OFF_MAX
from tree_handler.retained.versions import RetainedVersions, Tombstone

if TYPE_CHECKING:
    from gateway.broker.server import BrokerCore


class Retention:
    """The retained messages of one broker, as versions. It is a `tree_handler.retained.sync.Store`.

    Args:
        core: the broker, whose `retained` has the messages.

    Attributes:
        own: the gateway's id and boot epoch.
        clock: gives stamps.
        older: messages that came behind a newer one of their topic.

    """

    def __init__(self, core: BrokerCore) -> None:
        limits: Limits = core.limits
        self.own: Epoch = ("", 0)
        self.clock = HybridClock()
        self.older = 0
        self._core = core
        self._silent: dict[str, Version] = {}
        """What a neighbour told that subscribers were not given."""
        self._versions = RetainedVersions(limits.retained_tombstone_s, limits.retained_tombstones)

    @property
    def versions(self) -> RetainedVersions:
        """The version of each topic."""
        return self._versions

    # -- messages ------------------------------------------------------------------------------

    def stamp(self, message: Message) -> None:
        """Give a message that this gateway accepts its version, if it has none yet."""
        if VERSION not in message.properties:
            after = self._versions.stamp(message.topic)
            stamp = self.clock.stamp(time.time_ns() // 1000, after)
            message.properties = {**message.properties, VERSION: tuple(stamp)}

    def retain(self, message: Message) -> bool:
        """Keep a message as its topic's retained one if it is the newest; whether it is.

        An empty one ends what is retained [MQTT-3.3.1-6].
        """
        version = self._version(message)
        if version is None:
            return self._retain_here(message)
        self.clock.observe(version.stamp, time.time_ns() // 1000)
        topic = message.topic
        if version >= self._silent.get(topic, version):
            self._silent.pop(topic, None)  # the log has brought it, or a newer one
        if not self._versions.is_news(topic, version):
            self.older += version != self._versions.version(topic)
            return False
        if not message.payload:
            now_s = self._core.now()
            grave = Tombstone(version, _number(message), message.qos, now_s)
            self._core.retained.delete(topic)
            self._versions.bury(topic, grave, now_s)
        elif self._keep(message):
            self._versions.set(topic, version)
        else:
            return False
        self._changed(topic)
        return True

    def placed(self, message: Message) -> None:
        """A message that was retained before the log had it has its number now."""
        grave = self._versions.tombstone(message.topic)
        if grave is not None and grave.version == self._version(message):
            grave = Tombstone(grave.version, _number(message), grave.qos, grave.since_s)
            self._versions.replace(message.topic, grave)

    def bury(self, topic: str, grave: Tombstone) -> None:
        """A topic's message was deleted or has expired, as a checkpoint or a neighbour says."""
        if self._versions.is_news(topic, grave.version):
            self.clock.observe(grave.version.stamp, time.time_ns() // 1000)
            self._core.retained.delete(topic)
            self._versions.bury(topic, grave, self._core.now())
            self._changed(topic)

    def expire(self, now_s: float) -> None:
        """Let go of messages and tombstones whose time is over; to be called again and again."""
        for topic in self._core.retained.expire(now_s):
            self._versions.expired(topic, now_s)
            self._changed(topic)
        early = self._versions.dropped_early
        for topic in self._versions.expire(now_s):
            self._changed(topic)
        if early < self._versions.dropped_early:
            times = self._versions.dropped_early - early
            kind = "tombstone of a retained message dropped early"
            self._core.refusals.count(kind, "retained messages", now_s, times)

    def _version(self, message: Message) -> Version | None:
        """A message's version; None for one that stays here."""
        stamp = message.properties.get(VERSION)
        if message.ref is None:
            return None if stamp is None else Version(stamp[0], stamp[1], *self.own)
        stream, number = message.ref
        if stamp is None:  # of a log from before there were stamps: older than all that have one
            return Version(0, number, *stream)
        return Version(stamp[0], stamp[1], *stream)

    def _retain_here(self, message: Message) -> bool:
        topic = message.topic
        if self._versions.is_live(topic):
            return False
        if message.payload:
            return self._keep(message)
        return self._core.retained.delete(topic)

    def _keep(self, message: Message) -> bool:
        expires_at_s = math.inf if message.expires_at_s is None else message.expires_at_s
        try:
            self._core.retained.set(message.topic, message, expires_at_s)
        except RetainedLimitError as error:
            self._core.refused("message not retained", str(error))
            return False
        return True

    def _changed(self, topic: str) -> None:
        if self._core.durable is not None:
            self._core.durable.retained_changed(topic)

    # -- neighbours ----------------------------------------------------------------------------

    def told(self, topic: str, now: float) -> Retained | None:
        """What a neighbour is told of a topic; None if there is nothing that it could use."""
        grave = self._versions.tombstone(topic)
        if grave is not None:
            if not grave.number and grave.qos is not None:
                return None  # the log has not got the deletion yet, and may refuse it
            where = grave.version, grave.number
            return Retained(topic, *where, grave.qos, b"", {}, None, now - grave.since_s)
        message = self._core.retained.get(topic)
        version = self._versions.version(topic)
        if message is None or version is None or message.ref is None or message.expired(now):
            return None
        left_s = None if message.expires_at_s is None else message.expires_at_s - now
        properties = {i: value for i, value in message.properties.items() if i != VERSION}
        where = version, _number(message)
        return Retained(topic, *where, message.qos, message.payload, properties, left_s)

    def learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        """Take what a neighbour told; see `tree_handler.retained.sync.Store`."""
        core, topic = self._core, retained.topic
        if core.durable is not None and core.durable.is_refused:
            return False
        try:
            message = message_of(retained, now)
            route = core.route(message.key)
        except PacketError as error:
            core.refused("retained message of a neighbour", str(error))
            return False
        had = core.retained.get(topic) is not None
        if retained.qos is None or retained.dead_s is not None:
            self.bury(topic, grave_of(retained, now))
        elif not self.retain(message):
            return False
        if self._versions.version(topic) != retained.version:
            return False
        is_news = is_news and retained.qos is not None and (bool(message.payload) or had)
        if core.durable is not None:
            core.durable.retained_learnt(retained, is_news=is_news)
        if is_news:
            core.delivery.deliver(message, route, None, now)
            if message.qos:
                core.owing.replaced(topic)
        elif retained.qos is not None and (message.payload or had):
            self._silent[topic] = retained.version
            if len(self._silent) > PUT_OFF_MAX:
                del self._silent[next(iter(self._silent))]
        core.turns.kick()
        return True

    def announce(self, topic: str, now: float) -> None:
        """Give subscribers what they were not given; see `tree_handler.retained.sync.Store`."""
        core = self._core
        version = self._silent.pop(topic, None)
        told = None if version is None else self.told(topic, now)
        if told is None or told.version != version:
            return
        if core.durable is not None:
            core.durable.retained_learnt(told, is_news=True)
        message = message_of(told, now)
        core.delivery.deliver(message, core.route(message.key), None, now)
        core.turns.kick()


def message_of(retained: Retained, now_s: float) -> Message:
    """The message that a neighbour told of.

    Raises:
        PacketError: no packet can carry it.

    """
    version = retained.version
    properties = {**retained.properties, VERSION: (version.physical_us, version.logical)}
    entry = Entry(retained.topic, retained.payload, retained.qos or 0, True, properties)
    message = Message.of(entry, now_s)
    message.ref = (retained.stream, retained.number)
    if message.expires_at_s is not None and retained.left_s is not None:
        message.expires_at_s = min(message.expires_at_s, now_s + retained.left_s)
    return message


def grave_of(retained: Retained, now_s: float) -> Tombstone:
    """The tombstone that a neighbour told of."""
    since_s = now_s - (retained.dead_s or 0.0)
    return Tombstone(retained.version, retained.number, retained.qos, since_s)


def _number(message: Message) -> int:
    """A message's number in its stream; 0 for one that no log has yet."""
    return 0 if message.ref is None else message.ref[1]
