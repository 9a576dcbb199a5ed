"""The sessions of one broker, by client identifier: how they begin, change hands and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, ItemsView, Sequence, ValuesView
from typing import Final

from gateway.broker.durability.persistence import Persistence
from gateway.broker.hooks import Client, Events, Owner
from gateway.broker.limits import Budget
from gateway.broker.outbound.channel import Channel
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscriptions import Subscriptions
from gateway.broker.sessions.wills import Wills
from gateway.mqtt import Will
from tree_handler.rate_limit import RateLimit

KEPT_FREE: Final = 32
"""One in so many connections takes none but operators, and who has not said yet who it is."""
MOST_REMEMBERED: Final = 10_000
"""Clients of which it is remembered how often they came."""


class Sessions:
    """All sessions.

    Args:
        budget: what their queues share, and the limits of each.
        subscriptions: those of all sessions.
        wills: those of all sessions.
        retained_backlogs: which of them are owed what is retained.
        durability: keeps them over a crash.
        events: are told of clients.
        now: the loop's clock, in seconds.

    Attributes:
        connected: how many of them have a client now.
        connected_max: the most that had one at a time.
        expired: how many have ended because their client did not come back.

    """

    def __init__(
        self,
        budget: Budget,
        subscriptions: Subscriptions,
        wills: Wills,
        retained_backlogs: RetainedBacklogs,
        durability: Persistence,
        events: Sequence[Events],
        now: Callable[[], float],
    ) -> None:
        self._budget = budget
        self._subscriptions = subscriptions
        self._wills = wills
        self._retained_backlogs = retained_backlogs
        self._durability = durability
        self._events = events
        self._now = now
        self._by_client: dict[str, Session] = {}
        self._of_owner: Counter[Owner] = Counter()
        self._connected_of: Counter[Owner] = Counter()
        per_minute = budget.limits.connects_per_minute_of_client
        self._comings = RateLimit(per_minute / 60, per_minute, MOST_REMEMBERED)
        self._offline: set[Session] = set()
        self.connected = 0
        self.connected_max = 0
        self.expired = 0

    # -- what there is -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many there are, with and without a client."""
        return len(self._by_client)

    def why_full(self, client: Client, session: Session | None, *, is_operator: bool = True) -> str:
        """Return why a client may not come in for want of room; empty if it may.

        Args:
            client: who comes.
            session: that it has already.
            is_operator: whether room is kept free for such as it is.

        """
        limits, owner = self._budget.limits, client.owner
        if session is None and len(self._by_client) >= limits.sessions:
            return "too many sessions"
        if session is None and self._of_owner[owner] >= limits.sessions_per_user:
            return "too many sessions of this user"
        is_one_more = session is None or session.channel is None
        most = limits.connections - limits.connections // KEPT_FREE
        if is_one_more and not is_operator and self.connected >= most:
            return "too many connections, but for operators"
        if is_one_more and self._connected_of[owner] >= limits.connections_per_user:
            return "too many connections of this user"
        return ""

    def comes_too_often(self, client: Client) -> bool:
        """Return whether a client is to be held back; if not, this time is counted."""
        who = f"{client.client_id}\0{client.owner}"
        if self._comings.is_over(who, self._now()):
            return True
        self._comings.count(who, self._now())
        return False

    def forget_comings(self, now_s: float) -> None:
        """Forget when clients came, as far as it holds none of them back any more."""
        self._comings.forget_rested(now_s)

    @property
    def offline_count(self) -> int:
        """Return how many sessions wait for their client."""
        return len(self._offline)

    def get(self, client_id: str) -> Session | None:
        """Return the session of a client, if there is one."""
        return self._by_client.get(client_id)

    def values(self) -> ValuesView[Session]:
        """Return all of them, as a view that changes with them."""
        return self._by_client.values()

    def items(self) -> ItemsView[str, Session]:
        """Return all of them, by client identifier."""
        return self._by_client.items()

    # -- how they begin and change -------------------------------------------------------------

    def can_be_noted(self) -> bool:
        """Return whether what happens to sessions that outlive their clients can be noted now."""
        return self._durability.write() is None

    def takes(self, session: Session, client: Client, expiry_s: int) -> bool:
        """Return whether a session can be kept that gets a client; if not, nothing has changed.

        Args:
            session: new, or without a channel.
            client: who is about to be served.
            expiry_s: how long the session is to be kept without a channel.

        """
        return self._durability.takes(session, client, expiry_s)

    def new(self, client: Client) -> Session:
        """Return a session that has nothing yet; `attach` adds it."""
        return Session(client, self._budget.limits, self._budget, self._durability.logged)

    def restore(self, session: Session) -> None:
        """Add one of an earlier process; `wait` follows when all is known of it."""
        self._add(session)

    def attach(
        self,
        session: Session,
        client: Client,
        channel: Channel,
        *,
        will: Will | None,
        expiry_s: int,
        receive_maximum: int,
    ) -> None:
        """A client is served over a channel from now on.

        Args:
            session: its session, which may be new.
            client: who it is now.
            channel: its connection.
            will: what is published if it goes without a word.
            expiry_s: how long the session is kept when it has gone.
            receive_maximum: QoS 1 and 2 messages that it takes at a time.

        """
        self._add(session)
        self.connected += 1
        self._connected_of[client.owner] += 1
        self.connected_max = max(self.connected_max, self.connected)
        self._offline.discard(session)
        session.attach(channel, client, receive_maximum, self._now())
        self.set_expiry(session, expiry_s)
        self._subscriptions.touch(session)
        self._wills.stands(session, will)
        for events in self._events:
            events.connected(client)

    def set_expiry(self, session: Session, expiry_s: int) -> None:
        """Keep a session so long once its client has gone."""
        session.expiry_s = min(expiry_s, self._budget.limits.session_expiry_s)
        self._durability.session_opened(session)

    # -- how they end --------------------------------------------------------------------------

    def left(self, session: Session, why: str, *, publishes_will: bool = True) -> None:
        """A session's client has gone, or its channel is closed; nothing if it had none.

        Args:
            session: whose.
            why: for those who are told.
            publishes_will: whether its will counts, if it still has one.

        """
        if session.channel is None:
            return
        self.connected -= 1
        self._connected_of[session.client.owner] -= 1
        if not self._connected_of[session.client.owner]:
            del self._connected_of[session.client.owner]
        self.wait(session, self._now())
        self._durability.session_away(session)
        self._subscriptions.touch(session)
        for events in self._events:
            events.disconnected(session.client, why)
        if publishes_will:
            self._wills.wait(session, session.away_since_s)
        else:
            self._wills.void(session)
        if not session.expiry_s:
            self.end(session)  # publishes the will, whatever its delay [MQTT-3.1.2-8]
        self._durability.write()

    def wait(self, session: Session, since_s: float) -> None:
        """A session waits for its client, who went then."""
        session.detach(since_s)
        self._offline.add(session)

    def end(self, session: Session) -> None:
        """End a session: its subscriptions and what waited go with it."""
        self._offline.discard(session)  # first: what fails here must not fail again and again
        self.forget(session)
        try:
            self._wills.publish(session)
            self._subscriptions.hand_over(session)  # section 4.8.2
        finally:
            session.end()
            self._durability.session_ended(session)

    def living(self, client_id: str) -> Session | None:
        """Return the session that a client goes on with; one that is overdue ends now
        [MQTT-4.1.0-2]."""
        session = self._by_client.get(client_id)
        if session in self._offline and session.is_overdue(self._now()):
            self.expire(session)
            return None
        return session

    def overdue(self, now_s: float) -> list[Session]:
        """Return those whose client did not come back in time."""
        return [s for s in self._offline if s.is_overdue(now_s)]

    def expire(self, session: Session) -> None:
        """End one of them."""
        self.expired += 1
        self.end(session)

    def forget(self, session: Session) -> None:
        """One of an earlier process has ended within it."""
        self._subscriptions.withdraw_all(session)
        self._retained_backlogs.settled(session)
        if self._by_client.get(session.client_id) is session:
            del self._by_client[session.client_id]
            owner = session.client.owner
            self._of_owner[owner] -= 1
            if not self._of_owner[owner]:
                del self._of_owner[owner]

    def _add(self, session: Session) -> None:
        if self._by_client.get(session.client_id) is not session:
            self._by_client[session.client_id] = session
            self._of_owner[session.client.owner] += 1
