"""Where a topic's messages go: the subscriptions that match, made ready for the hot loop.

A route is made once for a topic and kept until a change of subscriptions or connections touches
the topic. Most receivers want nothing special and stand in plain lists by protocol version; the
rest (identifiers, options, aliases, shared subscriptions) are served one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.broker.sessions.session import Session, Subscription
from gateway.broker.topics.subscriptions import SubscriptionTree
from gateway.mqtt import Version, check_topic_name

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection

Members = list[tuple[Session, Subscription]]


@dataclass(frozen=True, slots=True)
class Grant:
    """How a message is handed to one session, from all its matching subscriptions together."""

    qos: int
    retain_as_published: bool
    identifiers: tuple[int, ...]

    @staticmethod
    def of(subscriptions: list[Subscription]) -> Grant | None:
        """Once, at the highest QoS [MQTT-3.3.5-1], with all identifiers [MQTT-3.3.4-4]."""
        if not subscriptions:
            return None
        return Grant(
            max(subscription.qos for subscription in subscriptions),
            any(subscription.retain_as_published for subscription in subscriptions),
            tuple(s.identifier for s in subscriptions if s.identifier),
        )


@dataclass(frozen=True, slots=True)
class Target:
    """A session that wants something special."""

    session: Session
    grant: Grant
    own: Grant | None
    """For messages that the session's own client published: without No Local subscriptions."""


class Route:
    """Where one topic's messages go.

    Attributes:
        topic: the topic name.
        key: the same in UTF-8.
        is_plain: a client's QoS 0 message goes to the live connections and nowhere else.
        closed: no client may publish here (topics that start with ``$``).
        live_311, live_5: connections that get a QoS 0 message as it is.
        zero_311, zero_5: those of them that get any message at QoS 0.
        queued: sessions that get QoS 1 and 2 messages, with the granted QoS.
        sole: the one of `queued` if nobody else gets QoS 1 and 2 messages; None otherwise.
        special: sessions served one by one.
        shared: shared subscriptions: (share name, filter) and members.

    """

    __slots__ = (
        "closed",
        "is_plain",
        "key",
        "live_5",
        "live_311",
        "queued",
        "shared",
        "sole",
        "special",
        "topic",
        "zero_5",
        "zero_311",
    )

    def __init__(self, topic: str, key: bytes) -> None:
        self.topic = topic
        self.key = key
        self.closed = topic.startswith("$")
        self.is_plain = not self.closed
        self.live_311: list[Connection] = []
        self.live_5: list[Connection] = []
        self.zero_311: list[Connection] = []
        self.zero_5: list[Connection] = []
        self.queued: list[tuple[Session, int]] = []
        self.sole: tuple[Session, int] | None = None
        self.special: list[Target] = []
        self.shared: list[tuple[tuple[str, str], Members]] = []


def resolve(
    key: bytes,
    tree: SubscriptionTree[Session, Subscription],
    may_deliver: Callable[[Session, str], bool],
) -> Route:
    """The route of a topic.

    Raises:
        PacketError: what stands there is no topic name.

    """
    topic = check_topic_name(key)
    route = Route(topic, key)
    found: dict[Session, list[Subscription]] = {}
    for session, subscription in tree.match(topic):
        found.setdefault(session, []).append(subscription)
    for session, subscriptions in found.items():
        if may_deliver(session, topic):
            _place(route, session, subscriptions)
    for group, members in tree.match_shared(topic):
        allowed = [(session, sub) for session, sub in members if may_deliver(session, topic)]
        if allowed:
            route.shared.append((group, allowed))
    if route.special or route.shared:
        route.is_plain = False
    elif len(route.queued) == 1 and not (route.zero_311 or route.zero_5):
        route.sole = route.queued[0]
    return route


def _place(route: Route, session: Session, subscriptions: list[Subscription]) -> None:
    grant = Grant.of(subscriptions)
    own = Grant.of([s for s in subscriptions if not s.no_local])
    assert grant is not None
    connection = session.connection
    if (
        grant.identifiers
        or grant.retain_as_published
        or own != grant
        or (connection is not None and connection.is_particular)
    ):
        route.special.append(Target(session, grant, own))
        return
    if grant.qos:
        route.queued.append((session, grant.qos))
    if connection is None:
        return
    if connection.version == Version.V311:
        route.live_311.append(connection)
        if not grant.qos:
            route.zero_311.append(connection)
    else:
        route.live_5.append(connection)
        if not grant.qos:
            route.zero_5.append(connection)
