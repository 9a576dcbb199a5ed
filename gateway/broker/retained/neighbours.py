"""Retained messages as neighbours tell them, and as they are told."""

from __future__ import annotations

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.turns import Turns
from gateway.broker.durability.persistence import Persistence
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import LearntMessage, Message
from gateway.broker.outbound.routes import Routes
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.retained.retention import Retention, number_of
from gateway.mqtt import PacketError
from tree_handler.batch import Entry
from tree_handler.retained.message import VERSION, Retained
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import RetainedVersions


class SharedRetention:
    """The retained messages that gateways keep alike.

    A `tree_handler.retained.sync_state.RetainedSource`.

    Args:
        retention: keeps them.
        routes: where topics go.
        delivery: gives subscribers what is news to them.
        retained_backlogs: which sessions are owed what is retained.
        durability: notes what no log has.
        refusals: is told what no packet can carry.
        turns: is told that a turn needs an end.

    """

    def __init__(
        self,
        retention: Retention,
        routes: Routes,
        delivery: Delivery,
        retained_backlogs: RetainedBacklogs,
        durability: Persistence,
        refusals: CountedLines,
        turns: Turns,
    ) -> None:
        self._retention = retention
        self._routes = routes
        self._delivery = delivery
        self._retained_backlogs = retained_backlogs
        self._durability = durability
        self._refusals = refusals
        self._turns = turns

    @property
    def versions(self) -> RetainedVersions:
        """The version of each topic."""
        return self._retention.versions

    def told(self, topic: str, now: float) -> Retained | None:
        """Return what a neighbour is told of a topic.

        None if there is nothing that it could use.
        """
        now = self._retention.now()  # the links' clock stands still while the machine sleeps
        grave = self._retention.versions.tombstone(topic)
        if grave is not None:
            if not grave.number and grave.qos is not None:
                return None  # the log has not got the deletion yet, and may refuse it
            where = grave.version, grave.number
            return Retained(topic, *where, grave.qos, b"", {}, None, now - grave.since_s)
        message = self._retention.get(topic)
        version = self._retention.versions.version(topic)
        if message is None or version is None or message.ref is None or message.expired(now):
            return None
        left_s = None if message.expires_at_s is None else message.expires_at_s - now
        properties = {i: value for i, value in message.properties.items() if i != VERSION}
        where = version, number_of(message)
        return Retained(topic, *where, message.qos, message.payload, properties, left_s)

    def may_speak(self, retained: Retained) -> bool:
        """Return whether the origin may have its message retained here."""
        return self._retention.may_speak(retained.version.origin, retained.topic)

    def learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        """Take what a neighbour told; see `tree_handler.retained.sync_state.RetainedSource`."""
        topic, retention = retained.topic, self._retention
        now = retention.now()
        if self._durability.is_refused:
            return False
        try:
            message = message_of(retained, now)
            route = self._routes.of(message.key)
        except PacketError as error:
            self._refusals.count("retained message of a neighbour", str(error))
            return False
        had = retention.get(topic) is not None
        if retained.qos is None or retained.dead_s is not None:
            retention.bury(topic, grave_of(retained, now), retained.proof)
        elif not retention.retain(message):
            return False
        if retention.versions.version(topic) != retained.version:
            return False
        is_news = is_news and retained.qos is not None and (bool(message.payload) or had)
        was_given = retention.was_given(retained.version)
        is_news = is_news and not was_given and not message.expired(now)
        self._durability.retained_learnt(retained, is_news=is_news)
        if is_news:
            self._delivery.deliver(message, route, None, now)
            if message.qos:
                self._retained_backlogs.replaced(topic)
        elif retained.qos is not None and not was_given and (message.payload or had):
            retention.put_off(topic, retained.version)
        self._turns.need()
        return True

    def announce(self, topic: str, now: float) -> None:
        """Give subscribers what they were not given.

        See `tree_handler.retained.sync_state.RetainedSource`.
        """
        version = self._retention.take_put_off(topic)
        told = None if version is None else self.told(topic, now)
        if told is None or told.version != version:
            return
        self._durability.retained_learnt(told, is_news=True)
        now = self._retention.now()
        message = message_of(told, now)
        self._delivery.deliver(message, self._routes.of(message.key), None, now)
        self._turns.need()


def message_of(retained: Retained, now_s: float) -> Message:
    """Return the message that a neighbour told of.

    Raises:
        PacketError: no packet can carry it.

    """
    properties = {**retained.properties, VERSION: tuple(retained.version.stamp)}
    qos, proof = retained.qos or 0, retained.proof
    entry = Entry(retained.topic, retained.payload, qos, True, properties, proof)
    message = LearntMessage.of(entry, now_s)
    message.ref = (retained.stream, retained.number)
    message.sharing = retained.stream[0], ()  # a member gets it from its origin's log alone
    if message.expires_at_s is not None and retained.left_s is not None:
        message.expires_at_s = min(message.expires_at_s, now_s + retained.left_s)
    return message


def grave_of(retained: Retained, now_s: float) -> Tombstone:
    """Return the tombstone that a neighbour told of."""
    since_s = now_s - (retained.dead_s or 0.0)
    return Tombstone(retained.version, retained.number, retained.qos, since_s)
