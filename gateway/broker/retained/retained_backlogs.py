"""Sessions that are owed retained messages."""

from __future__ import annotations

from gateway.broker.retained.retained_backlog import RetainedBacklog
from gateway.broker.sessions.session import Session


class RetainedBacklogs:
    """The sessions of one broker that are owed anything."""

    def __init__(self) -> None:
        self._sessions: set[Session] = set()

    def owe(self, session: Session, owed: RetainedBacklog) -> None:
        """From now on a session is owed this, and nothing else."""
        session.owed = owed
        self._sessions.add(session)

    def settled(self, session: Session) -> None:
        """A session is owed nothing any more, or is no more."""
        session.owed = None
        self._sessions.discard(session)

    def replaced(self, topic: str) -> None:
        """Another QoS 1 or 2 message is retained on a topic; subscriptions brought it."""
        for session in self._sessions:
            assert session.owed is not None
            session.owed.given.add(topic)
            if session.record is not None:
                session.record.has_changed()
