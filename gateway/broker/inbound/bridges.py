"""Another broker's bridge (Mosquitto's, with the bridge bit) as a client of this one: a leaf.

It is authenticated and held to the rules as any client. What sets it apart: it gets none of its
own messages back, whatever it subscribes to, and messages keep their RETAIN flag, as if it had
asked for No Local and Retain As Published, which MQTT 3.1.1 can't say (5.0, section 3.8.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.sessions.session import Session
    from gateway.mqtt import Will

ROLE = "bridge"
"""What a certificate must say that a bridge shows."""
_NOTIFICATIONS = "$SYS/broker/connection/"


def why_no_bridge(connection: Connection) -> str:
    """Why a connection may not be another broker's bridge; nothing if it may."""
    certificate = connection.certificate
    if connection.is_bridge and certificate is not None and ROLE not in certificate.roles:
        return f"the bridge bit without the role {ROLE}"
    return ""


def is_notification(connection: Connection, will: Will) -> bool:
    """Whether a will is what a bridge says of its own connection: it is left out, not refused."""
    return connection.is_bridge and will.topic.startswith(_NOTIFICATIONS)


class RetainedByBridges:
    """Which retained messages came from which bridge: a new subscription would echo them.

    What came before the process started is not known, and sent.

    Args:
        topics_max: so many are remembered, the newest.

    """

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._by: dict[str, str] = {}
        """Client identifiers by topic."""

    def retained(self, topic: str, publisher: Session | None) -> None:
        """A topic's retained message has changed."""
        self._by.pop(topic, None)
        connection = None if publisher is None else publisher.connection
        if publisher is not None and connection is not None and connection.is_bridge:
            self._by[topic] = publisher.client_id
            if len(self._by) > self._topics_max:
                del self._by[next(iter(self._by))]

    def is_own(self, topic: str, session: Session) -> bool:
        """Whether a session's own client sent what is retained there, through a bridge."""
        return bool(self._by) and self._by.get(topic) == session.client_id
