"""Wills: what is published when a client goes without saying so (section 3.1.2.5)."""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.durability.durability import Durability
from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.session import Session
from gateway.mqtt import PropertyId, Will


def delay_s(will: Will) -> int:
    """How long it waits for the client to come back (section 3.1.3.2.2)."""
    return int(will.properties.get(PropertyId.WILL_DELAY_INTERVAL, 0))


def size_bytes(will: Will) -> int:
    """What it counts for against the limit on all wills."""
    return len(will.topic) + len(will.payload)


def message_of(will: Will, now_s: float) -> Message:
    """The message to publish now; its expiry counts from now on (section 3.1.3.2.4)."""
    properties = dict(will.properties)
    properties.pop(PropertyId.WILL_DELAY_INTERVAL, None)
    return Message(
        *(will.topic, will.topic.encode(), will.payload, will.qos, will.retain),
        properties,
        now_s,
    )


class Wills:
    """The wills of all sessions: of clients that are connected, and of those that have gone.

    Args:
        acceptance: publishes them.
        durability: keeps them over a crash.
        now: the loop's clock, in seconds.

    Attributes:
        bytes_held: of all wills, as of the last `add_up` and with those that came since.

    """

    def __init__(
        self, acceptance: Acceptance, durability: Durability, now: Callable[[], float]
    ) -> None:
        self._acceptance = acceptance
        self._durability = durability
        self._now = now
        self._delayed: set[Session] = set()
        """Sessions whose client has gone, and whose will is still to be published."""
        self.bytes_held = 0

    def stands(self, session: Session, will: Will | None) -> None:
        """A client has come, with a will or without; one that it left before is void."""
        self._delayed.discard(session)
        session.will_at_s = None
        session.will = will
        if will is not None:
            self.bytes_held += size_bytes(will)
        self._durability.will_stands(session.client, will)

    def void(self, session: Session) -> None:
        """A session's will is not to be published."""
        self._delayed.discard(session)
        session.will = session.will_at_s = None
        self._durability.will_ended(session.client_id)

    def wait(self, session: Session, since_s: float) -> None:
        """A session's client has gone then: publish its will once its delay is over."""
        will = session.will
        if will is None:
            self._durability.will_ended(session.client_id)
            return
        session.will_at_s = since_s + delay_s(will)
        self._delayed.add(session)
        if not delay_s(will):
            self.publish(session)

    def publish(self, session: Session) -> None:
        """Publish the will of a session whose client has gone, if it has one."""
        self._delayed.discard(session)
        if session.will is not None and session.will_at_s is not None:
            will, session.will, session.will_at_s = session.will, None, None
            self.publish_of(session.client_id, will)

    def publish_of(self, client_id: str, will: Will) -> None:
        """Publish a will now."""
        if will.qos or will.retain:
            number = self._durability.will_published(client_id)
        else:
            number = 0
            self._durability.will_ended(client_id)
        self._acceptance.publish_own(message_of(will, self._now()), number)

    def publish_due(self, now_s: float) -> None:
        """Publish those whose delay is over."""
        for session in [s for s in self._delayed if s.will_at_s is not None]:
            if session.will_at_s is not None and session.will_at_s <= now_s:
                self.publish(session)

    def add_up(self, sessions: list[Session]) -> None:
        """Say anew how much all wills are; to be called now and then with all sessions."""
        self.bytes_held = sum(size_bytes(one.will) for one in sessions if one.will is not None)
