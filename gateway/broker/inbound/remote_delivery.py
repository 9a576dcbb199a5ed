"""Arrival of other gateways' messages at local subscribers: a batch at a time, topic by topic.

Messages that follow each other on a topic and are plain (not retained, without properties) share
their route, and QoS 0 ones their packet's head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.durability.persistence import Persistence
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.local_distribution import LocalDistribution
from gateway.broker.outbound.message import EXPIRY, HandedOnMessage, Message
from gateway.broker.outbound.routes import Routes
from gateway.broker.retained.retention import Retention
from gateway.mqtt import PacketError
from tree_handler.batch import Entry, Epoch, Ref, Row
from tree_handler.entry import accepted_us
from tree_handler.holders import SharedGroup

EXPIRED: Final = "message of another gateway that expired on its way"
_RETAIN_BIT: Final = 4
_by_topic = itemgetter(0)
CLOSED: Final = "message of another gateway on a topic that is nobody's to publish to"
HAD_BEFORE: Final = "message of QoS 2 that came back, for a session that has had it"


class RemoteDelivery:
    """Gives local subscribers what comes from elsewhere.

    Args:
        routes: where topics go.
        delivery: hands over QoS 0 messages of one topic.
        distribution: gives out any other message.
        retention: counts the version of a message that has expired on its way.
        durability: remembers what was given out.
        refusals: is told of messages that no packet can carry.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        routes: Routes,
        delivery: Delivery,
        distribution: LocalDistribution,
        retention: Retention,
        durability: Persistence,
        refusals: CountedLines,
        now: Callable[[], float],
    ) -> None:
        self._routes = routes
        self._delivery = delivery
        self._distribution = distribution
        self._retention = retention
        self._durability = durability
        self._refusals = refusals
        self._now = now

    def publish(self, entries: Iterable[Entry]) -> None:
        """Give local subscribers what no log has (plugins)."""
        now_s = self._now()
        for entry in entries:
            self._publish_one(entry, "", None, now_s, now_s)

    def publish_batch(self, rows: Sequence[Row], stream: Epoch, last: int) -> Sequence[Row]:
        """Give local subscribers the messages of a batch; return those that never came before.

        Args:
            rows: messages that follow each other in the log of their origin.
            stream: the origin and its epoch.
            last: the number of the last one; 0 for QoS 0 messages.

        """
        now_s = self._now()
        if last:
            # After a restart a gap may be given up once more, and what is behind it come again.
            had = self._durability.delivered(stream) - (last - len(rows))
            new = rows[max(0, had) :]
            if stream in self._durability.lacking.streams:
                self._publish_lacking(rows, stream, last - len(rows) + 1, now_s)
                return new
            if not (rows := new):
                return rows
            self._durability.has_delivered(stream, last)
        number = last - len(rows) + 1
        for topic, of_topic in groupby(rows, _by_topic):
            some = list(of_topic)
            if topic[:1] == "$":
                self._refusals.count(CLOSED, f"{stream[0]}: {topic[:80]!r}", len(some))
            elif any(len(row) > 3 or row[1] & _RETAIN_BIT for row in some):
                since_s, stamp_us = now_s, 0
                for at, row in enumerate(some, number):
                    entry = Entry.of(row)
                    if entry.accepted_us != stamp_us:  # its time began there [MQTT-3.3.2-6]
                        stamp_us = entry.accepted_us
                        since_s = now_s - self._durability.waited_s(stream, stamp_us)
                    ref = (stream, at) if last else None
                    self._publish_one(entry, stream[0], ref, since_s, now_s)
            else:
                self._publish_plain(topic, some, (stream, number if last else 0), now_s)
            number += len(some)
        return rows

    def take_over(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        """Give a member of a shared subscription what another gateway handed on.

        Args:
            entry: the message.
            group: the shared subscription.
            hops: how often it was handed on, with this time.

        Returns:
            Whether a member may have it.

        """
        now_s = self._now()
        try:
            message = HandedOnMessage.of(entry, now_s)
            message.hops = hops
            return self._distribution.give_to_member(message, group, now_s)
        except PacketError as error:
            self._no_packet(error)
            return True

    def _publish_lacking(
        self, rows: Sequence[Row], stream: Epoch, first: int, now_s: float
    ) -> None:
        """Give local subscribers what they have not had of a stream of which the log lost some."""
        durability = self._durability
        lacking, mark = durability.lacking, durability.delivered(stream)
        for begin, end in list(lacking.due(stream, first, first + len(rows) - 1, mark)):
            durability.has_delivered(stream, max(mark, end))
            lacking.found(stream, begin, end)
            for number in range(begin, end + 1):
                if rows[number - first][0][:1] == "$":
                    continue
                entry, ref = Entry.of(rows[number - first]), (stream, number)
                since_s = now_s - durability.waited_s(stream, entry.accepted_us)
                if entry.qos == 2 and (had := lacking.had(stream, number)):
                    self._publish_but(entry, ref, had, since_s, now_s)
                else:
                    self._publish_one(entry, stream[0], ref, since_s, now_s)

    def _publish_but(
        self, entry: Entry, ref: Ref, had: set[int], since_s: float, now_s: float
    ) -> None:
        try:
            message = Message.of(entry, since_s)
            message.ref, message.sharing = ref, (ref[0][0], entry.holders)
            if message.expired(now_s):
                self._publish_one(entry, ref[0][0], ref, since_s, now_s)
            elif count := self._distribution.give_out_but(message, had, now_s):
                self._refusals.count(HAD_BEFORE, f"{ref[0][0]}, boot {ref[0][1]}", count)
        except PacketError as error:
            self._no_packet(error)

    def in_time(self, rows: Sequence[Row], stream: Epoch) -> Sequence[Row]:
        """Return the messages of a batch that have not expired on their way: what acts on a message
        must not act on an old one."""
        if not any(len(row) > 3 and EXPIRY in row[3] for row in rows):
            return rows
        return [row for row in rows if not self._has_expired(row, stream)]

    def _has_expired(self, row: Row, stream: Epoch) -> bool:
        expiry_s = row[3].get(EXPIRY) if len(row) > 3 else None
        if not isinstance(expiry_s, int):
            return False
        return self._durability.waited_s(stream, accepted_us(row)) >= expiry_s

    def _publish_one(
        self, entry: Entry, origin: str, ref: Ref | None, since_s: float, now_s: float
    ) -> None:
        try:
            message = Message.of(entry, since_s)
            message.ref, message.sharing = ref, (origin, entry.holders)
            if not message.expired(now_s):
                self._distribution.give_out(message, None, now_s)
                return
            self._refusals.count(EXPIRED, f"on {entry.topic[:80]!r}")
            if message.retain:  # its version counts
                self._retention.retain(message)
        except PacketError as error:
            self._no_packet(error)

    def _publish_plain(self, topic: str, rows: Sequence[Row], first: Ref, now_s: float) -> None:
        key = topic.encode()
        try:
            route = self._routes.of(key)
        except PacketError as error:
            for _ in rows:
                self._no_packet(error)
            return
        stream, number = first
        if not (number or route.special or route.shared):
            self._delivery.deliver_plain(route, [row[2] for row in rows])
        elif route.has_receivers:
            sharing = stream[0], ()
            for at, (_, qos, payload) in enumerate(rows, number):
                message = Message(topic, key, payload, qos, False)
                message.sharing = sharing
                if number:
                    message.ref = stream, at
                self._delivery.deliver(message, route, None, now_s)

    def _no_packet(self, error: PacketError) -> None:
        self._refusals.count("message of the tree that no packet can carry", str(error))
