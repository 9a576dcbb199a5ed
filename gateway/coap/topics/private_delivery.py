"""Messages for one client alone, which no log has and no other subscriber gets."""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.hooks import Client
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Grant
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from tree_handler.routing.topic_filters import matches


class PrivateDelivery:
    """Gives them.

    Args:
        sessions: those of all clients.
        delivery: gives a message to a session.
        may_deliver: whether a session's client may receive a topic.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        sessions: Sessions,
        delivery: Delivery,
        may_deliver: Callable[[Session, str], bool],
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._delivery = delivery
        self._may_deliver = may_deliver
        self._now = now

    def may_read(self, client: Client, topic: str) -> bool:
        """Return whether a connected client may receive a topic now; no topic of ``$``.

        Not while a decision takes time.
        """
        session = self._session(client)
        if session is None or topic[:1] == "$":
            return False
        return self._may_deliver(session, topic)

    def grant(self, client: Client, topic: str) -> Grant | None:
        """Return how its own subscriptions have a client receive a topic; None if none matches."""
        session = self._session(client)
        if session is None:
            return None
        found = [one for f, one in session.subscriptions.items() if matches(f, topic)]
        return Grant.of(found) if found else None

    def give(self, client: Client, message: Message, grant: Grant) -> None:
        """Give a message to a client; nobody gets it if its connection is gone.

        A session that outlives its connection gets it at QoS 0: its queue stands in the log, which
        has nothing of this.
        """
        session = self._session(client)
        if session is None:
            return
        if session.record is not None:
            grant = Grant(0, grant.retain_as_published, grant.identifiers)
        self._delivery.give(session, message, grant, self._now())

    def _session(self, client: Client) -> Session | None:
        session = self._sessions.get(client.client_id)
        if session is None or session.channel is None or session.client is not client:
            return None
        return session
