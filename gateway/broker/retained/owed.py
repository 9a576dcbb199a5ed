"""What is retained for a SUBSCRIBE that was answered, and has not all been sent.

A client that was told that it is subscribed is due what is retained, however often its connection
or the gateway fails meanwhile. So a session that lasts keeps what it is owed, from the first turn
that was not enough to the last message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gateway.broker.sessions.session import Session


class Wanted(NamedTuple):
    """A filter, with the QoS and the subscription identifier (0 for none) of its subscription."""

    topic_filter: str
    qos: int
    identifier: int


@dataclass(frozen=True, slots=True)
class Owed:
    """What one session is owed.

    Attributes:
        wanted: for which filters.
        given: topics that are settled: the session was given what is retained, or a newer message,
            which its subscription brought.

    """

    wanted: tuple[Wanted, ...]
    given: set[str]


class Owing:
    """The sessions of one broker that are owed anything."""

    def __init__(self) -> None:
        self._sessions: set[Session] = set()

    def owe(self, session: Session, owed: Owed) -> None:
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
