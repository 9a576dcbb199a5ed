"""Routes of topics: the subscriptions that match, made ready for the hot loop.

A route is made once for a topic and kept until a change of subscriptions or connections touches
the topic. Most receivers want nothing special and stand in plain lists by protocol version; the
rest (identifiers, options, aliases, shared subscriptions) are served one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.limits import Limits
from gateway.broker.outbound.channel import Channel
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.topics.route_cache import RouteCache
from gateway.broker.topics.subscription_tree import SubscriptionTree
from gateway.mqtt import PacketError, ReasonCode, Version, check_topic_name
from light_dataclasses import dataclass
from tree_handler.sharing.rule import SharedGroups

SubscriberTree = SubscriptionTree[Session, Subscription]
Receivers = list[tuple[Session, Subscription]]


@dataclass(frozen=True, slots=True)
class Grant:
    """The terms on which one session gets a message, from all its matching subscriptions."""

    qos: int
    retain_as_published: bool
    identifiers: tuple[int, ...]

    @staticmethod
    def of(subscriptions: list[Subscription]) -> Grant:
        """Join grants: the highest QoS [MQTT-3.3.5-1], all identifiers [MQTT-3.3.4-4]."""
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
    """The receivers of one topic's messages, made ready for the hot loop.

    Attributes:
        topic: the topic name.
        key: the same in UTF-8.
        is_plain: a client's QoS 0 message goes to the live channels and nowhere else.
        has_receivers: somebody here gets what is published.
        closed: no client may publish here (topics that start with ``$``).
        live_311, live_5: channels that get a QoS 0 message as it is.
        zero_311, zero_5: those of them that get any message at QoS 0.
        queued: sessions that get QoS 1 and 2 messages, with the granted QoS.
        special: sessions served one by one.
        shared: shared subscriptions: (share name, filter) and members.
        is_shared_elsewhere: other gateways have members of some.

    """

    __slots__ = (
        "closed",
        "has_receivers",
        "is_plain",
        "is_shared_elsewhere",
        "key",
        "live_5",
        "live_311",
        "queued",
        "shared",
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
        self.has_receivers = False
        self.is_shared_elsewhere = False
        self.live_311: list[Channel] = []
        self.live_5: list[Channel] = []
        self.zero_311: list[Channel] = []
        self.zero_5: list[Channel] = []
        self.queued: list[tuple[Session, int]] = []
        self.special: list[Target] = []
        self.shared: list[tuple[tuple[str, str], Receivers]] = []

    @property
    def size_bytes(self) -> int:
        """Memory, about."""
        live = (self.live_311, self.live_5, self.zero_311, self.zero_5)
        size = 400 + 8 * sum(map(len, live)) + 72 * len(self.queued)
        size += sum(240 + 16 * len(target.grant.identifiers) for target in self.special)
        return size + sum(200 + 72 * len(members) for _, members in self.shared)

    def without(self, has_had: Callable[[Session], bool]) -> tuple[Route, int]:
        """Return where a QoS 2 message goes that some sessions have had.

        Args:
            has_had: tells those sessions. Who gets it at QoS 0 or 1 gets it all the same.

        Returns:
            The route without them, and how many they are. A shared subscription of which one had
            it counts as one.

        """
        left = Route(self.topic, self.key)
        left.closed, left.is_plain = self.closed, self.is_plain
        left.has_receivers = self.has_receivers
        left.is_shared_elsewhere = self.is_shared_elsewhere
        left.live_311, left.live_5 = self.live_311, self.live_5
        left.zero_311, left.zero_5 = self.zero_311, self.zero_5
        left.queued = [row for row in self.queued if row[1] < 2 or not has_had(row[0])]
        left.special = [t for t in self.special if t.grant.qos < 2 or not has_had(t.session)]
        left.shared = [
            group
            for group in self.shared
            if not any(of.qos == 2 and has_had(session) for session, of in group[1])
        ]
        ways = ((self.queued, left.queued), (self.special, left.special))
        count = sum(len(before) - len(after) for before, after in ways)
        return left, count + len(self.shared) - len(left.shared)


KnownRoutes = RouteCache[Route]


def _place(route: Route, session: Session, subscriptions: list[Subscription]) -> None:
    grant = Grant.of(subscriptions)
    others = [s for s in subscriptions if not s.no_local]
    own = Grant.of(others) if others else None
    channel = session.channel
    if (
        grant.identifiers
        or grant.retain_as_published
        or own != grant
        or (channel is not None and channel.is_particular)
    ):
        route.special.append(Target(session, grant, own))
        return
    if grant.qos:
        route.queued.append((session, grant.qos))
    if channel is None:
        return
    if channel.version == Version.V311:
        route.live_311.append(channel)
        if not grant.qos:
            route.zero_311.append(channel)
    else:
        route.live_5.append(channel)
        if not grant.qos:
            route.zero_5.append(channel)


class Routes:
    """Finds where a topic's messages go.

    Args:
        tree: who subscribed to what.
        known: keeps what was found, until a change touches it.
        limits: of topic names.
        may_deliver: whether a session's client may receive a topic.
        groups: knows the shared subscriptions of other gateways.

    """

    def __init__(
        self,
        tree: SubscriberTree,
        known: KnownRoutes,
        limits: Limits,
        may_deliver: Callable[[Session, str], bool],
        groups: SharedGroups,
    ) -> None:
        self._tree = tree
        self._known = known
        self._limits = limits
        self._may_deliver = may_deliver
        self._groups = groups

    def of(self, key: bytes) -> Route:
        """Return where a topic's messages go.

        Args:
            key: the topic name in UTF-8.

        Raises:
            PacketError: it is no topic name, or longer or deeper than allowed.

        """
        route = self._known.kept.get(key)
        if route is None:
            limits = self._limits
            if len(key) > limits.topic_bytes or key.count(b"/") >= limits.topic_levels:
                raise PacketError(ReasonCode.TOPIC_NAME_INVALID, "topic over the limit", key)
            route = self.unkept(key)
            self._known.put(key, route, route.size_bytes)
        return route

    def unkept(self, key: bytes) -> Route:
        """Return where a topic's messages go, without keeping it: for topics that come up seldom.

        Raises:
            PacketError: it is no topic name.

        """
        topic = check_topic_name(key)
        route = Route(topic, key)
        found: dict[Session, list[Subscription]] = {}
        for session, subscription in self._tree.match(topic):
            found.setdefault(session, []).append(subscription)
        for session, subscriptions in found.items():
            if self._may_deliver(session, topic):
                _place(route, session, subscriptions)
        for group, members in self._tree.match_shared(topic):
            allowed = [one for one in members if self._may_deliver(one[0], topic)]
            if allowed:
                route.shared.append((group, allowed))
        route.has_receivers = bool(
            route.live_311 or route.live_5 or route.queued or route.special or route.shared
        )
        route.is_shared_elsewhere = bool(self._groups.matching(topic))
        if route.special or route.shared or route.is_shared_elsewhere:
            route.is_plain = False
        return route
