"""Retained messages of bridged brokers: a new subscription of theirs must not echo them."""

from __future__ import annotations

from gateway.broker.sessions.session import Session


class RetainedByBridges:
    """The topics whose retained message came from a bridge: a new subscription would echo it.

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
        if publisher is not None and publisher.client.is_bridge:
            self._by[topic] = publisher.client_id
            if len(self._by) > self._topics_max:
                del self._by[next(iter(self._by))]

    def is_own(self, topic: str, session: Session) -> bool:
        """Return whether a session's own client sent what is retained there, through a bridge."""
        return bool(self._by) and self._by.get(topic) == session.client_id
