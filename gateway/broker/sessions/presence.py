"""Presence of members of shared subscriptions, as other gateways are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from tree_handler.holders import SharedGroup
from tree_handler.sharing.claims import DURABLE, ONLINE


def presence(session: Session, subscription: Subscription) -> int:
    """Return `ONLINE` and `DURABLE` of one member of a shared subscription; 0 for neither."""
    found = 0 if session.channel is None else ONLINE
    return found | DURABLE if session.expiry_s and subscription.qos else found


def foremost(members: Iterable[tuple[Session, Subscription]]) -> int:
    """Return `ONLINE` if one of them is there, else `DURABLE` if one waits; no others are looked
    at once one is there, for nobody is asked for then who waits."""
    found = 0
    for session, subscription in members:
        found |= presence(session, subscription)
        if found & ONLINE:
            return ONLINE
    return found


def is_anybody(members: Iterable[tuple[Session, Subscription]]) -> bool:
    """Return whether a message of QoS 1 or 2 has a member that gets it, or may get it later."""
    return any(presence(*member) for member in members)


class Presence:
    """Counts who is there of each, so that a member that comes or goes costs no look at others."""

    def __init__(self) -> None:
        self._of: dict[tuple[SharedGroup, Session], int] = {}
        self._counts: Counter[tuple[SharedGroup, int]] = Counter()

    def note(self, group: SharedGroup, session: Session, subscription: Subscription | None) -> int:
        """Note how a member is there now, and return what there is of all.

        Args:
            group: the shared subscription.
            session: the member's.
            subscription: None where it has left.

        """
        now = 0 if subscription is None else presence(session, subscription)
        before = self._of.pop((group, session), 0)
        if now:
            self._of[group, session] = now
        found = 0
        for flag in (ONLINE, DURABLE):
            count = self._counts[group, flag] + bool(now & flag) - bool(before & flag)
            if count:
                self._counts[group, flag] = count
                found |= flag
            else:
                self._counts.pop((group, flag), None)
        return found
