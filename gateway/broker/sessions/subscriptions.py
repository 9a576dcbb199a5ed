"""All subscriptions of all sessions: where they stand, and who is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gateway.broker.hooks import Demand, Events, Owner
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.routes import KnownRoutes, SubscriberTree
from gateway.broker.sessions.inheritance import Inheritance
from gateway.broker.sessions.presence import Presence
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.topics.subscription_tree import bytes_max
from tree_handler.routing.topic_filters import split_share
from tree_handler.sharing.rule import SharedGroups


class Subscriptions:
    """Adds and ends subscriptions.

    Args:
        tree: finds them by topic.
        known: forgets where topics go that a change touches.
        delivery: keeps whose turn it is in shared subscriptions.
        inheritance: passes on what a member of these leaves to those that stay.
        events: are told of clients' own changes.
        interest: is told what all sessions together want, but not what is restored; None where
            nobody asks.
        groups: says whether there may be another shared subscription; is told who is there of each.

    """

    def __init__(
        self,
        tree: SubscriberTree,
        known: KnownRoutes,
        delivery: Delivery,
        inheritance: Inheritance,
        events: Sequence[Events],
        interest: Demand | None,
        groups: SharedGroups,
    ) -> None:
        self._tree = tree
        self._known = known
        self._delivery = delivery
        self._inheritance = inheritance
        self._events = events
        self._interest = interest
        self._groups = groups
        self._bytes_of: Counter[Owner] = Counter()
        self._presence = Presence()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tree)

    @property
    def shared_count(self) -> int:
        """Return how many of them are shared."""
        return self._tree.shared_count

    @property
    def bytes_held(self) -> int:
        """Their memory, as estimated."""
        return self._tree.bytes_held

    def bytes_of(self, owner: Owner) -> int:
        """Return the most memory that one user's can take."""
        return self._bytes_of[owner]

    def has_room_for(self, topic_filter: str) -> bool:
        """Return whether other gateways can be told of a subscription, if it is shared."""
        group = split_share(topic_filter)
        return not group[0] or self._groups.has_room_for(group)

    def expect(self, filter_count: int) -> None:
        """So many will change at once."""
        self._known.expect(filter_count)

    def add(self, session: Session, topic_filter: str, subscription: Subscription) -> bool:
        """Add or replace a subscription [MQTT-3.8.4-3], and return whether it is new.

        Raises:
            FilterError: the filter is malformed or too deep.

        """
        is_new = self.restore(session, topic_filter, subscription)
        if is_new and self._interest is not None:
            self._interest.subscribed(topic_filter)
        if session.record is not None:
            session.record.subscribed(topic_filter, subscription)
        for events in self._events:
            events.subscribed(session.client, topic_filter, subscription.qos)
        return is_new

    def restore(self, session: Session, topic_filter: str, subscription: Subscription) -> bool:
        """Have a subscription of an earlier process stand where routes find it, and return whether
        it is new.

        Raises:
            FilterError: the filter is malformed or too deep.

        """
        is_new = self._tree.add(topic_filter, session, subscription)
        if is_new:
            self._bytes_of[session.client.owner] += bytes_max(topic_filter)
            share, proper = split_share(topic_filter)
            if share:
                self._inheritance.joined((share, proper))
        session.subscriptions[topic_filter] = subscription
        session.no_local |= subscription.no_local
        self._known.touched(topic_filter)
        self._note_presence(session, topic_filter)
        return is_new

    def remove(self, session: Session, topic_filter: str) -> bool:
        """End a subscription at the client's wish [MQTT-3.10.4-1], and return whether there was
        one."""
        if not self.withdraw(session, topic_filter):
            return False
        if session.record is not None:
            session.record.unsubscribed(topic_filter)
        for events in self._events:
            events.unsubscribed(session.client, topic_filter)
        return True

    def withdraw(self, session: Session, topic_filter: str) -> bool:
        """End a subscription, and return whether there was one."""
        if session.subscriptions.pop(topic_filter, None) is None:
            return False
        self._known.touched(topic_filter)
        self._leave(session, topic_filter)
        return True

    def withdraw_all(self, session: Session) -> None:
        """End all subscriptions of a session that is no more."""
        self._known.touched_by(session.subscriptions)
        filters = list(session.subscriptions)
        session.subscriptions.clear()
        for topic_filter in filters:
            self._leave(session, topic_filter)

    def hand_over(self, session: Session) -> None:
        """Give others what waits in a session without subscriptions for the shared ones it had."""
        self._inheritance.hand_over(session)

    def touch(self, session: Session) -> None:
        """A session is served in another way than before."""
        self._known.touched_by(session.subscriptions)
        for topic_filter in session.subscriptions:
            self._note_presence(session, topic_filter)

    def _note_presence(self, session: Session, topic_filter: str) -> None:
        """Tell who is there of a shared subscription; those of ``$SYS`` are this gateway's own."""
        group = split_share(topic_filter)
        if group[0] and group[1][:1] != "$":
            subscription = session.subscriptions.get(topic_filter)
            self._groups.changed(group, self._presence.note(group, session, subscription))

    def _leave(self, session: Session, topic_filter: str) -> None:
        if self._tree.remove(topic_filter, session) and self._interest is not None:
            self._interest.unsubscribed(topic_filter)
        owner = session.client.owner
        self._bytes_of[owner] -= bytes_max(topic_filter)
        if self._bytes_of[owner] <= 0:
            del self._bytes_of[owner]
        share, proper = split_share(topic_filter)
        if share:
            self._delivery.forget_turns((share, proper))
            self._inheritance.left((share, proper))
        self._note_presence(session, topic_filter)
