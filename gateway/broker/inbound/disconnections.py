"""Departures of clients: at their own wish, or because the broker ends their connection."""

from __future__ import annotations

from gateway.broker.durability.persistence import Persistence
from gateway.broker.inbound.commit_queue import CommitQueue
from gateway.broker.inbound.reasons import with_reason
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from gateway.mqtt import Disconnect, PacketError, PropertyId, ReasonCode, Version
from gateway.mqtt.reason_codes import reason_text


class Disconnections:
    """Ends clients' connections.

    Args:
        sessions: those of all clients.
        commit_queue: what a client published before is acknowledged first.
        durability: says what may be written before the end.

    """

    def __init__(
        self, sessions: Sessions, commit_queue: CommitQueue, durability: Persistence
    ) -> None:
        self._sessions = sessions
        self._commit_queue = commit_queue
        self._durability = durability

    def disconnect(
        self,
        session: Session,
        reason: int,
        why: str = "",
        *,
        linger: bool = False,
        publishes_will: bool = True,
    ) -> None:
        """End a client's connection, in 5.0 after a DISCONNECT [MQTT-4.13.2-1].

        Args:
            session: the client's; nothing happens if it has no connection. One that is being
                closed already is told no more, and is the session's no longer.
            reason: the reason code.
            why: for whoever looks after the client.
            linger: let the client close first, see `Channel.close`.
            publishes_will: whether the client's will is due.

        """
        channel = session.channel
        if channel is None:
            return
        told = f"{reason_text(reason)}: {why}" if why else reason_text(reason)
        if channel.is_closing:
            # It has had its last packet, and still has it to read. Who comes meanwhile takes over.
            self._sessions.left(session, told, publishes_will=publishes_will)
            return
        self._commit_queue.commit()  # what it published before is acknowledged, if that can be now
        farewell = b""
        if channel.version == Version.V5:
            farewell = with_reason(Disconnect(reason), why, channel.packet_bytes_max)
        may_leave = self._durability.may_leave(channel)
        channel.close(farewell, may_leave=may_leave, linger=linger)
        self._sessions.left(session, told, publishes_will=publishes_will)

    def leave(self, session: Session, packet: Disconnect) -> None:
        """The client leaves: its will is not published, unless it says so (section 3.14.2.1).

        Raises:
            PacketError: it sets an expiry though its session was to end with the connection.

        """
        expiry_s = packet.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL)
        if expiry_s is not None:
            if expiry_s and not session.expiry_s:  # section 3.14.2.2.2
                what = "session expiry set at the end"
                raise PacketError(ReasonCode.PROTOCOL_ERROR, what, expiry_s)
            self._sessions.set_expiry(session, expiry_s)
        channel = session.channel
        if channel is not None:
            channel.close(may_leave=self._durability.may_leave(channel))
        publishes_will = packet.reason == ReasonCode.DISCONNECT_WITH_WILL_MESSAGE
        why = f"by itself ({reason_text(packet.reason)})" if packet.reason else "by itself"
        self._sessions.left(session, why, publishes_will=publishes_will)  # [MQTT-3.14.4-3]
