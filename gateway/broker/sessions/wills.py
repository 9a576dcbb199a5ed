"""Wills: what is published when a client goes without saying so (section 3.1.2.5)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.pauses import GrowingPause
from gateway.broker.durability.persistence import Persistence
from gateway.broker.durability.standing_wills import SavedWill
from gateway.broker.inbound.commit_queue import CommitQueue
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.due_will import DueWill
from gateway.broker.sessions.session import Session
from gateway.mqtt import PacketError, PropertyId, Will

PAUSE_S: Final = 0.5
"""So long after the log refused a will it is tried again; each time twice as long."""
PAUSE_MAX_S: Final = 30.0
REFUSED: Final = "will that the log refused; it stands, and is tried again"
REFUSED_MAX: Final = 10_000
"""So many of them are kept; beyond that the oldest are given up."""
TOO_MANY: Final = "will given up: the log refused too many"
UNFIT: Final = "will that can't be published any more: its topic is over a limit"


def delay_s(will: Will) -> int:
    """Return how long it waits for the client to come back (section 3.1.3.2.2)."""
    return int(will.properties.get(PropertyId.WILL_DELAY_INTERVAL, 0))


def size_bytes(will: Will) -> int:
    """Return what it counts for against the limit on all wills."""
    return len(will.topic) + len(will.payload)


def message_of(will: Will, now_s: float) -> Message:
    """Return the message to publish now; its expiry counts from now on (section 3.1.3.2.4)."""
    properties = dict(will.properties)
    properties.pop(PropertyId.WILL_DELAY_INTERVAL, None)
    return Message(
        will.topic,
        will.topic.encode(),
        will.payload,
        will.qos,
        will.retain,
        properties,
        now_s,
    )


class Wills:
    """The wills of all sessions: of clients that are connected, and of those that have gone.

    One that the log refuses stands, and is tried again: nobody else will publish it.

    Args:
        commit_queue: publishes them.
        durability: keeps them over a crash.
        refusals: is told of those that could not be published.
        now: the loop's clock, in seconds.

    Attributes:
        bytes_held: of all wills, as of the last `add_up` and with those that came since.

    """

    def __init__(
        self,
        commit_queue: CommitQueue,
        durability: Persistence,
        refusals: CountedLines,
        now: Callable[[], float],
    ) -> None:
        self._refusals = refusals
        self._commit_queue = commit_queue
        self._durability = durability
        self._now = now
        self._delayed: set[Session] = set()
        """Sessions whose client has gone, and whose will is still to be published."""
        self._refused: deque[DueWill] = deque()
        """Those that the log refused, in the order in which they were due."""
        self._pause = GrowingPause(PAUSE_S, PAUSE_MAX_S)
        self.bytes_held = 0

    def stands(self, session: Session, will: Will | None) -> None:
        """A client has come, with a will or without; one that it left before is void, or due."""
        if session.will_at_s is not None and session.will_at_s <= self._now():
            self.publish(session)  # it came too late to take that back (section 3.1.3.2.2)
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
        """A session's client has gone then: publish its will once its delay is over, or now.

        From then on its client can't be back in time any more (section 3.1.3.2.2).
        """
        will = session.will
        if will is None:
            self._durability.will_ended(session.client_id)
            return
        session.will_at_s = since_s + delay_s(will)
        if session.will_at_s <= self._now():
            self.publish(session)
        else:
            self._delayed.add(session)

    def publish(self, session: Session) -> None:
        """Publish the will of a session whose client has gone, if it has one."""
        self._delayed.discard(session)
        if session.will is not None and session.will_at_s is not None:
            will, session.will, session.will_at_s = session.will, None, None
            self.publish_of(session.client_id, will)

    def publish_of(self, client_id: str, will: Will) -> None:
        """Publish a will now."""
        saved = None
        if will.qos or will.retain:
            saved = self._durability.will_published(client_id)
        else:
            self._durability.will_ended(client_id)
        self._hand_in(DueWill(client_id, will, saved, self._was_refused))

    def publish_left(self, saved: SavedWill) -> None:
        """Publish a will that was due in the life before, and that the log had refused."""
        self._durability.will_tried_again(saved)
        self._hand_in(DueWill(saved.client_id, saved.will, saved, self._was_refused))

    def _hand_in(self, due: DueWill) -> None:
        try:
            self._commit_queue.publish_own(message_of(due.will, self._now()), due)
        except PacketError as error:  # by the limits of this life no message can have its topic
            self._give_up(due, UNFIT, str(error))

    def _was_refused(self, due: DueWill) -> None:
        """Keep one that the log did not take; of QoS 0 the subscribers here have been given it."""
        if not due.will.qos:
            self._end(due)
            return
        now_s = self._now()
        self._refusals.count(REFUSED, _named(due), level=logging.ERROR)
        if due.saved is not None:
            self._durability.will_refused(due.saved)
        self._refused.append(due)
        self.bytes_held += size_bytes(due.will)
        if len(self._refused) > REFUSED_MAX:
            self._give_up(self._refused.popleft(), TOO_MANY, "the oldest")
        if self._pause.until_s <= now_s:
            self._pause.failed(now_s)

    def _give_up(self, due: DueWill, kind: str, why: str) -> None:
        self._refusals.count(kind, f"{_named(due)}: {why}", level=logging.ERROR)
        self._end(due)

    def _end(self, due: DueWill) -> None:
        if due.saved is not None:
            self._durability.will_given_up(due.saved)

    def _try_again(self, now_s: float) -> None:
        """Publish those that the log refused, if the pause is over."""
        if not self._refused:
            self._pause.worked()
        elif now_s >= self._pause.until_s:
            again, self._refused = self._refused, deque()
            for due in again:
                if due.saved is not None:
                    self._durability.will_tried_again(due.saved)
                self._hand_in(due)

    def publish_due(self, now_s: float) -> None:
        """Publish those whose delay is over, and again those that the log refused."""
        self._try_again(now_s)
        for session in [s for s in self._delayed if s.will_at_s is not None]:
            if session.will_at_s is not None and session.will_at_s <= now_s:
                self.publish(session)

    def add_up(self, sessions: list[Session]) -> None:
        """Say anew how much all wills are; to be called now and then with all sessions."""
        self.bytes_held = sum(size_bytes(one.will) for one in sessions if one.will is not None)
        self.bytes_held += sum(size_bytes(due.will) for due in self._refused)


def _named(due: DueWill) -> str:
    return f"{due.client_id[:64]!r}, on {due.will.topic!r}"
