"""What other gateways accepted comes to local subscribers: a batch at a time, topic by topic.

Messages that follow each other on a topic and are plain (not retained, without properties) share
their route, and QoS 0 ones their packet's head.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from gateway.broker.outbound.message import Message
from gateway.mqtt import PacketError, Version, publish_head
from tree_handler.batch import Entry, Epoch, Row

if TYPE_CHECKING:
    from gateway.broker.server import BrokerCore

_RETAIN_BIT = 4
_V311 = Version.V311 << 4
_by_topic = itemgetter(0)


def publish(core: BrokerCore, rows: Sequence[Row], key: Epoch, last: int) -> None:
    """Give local subscribers the messages of a batch.

    Args:
        core: the broker.
        rows: messages that follow each other in the log of their origin.
        key: the origin and its epoch.
        last: the number of the last one; 0 for QoS 0 messages.

    """
    now_s = core.now()
    if last and core.durable is not None:
        # After a restart a gap may be given up once more, and what is behind it handed out again.
        had = core.durable.journal.delivered.get(key, 0) - (last - len(rows))
        rows = rows[max(0, had) :]
        if not rows:
            return
        core.durable.journal.has_delivered(key, last)
    number = last - len(rows) + 1
    for topic, of_topic in groupby(rows, _by_topic):
        some = list(of_topic)
        # What is logged without being retained is of QoS 1 or 2.
        if any(len(row) > 3 or row[1] & _RETAIN_BIT or (last and not row[1]) for row in some):
            for at, row in enumerate(some, number):
                core.publish_one(Entry.of(row), (key, at) if last else None, now_s)
        else:
            _publish_plain(core, topic, some, (key, number if last else 0), now_s)
        number += len(some)
    core.turns.has_read()


def _publish_plain(
    core: BrokerCore, topic: str, rows: list[Row], first: tuple[Epoch, int], now_s: float
) -> None:
    encoded = topic.encode()
    try:
        route = core.routes.get(encoded) or core.route(encoded)
    except PacketError as error:
        for _ in rows:
            core.refused("message of the tree that no packet can carry", str(error))
        return
    epoch, number = first
    if not number:
        core.delivery.deliver_plain(route, [row[2] for row in rows], now_s)
        return
    if not (route.queued or route.zero_311 or route.zero_5 or route.special or route.shared):
        return
    heads: dict[tuple[int, int], bytes] = {}
    messages = []
    for at, (_, qos, payload) in enumerate(rows, number):
        like = qos, len(payload)
        head = heads.get(like)
        if head is None:
            id_bytes = 2 if qos else 0
            head = heads[like] = publish_head(qos << 1, encoded, id_bytes + len(payload))
        message = Message.as_it_came(topic, encoded, payload, _V311 | qos << 1, head, payload)
        message.ref = epoch, at
        messages.append(message)
    core.delivery.deliver_all(messages, route, None, now_s)
