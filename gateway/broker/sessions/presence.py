"""Who is there of a shared subscription, as other gateways are told."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from tree_handler.sharing.claims import DURABLE, ONLINE


def presence(members: Iterable[tuple[Session, Subscription]]) -> int:
    """Return `ONLINE` and `DURABLE` of the members of a shared subscription; 0 for none."""
    found = 0
    for session, subscription in members:
        if session.channel is not None:
            found |= ONLINE
        if session.expiry_s and subscription.qos:
            found |= DURABLE
    return found
