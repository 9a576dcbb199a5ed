"""The publishing side of one client's connection: what it is answered, and what it may still send.

The exchange of a QoS 2 message from a client (section 4.3.3): its identifier is in
`Session.incoming` from its PUBLISH until its PUBREL; a PUBLISH in between is the same message
again [MQTT-4.3.3-10].
"""

from __future__ import annotations

from gateway.broker.inbound.aliases import IncomingAliases
from gateway.broker.inbound.authorization_cache import AuthorizationCache
from gateway.broker.inbound.read_gate import ReadGate
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.channel import Channel
from gateway.broker.outbound.message import DUP
from gateway.broker.sessions.session import Session
from gateway.mqtt import V5, V311, PacketError, PubAck, PubRec, ReasonCode, encode


class Publisher:
    """One client as a publisher.

    Args:
        channel: its connection.
        session: its session.
        waiting: what its packets wait for.
        limits: of what it may have on its way.

    Attributes:
        owner: whose client it is.
        permitted: what was decided on topics.
        aliases: the topic aliases that it has set.
        has_made_room: it has acknowledged something since its session last looked what waits.

    """

    __slots__ = (
        "_receive_maximum",
        "_unacknowledged",
        "aliases",
        "channel",
        "has_made_room",
        "owner",
        "permitted",
        "session",
        "version",
        "waiting",
    )

    def __init__(
        self, channel: Channel, session: Session, waiting: ReadGate, limits: Limits
    ) -> None:
        self.channel = channel
        self.session = session
        self.owner = session.client.owner
        self.waiting = waiting
        self.version = channel.version
        self.permitted = AuthorizationCache(limits.decided_topics)
        self.aliases = IncomingAliases(limits.topic_aliases)
        self.has_made_room = False
        self._receive_maximum = limits.receive_maximum
        self._unacknowledged = 0
        """QoS 1 and 2 messages of a 5.0 client that are on their way."""

    def begins(self, first: int, packet_id: int, budget: Budget) -> bool:
        """A QoS 1 or 2 message has come.

        Args:
            first: the first byte of its PUBLISH.
            packet_id: its identifier.
            budget: says how many of QoS 2 may be unreleased.

        Returns:
            Whether it is new; if not, it is a QoS 2 message that came again.

        Raises:
            PacketError: more messages are on their way than were allowed, or not released.

        """
        incoming, is_again = self.session.incoming, bool(first & DUP)
        is_qos_2 = first & 4 != 0
        if self.version != V311 and not (
            is_qos_2 and incoming.is_known(packet_id, is_again=is_again)
        ):
            self._unacknowledged += 1
            if self._unacknowledged > self._receive_maximum:
                raise PacketError(
                    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                    "messages on their way",
                    self._unacknowledged,
                    "MQTT-3.3.4-7",
                )
        if not is_qos_2:
            return True
        return incoming.begin(packet_id, budget.unreleased_max, is_again=is_again)

    def acknowledge(self, qos: int, packet_id: int) -> None:
        """A message is in the log, or was one that this client may not publish: PUBACK, PUBREC."""
        channel = self.channel
        if channel.is_closing:
            return
        if qos == 1:
            if self.version != V311:
                self._unacknowledged -= 1
            channel.send(b"\x40\x02" + packet_id.to_bytes(2, "big"))
        else:
            channel.send(b"\x50\x02" + packet_id.to_bytes(2, "big"))

    def refuse(self, qos: int, packet_id: int, reason: int) -> None:
        """A message is not accepted: tell a 5.0 client why, close the connection of another.

        MQTT 3.1.1 can't say so; its client sends again when it comes back [MQTT-3.3.5-2].
        """
        if self.channel.is_closing:
            return
        if self.version == V311:
            self.channel.close(may_leave=False)
            return
        self._is_settled()
        kind = PubAck if qos == 1 else PubRec
        self.channel.send(encode(kind(packet_id, reason), V5))

    def release(self, packet_id: int) -> None:
        """PUBREL: the exchange of a QoS 2 message is complete [MQTT-4.3.3-11].

        Raises:
            PacketError: the identifier is 0.

        """
        if not packet_id:
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "PUBREL packet identifier", 0, "MQTT-2.2.1-3"
            )
        number = packet_id.to_bytes(2, "big")
        if self.session.incoming.release(packet_id):
            if self.version != V311:
                self._is_settled()
        elif self.version != V311:
            self.channel.send(b"\x70\x03%b\x92" % number)  # packet identifier not found
            return
        self.channel.send(b"\x70\x02" + number)

    def _is_settled(self) -> None:
        self._unacknowledged = max(0, self._unacknowledged - 1)

    def __str__(self) -> str:
        return str(self.session)
