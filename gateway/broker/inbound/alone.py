"""Packets that came alone in their reads: those of a turn are dealt with together.

A client with one message in flight never sends more than one packet at a time, and of such clients
there are hundreds. What is the same for all of their packets is looked up once, and none pays for
being one of a run: a QoS 1 or 2 PUBLISH without anything special and acknowledgements are handled
here, all else where a connection handles what it reads, in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.inbound.acknowledgements import ACKNOWLEDGEMENTS
from gateway.broker.inbound.runs import PUBACK, PUBREC, Alone
from gateway.broker.outbound.message import Message
from gateway.broker.statistics.traffic import ACKNOWLEDGEMENT_BYTES
from gateway.mqtt import PacketError, Version

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.server import BrokerCore
    from gateway.broker.sessions.session import Session

ALONE_BYTES = 1_024
"""What is longer costs more than what is saved here."""

QOS_1_AND_2 = frozenset((0x32, 0x34))
"""First bytes of a PUBLISH that is to be acknowledged."""
OFTEN_ALONE = QOS_1_AND_2 | ACKNOWLEDGEMENTS

_V311 = int(Version.V311)


def read(  # noqa: PLR0915  # a call for each packet would cost more
    core: BrokerCore, reads: Iterable[tuple[Connection, bytes]]
) -> None:
    """Handle what was read, in its order; each of at least four bytes, of a client's session."""
    now_s = core.now()
    acceptance, find_route = core.acceptance, core.routes.get
    packet_bytes, payload_bytes = core.limits.packet_bytes, core.limits.payload_bytes
    unreleased_max = core.upkeep.unreleased_max
    ones = twos = size_bytes = acknowledgements = 0
    together: list[Alone] | None = None
    for connection, data in reads:
        if connection.is_closing or connection.chunks or connection.verdict:
            together = None
            connection.handle(data)
            continue
        session, end = connection.session, len(data)
        assert session is not None
        connection.heard_at_s = now_s
        try:
            first = data[0]
            if end == ACKNOWLEDGEMENT_BYTES and data[1] == 2 and first in ACKNOWLEDGEMENTS:
                connection.acknowledged(first, data[2] << 8 | data[3])
                acknowledgements += 1
                if session.is_busy:
                    connection.send_waiting()
                continue
            body = _behind_length(data, end, packet_bytes)
            topic_end = body + 2 + (data[body] << 8 | data[body + 1])
            route = find_route(data[body + 2 : topic_end])
            publishing, version = connection.publishing, connection.version
            permitted = publishing.permitted
            payload_at = topic_end + (2 if version == _V311 else 3)
            if (
                not body
                or first not in QOS_1_AND_2
                or route is None
                or route.closed
                or not (permitted is None or permitted.get(route.topic))
                or not payload_at <= end <= payload_at + payload_bytes
                or not (data[topic_end] or data[topic_end + 1])
                or (version != _V311 and data[topic_end + 2])
                or (first == 0x34 and not _may_begin(session, data, topic_end, unreleased_max))
            ):
                together = None
                connection.handle(data)
                continue
            if version != _V311:
                publishing.count_unacknowledged()
        except PacketError as error:
            together = None
            connection.fail(error)
            continue
        size_bytes += end
        topic, payload, number = route.topic, data[payload_at:], data[topic_end : topic_end + 2]
        if first == 0x32:
            ones += 1
            qos, answer = 1, PUBACK + number
        else:
            twos += 1
            qos, answer = 2, PUBREC + number
            session.incoming.add(number[0] << 8 | number[1])
        head, tail, kind = data[:topic_end], data[topic_end + 2 :], version << 4 | qos << 1
        message = Message.as_it_came(topic, route.key, payload, kind, head, tail)
        if together is None:
            together, add_row = acceptance.begin_together(), acceptance.rows.append
        together.append((connection, session, message, answer))
        add_row((topic, qos, payload))
    core.traffic.read_alone(ones, twos, size_bytes, acknowledgements)


def deliver(core: BrokerCore, together: Sequence[Alone], now_s: float) -> None:
    """Hand messages that the log has to their subscribers, and acknowledge them."""
    find_route, deliver_to = core.routes.get, core.delivery.deliver
    for connection, publisher, message, answer in together:
        route = find_route(message.key) or core.route(message.key)
        deliver_to(message, route, publisher, now_s)
        connection.answer_alone(answer)


def _may_begin(session: Session, data: bytes, at: int, unreleased_max: int) -> bool:
    """Whether a QoS 2 message is not there already, and not one too many."""
    incoming = session.incoming
    return data[at] << 8 | data[at + 1] not in incoming and len(incoming) < unreleased_max


def _behind_length(data: bytes, size: int, limit: int) -> int:
    """What stands behind the length of a packet that is all that was read; 0 if it is not."""
    length = data[1]
    if length < 128:
        return 2 if length == size - 2 else 0
    return 3 if length & 127 | data[2] << 7 == size - 3 and 130 < size <= limit else 0
