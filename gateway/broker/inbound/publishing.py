"""What a client publishes: everything that the hot loop does not do itself.

States of a client's packet identifier are in `sessions`. An acknowledgement never leaves before
the log has the message (`acceptance`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from gateway.broker.inbound.acknowledgements import answered, identifiers
from gateway.broker.inbound.aliases import IncomingAliases
from gateway.broker.inbound.runs import PUBACK, PUBREC, Run
from gateway.broker.outbound.message import RETAIN, Message
from gateway.broker.outbound.targets import Route
from gateway.mqtt import (
    PacketError,
    PacketType,
    PropertyId,
    PubAck,
    PubRec,
    ReasonCode,
    Version,
    decode_properties,
    encode,
)

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.sessions.session import Session


_V311 = int(Version.V311)


class Publishing:
    """The publishing side of one connection.

    Attributes:
        permitted: decisions by topic; None if every client may publish everywhere.
        unacknowledged: QoS 1 and 2 messages of a 5.0 client that are on their way.

    """

    __slots__ = ("_aliases", "_connection", "_core", "permitted", "unacknowledged")

    def __init__(self, connection: Connection, aliases: IncomingAliases) -> None:
        self._connection = connection
        self._core = connection.core
        self._aliases = aliases
        self.permitted: dict[str, bool] | None = None
        if self._core.hooks.permissions is not None:
            self.permitted = {}
        self.unacknowledged = 0

    def forget_decisions(self) -> None:
        """Decide anew about topics."""
        if self.permitted is not None:
            self.permitted.clear()

    # -- PUBLISH -------------------------------------------------------------------------------

    def receive_run(  # noqa: PLR0911, PLR0912  # a call for each message would cost more
        self, data: bytes, at: int, body: int, end: int
    ) -> int:
        """Handle QoS 1 or 2 PUBLISHes in a row, as long as nothing is special about them.

        Args:
            data: what was read.
            at: where the first packet begins.
            body: where its topic begins.
            end: where it ends.

        Returns:
            Where the next packet begins, which may be special; ``at`` if the first one is.

        Raises:
            PacketError: more messages are on their way than were allowed.

        """
        connection, core = self._connection, self._core
        session, acceptance, permitted = connection.session, core.acceptance, self.permitted
        assert session is not None
        find_route, limits, size = core.routes.get, core.limits, len(data)
        first, version = data[at], connection.version
        qos, kind = first >> 1 & 3, version << 4 | first & 6
        answer = PUBACK if qos == 1 else PUBREC
        behind_id = 2 if version == _V311 else 3  # with the length of no properties
        while end - body > 4:
            topic_end = body + 2 + (data[body] << 8 | data[body + 1])
            route = find_route(data[body + 2 : topic_end])
            payload_at = topic_end + behind_id
            if (
                route is None
                or route.closed
                or not (permitted is None or permitted.get(route.topic))
                or not payload_at <= end <= payload_at + limits.payload_bytes
                or not (data[topic_end] or data[topic_end + 1])
            ):
                return at
            tail = payload = data[topic_end + 2 : end]
            if qos == 2:
                packet_id = data[topic_end] << 8 | data[topic_end + 1]
                if packet_id in session.incoming:  # the same message again
                    return at
                if len(session.incoming) >= core.upkeep.unreleased_max:
                    return at
            if version != _V311:
                if tail[0]:
                    return at
                payload = tail[1:]
                self.count_unacknowledged()
            if qos == 2:
                session.incoming.add(packet_id)
            head, number = data[at:topic_end], data[topic_end : topic_end + 2]
            topic = route.topic
            message = Message(topic, route.key, payload, qos, False, None, 0.0, kind, head, tail)
            acceptance.rows.append((topic, qos, payload))
            run = acceptance.run
            if run is not None and run.connection is connection:
                run.messages.append(message)
                run.answers.append(answer + number)
            else:
                acceptance.begin(Run(connection, session, [message], [answer + number]))
            at = end
            if size - at < 2 or data[at] != first:
                return at
            length, body = data[at + 1], at + 2
            if length > 127:
                if size == body or not 0 < data[body] < 128:
                    return at
                length, body = length & 127 | data[body] << 7, body + 1
            end = body + length
            if end > size or end - at > limits.packet_bytes:
                return at
        return at

    def receive(self, data: bytes, first: int, body: int, end: int) -> bool:
        """Handle a PUBLISH; False if it must wait for a decision and be handled again.

        Raises:
            PacketError: it is malformed or breaks a limit.

        """
        if self._connection.has_had_its_turn:
            self._connection.give_way()
            return False
        key, packet_id, at = _start(data, first, body, end)
        properties: dict[int, Any] | None = None
        if self._connection.version == Version.V5:
            if at < end and not data[at]:
                at += 1
            else:
                properties, at = decode_properties(data, at, end, PacketType.PUBLISH)
                if PropertyId.SUBSCRIPTION_IDENTIFIER in properties:
                    raise PacketError(
                        ReasonCode.PROTOCOL_ERROR,
                        *("PUBLISH with a subscription identifier", None, "MQTT-3.3.4-6"),
                    )
        key = self._topic(key, properties)
        route = self._core.route(key)
        allowed = self._may_publish(route)
        if allowed is None:
            return False
        payload = data[at:end]
        if len(payload) > self._core.limits.payload_bytes:
            raise PacketError(ReasonCode.PACKET_TOO_LARGE, "payload of bytes", len(payload))
        qos = first >> 1 & 3
        now_s = self._core.now() if properties else 0.0
        message = Message(route.topic, key, payload, qos, bool(first & RETAIN), properties, now_s)
        if qos:
            self._accept(message, packet_id, allowed=allowed)
        elif not allowed:
            self._core.refused("publication to a forbidden topic", str(self._connection))
        elif message.retain:
            self._core.accept_retained(message, self._connection.session)
        else:
            self._core.pass_on(message, route, self._connection.session)
        return True

    def _topic(self, key: bytes, properties: dict[int, Any] | None) -> bytes:
        alias = properties.pop(PropertyId.TOPIC_ALIAS, None) if properties else None
        if alias is not None:
            if key and self._core.routes.get(key) is None:
                self._core.route(key)  # a topic that is none must not become an alias
            return self._aliases.topic(alias, key)
        if not key and self._connection.version == Version.V5:
            raise PacketError(ReasonCode.PROTOCOL_ERROR, "PUBLISH without topic and alias")
        return key

    def _may_publish(self, route: Route) -> bool | None:
        """Whether; None if it is not decided yet, and the client waits."""
        if route.closed:
            return False
        if self.permitted is None:
            return True
        topic = route.topic
        allowed = self.permitted.get(topic)
        if allowed is not None:
            return allowed
        session = self._connection.session
        permissions = self._core.hooks.permissions
        assert session is not None and permissions is not None
        verdict = permissions.may_publish(session.client, topic)
        if isinstance(verdict, Awaitable):
            self._connection.wait_for(verdict, lambda result: self._decided(topic, bool(result)))
            return None
        self._decided(topic, verdict)
        return verdict

    def _decided(self, topic: str, allowed: bool) -> None:
        assert self.permitted is not None
        if len(self.permitted) >= self._core.limits.decided_topics:
            self.permitted.clear()
        self.permitted[topic] = allowed

    def _accept(self, message: Message, packet_id: int, *, allowed: bool) -> None:
        connection, core = self._connection, self._core
        session = connection.session
        assert session is not None
        if message.qos == 2:
            if packet_id in session.incoming:  # the same message again [MQTT-4.3.3-10]
                core.acceptance.again(session, connection, packet_id)
                return
            packet_id = -packet_id
        if connection.version == Version.V5:
            self.count_unacknowledged()
        if not allowed:
            core.refused("publication to a forbidden topic", str(connection))
            if connection.version == Version.V5:
                self.refuse(packet_id, ReasonCode.NOT_AUTHORIZED)
                return
            # 3.1.1 can't say so: acknowledged and dropped (MQTT-3.3.5-2 of 3.1.1).
            if packet_id < 0:
                self._begin(session, -packet_id)
            number = abs(packet_id).to_bytes(2, "big")
            connection.answer([(PUBACK if packet_id > 0 else PUBREC) + number])
            return
        if packet_id < 0:
            self._begin(session, -packet_id)
        core.acceptance.add(message, session, connection, packet_id)

    def count_unacknowledged(self) -> None:
        """One more is on its way.

        Raises:
            PacketError: that is more than was allowed.

        """
        self.unacknowledged += 1
        if self.unacknowledged > self._core.limits.receive_maximum:
            raise PacketError(
                ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                *("messages on their way", self.unacknowledged, "MQTT-3.3.4-7"),
            )

    def _begin(self, session: Session, packet_id: int) -> None:
        """A QoS 2 exchange begins; a client that leaves too many open is not served.

        Raises:
            PacketError: too many are not released.

        """
        if len(session.incoming) >= self._core.upkeep.unreleased_max:
            raise PacketError(
                ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "unreleased messages", len(session.incoming)
            )
        session.incoming.add(packet_id)

    # -- acknowledgements ----------------------------------------------------------------------

    def refuse(self, packet_id: int, reason: int) -> None:
        """Tell a 5.0 client why; close the connection of a 3.1.1 client."""
        connection = self._connection
        if connection.version != Version.V5:
            connection.close()
            return
        self.unacknowledged = max(0, self.unacknowledged - 1)
        kind = PubAck if packet_id > 0 else PubRec
        connection.send(encode(kind(abs(packet_id), reason), Version.V5))

    def release(self, packet_id: int) -> None:
        """PUBREL: the exchange of a QoS 2 message is complete [MQTT-4.3.3-11]."""
        connection = self._connection
        session = connection.session
        assert session is not None
        if not packet_id:
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "PUBREL packet identifier", 0, "MQTT-2.2.1-3"
            )
        if packet_id in session.incoming:
            session.release_incoming(packet_id)
            self.unacknowledged = max(0, self.unacknowledged - 1)
        elif connection.version != _V311:
            connection.send(b"\x70\x03%b\x92" % packet_id.to_bytes(2, "big"))
            return
        connection.send(b"\x70\x02" + packet_id.to_bytes(2, "big"))

    def release_all(self, run: bytes) -> None:
        """Do as `release` does with each PUBREL of a run."""
        connection = self._connection
        session = connection.session
        assert session is not None
        incoming, packet_ids = session.incoming, identifiers(run)
        once = set(packet_ids)
        are_alike = connection.version == _V311 or (
            once <= incoming and len(once) == len(packet_ids)
        )
        if 0 in once or not are_alike:
            for packet_id in packet_ids:
                self.release(packet_id)
            return
        released = len(once & incoming)
        session.release_incoming(*once)
        self.unacknowledged = max(0, self.unacknowledged - released)
        connection.send(answered(run, 0x70), len(packet_ids))


def _start(data: bytes, first: int, body: int, end: int) -> tuple[bytes, int, int]:
    """Topic and packet identifier of a PUBLISH, and where it goes on.

    Raises:
        PacketError: the flags are wrong, or it is cut short.

    """
    qos = first >> 1 & 3
    if qos == 3:
        raise PacketError(ReasonCode.MALFORMED_PACKET, "PUBLISH QoS", 3, "MQTT-3.3.1-4")
    if first & 8 and not qos:
        raise PacketError(
            ReasonCode.MALFORMED_PACKET, "PUBLISH with DUP at QoS 0", None, "MQTT-3.3.1-2"
        )
    at = body + 2
    if at <= end:
        at += data[body] << 8 | data[body + 1]
    key = data[body + 2 : at]
    packet_id = 0
    if qos:
        at += 2
    if at > end:
        raise PacketError(ReasonCode.MALFORMED_PACKET, "PUBLISH cut short")
    if qos:
        packet_id = data[at - 2] << 8 | data[at - 1]
        if not packet_id:
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "PUBLISH packet identifier", 0, "MQTT-2.2.1-3"
            )
    return key, packet_id, at
