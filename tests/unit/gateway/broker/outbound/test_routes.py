"""Routes of topics: in which of its lists a subscriber stands, and who is left out of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.base.turns import Turns
from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits, counted_refusals
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.outbound.routes import Grant, Route, Routes, Target
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.topics.route_cache import RouteCache
from gateway.broker.topics.subscription_tree import SubscriptionTree
from gateway.mqtt import PacketError, Version
from tree_handler.holders import SharedGroup
from tree_handler.sharing.rule import EachGateway

V5, V311 = Version.V5, Version.V311
LIMITS = Limits(topic_bytes=10, topic_levels=3)


class JobsElsewhere(EachGateway):
    """Another gateway has a member of one shared subscription."""

    def matching(self, topic: str) -> tuple[SharedGroup, ...]:
        return (("g", "jobs/#"),) if topic.startswith("jobs/") else ()


class Subscribed:
    """Sessions, and what they have subscribed to."""

    def __init__(self, may: Callable[[Session, str], bool] = lambda session, topic: True) -> None:
        self.tree: SubscriptionTree[Session, Subscription] = SubscriptionTree()
        self.known: RouteCache[Route] = RouteCache()
        self.routes = Routes(self.tree, self.known, LIMITS, may, JobsElsewhere())
        lines = counted_refusals(lambda: 0.0)
        self._output = PendingWrites(Turns(lambda: False), LIMITS, lines, Traffic(), lambda: 0.0)

    def session(self, name: str, version: Version | None, **wanted: Subscription) -> Session:
        """A session with subscriptions, in the order of their filters; None: no connection."""
        session = Session(Client(name, None, "", 5), LIMITS, Budget(LIMITS))
        if version is not None:
            session.channel = Channel(self._output)
            session.channel.version = int(version)
        for topic_filter, subscription in wanted.items():
            self.tree.add(topic_filter, session, subscription)
        return session

    def shared(self, session: Session, qos: int, group: str = "g") -> None:
        self.tree.add(f"$share/{group}/t", session, Subscription(qos))


def lists(route: Route) -> set[str]:
    """The names of the lists that are not empty."""
    names = ("live_311", "live_5", "zero_311", "zero_5", "queued", "special", "shared")
    return {name for name in names if getattr(route, name)}


@pytest.mark.parametrize("version", [None, V311, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_who_wants_nothing_special_stands_in_the_plain_lists_of_its_version(
    qos: int, version: Version | None
) -> None:
    world = Subscribed()
    session = world.session("c", version, t=Subscription(qos))
    route = world.routes.of(b"t")
    expected = {"queued"} if qos else set()
    if version is not None:
        name = "311" if version == V311 else "5"
        expected |= {f"live_{name}"} if qos else {f"live_{name}", f"zero_{name}"}
    assert lists(route) == expected
    assert route.queued == ([(session, qos)] if qos else [])
    assert (route.is_plain, route.closed) == (True, False)
    assert route.has_receivers == bool(expected)


SPECIAL: dict[str, tuple[Subscription, Grant, Grant | None]] = {
    "an identifier": (Subscription(1, identifier=7), Grant(1, False, (7,)), Grant(1, False, (7,))),
    "RETAIN as published": (
        Subscription(0, retain_as_published=True),
        Grant(0, True, ()),
        Grant(0, True, ()),
    ),
    "no messages of its own": (Subscription(2, no_local=True), Grant(2, False, ()), None),
}


@pytest.mark.parametrize("version", [None, V5])
@pytest.mark.parametrize("name", SPECIAL)
async def test_who_wants_something_special_is_served_alone(
    name: str, version: Version | None
) -> None:
    world = Subscribed()
    subscription, grant, own = SPECIAL[name]
    session = world.session("c", version, t=subscription)
    route = world.routes.of(b"t")
    assert route.special == [Target(session, grant, own)]
    assert (lists(route), route.is_plain, route.has_receivers) == ({"special"}, False, True)


@pytest.mark.parametrize("wants", ["aliases", "a packet size"])
async def test_who_needs_packets_of_its_own_is_served_alone(wants: str) -> None:
    world = Subscribed()
    session = world.session("c", V5, t=Subscription(1))
    channel = session.channel
    assert channel is not None
    if wants == "aliases":
        channel.aliases = OutgoingAliases(1)
    else:
        channel.packet_bytes_max = 99
    grant = Grant(1, False, ())
    assert world.routes.of(b"t").special == [Target(session, grant, grant)]


async def test_subscriptions_of_one_session_are_joined_and_own_messages_get_the_others() -> None:
    world = Subscribed()
    session = world.session("c", V5, t=Subscription(0), a=Subscription(2, identifier=9))
    world.tree.add("+", session, Subscription(2, no_local=True, identifier=3))
    world.tree.add("#", session, Subscription(1, retain_as_published=True, identifier=4))
    [target] = world.routes.of(b"t").special
    assert (target.grant.qos, target.grant.retain_as_published) == (2, True)
    assert sorted(target.grant.identifiers) == [3, 4]
    assert target.own == Grant(1, True, (4,))
    assert Grant.of([Subscription(0), Subscription(2), Subscription(1)]) == Grant(2, False, ())


async def test_who_may_not_receive_a_topic_stands_in_no_list_of_it() -> None:
    world = Subscribed(lambda session, topic: session.client_id == "may" or topic == "open")
    may, other = world.session("may", V5), world.session("other", V5)
    for session in (may, other):
        for topic_filter in ("t", "open", "$share/g/t", "$share/g/open"):
            world.tree.add(topic_filter, session, Subscription(1))
        world.tree.add("$share/h/t", other, Subscription(1))
    route = world.routes.of(b"t")
    assert (route.queued, route.live_5) == ([(may, 1)], [may.channel])
    assert route.shared == [(("g", "t"), [(may, Subscription(1))])]
    route = world.routes.of(b"open")
    assert [one for one, _ in route.queued] == [may, other]
    assert [one for one, _ in route.shared[0][1]] == [may, other]


async def test_a_route_is_plain_unless_it_is_closed_or_somebody_shares_it() -> None:
    world = Subscribed()
    world.shared(world.session("c", V5), 1)
    found = {key: world.routes.of(key) for key in (b"x", b"$x", b"t", b"jobs/1")}
    plain = {key for key, route in found.items() if route.is_plain}
    closed = {key for key, route in found.items() if route.closed}
    elsewhere = {key for key, route in found.items() if route.is_shared_elsewhere}
    reaching = {key for key, route in found.items() if route.has_receivers}
    assert (plain, closed, elsewhere, reaching) == ({b"x"}, {b"$x"}, {b"jobs/1"}, {b"t"})
    assert (found[b"jobs/1"].topic, found[b"jobs/1"].key) == ("jobs/1", b"jobs/1")


async def test_a_route_is_made_once_and_one_that_comes_up_seldom_is_not_kept() -> None:
    world = Subscribed()
    assert world.routes.unkept(b"t") is not world.routes.unkept(b"t")
    assert len(world.known) == 0
    route = world.routes.of(b"t")
    assert world.routes.of(b"t") is route
    world.known.touched("t")
    assert world.routes.of(b"t") is not route


@pytest.mark.parametrize(
    ("key", "is_taken"),
    [
        (b"0123456789", True),
        (b"0123456789a", False),
        ("éééééx".encode(), False),
        (b"a/b/c", True),
        (b"a/b/c/", False),
        (b"a/+", False),
        (b"", False),
    ],
)
async def test_a_topic_has_so_many_bytes_and_levels_and_no_wildcards(
    key: bytes, *, is_taken: bool
) -> None:
    world = Subscribed()
    if is_taken:
        assert world.routes.of(key).topic == key.decode()
    else:
        with pytest.raises(PacketError):
            world.routes.of(key)
        assert len(world.known) == 0


async def test_a_message_of_qos_2_goes_past_who_has_had_it_at_qos_2_and_past_nobody_else() -> None:
    world = Subscribed()
    had = set[Session]()
    for qos in (0, 1, 2):
        for has_had in (False, True):
            name = f"{qos}{'had' if has_had else ''}"
            session = world.session(name, V5, t=Subscription(qos))
            other = world.session(f"special {name}", V311, t=Subscription(qos, identifier=1))
            member = world.session(f"member {name}", None)
            world.shared(member, qos, group=name)
            world.shared(world.session("with it", None), 2, group=name)
            had |= {session, other, member} if has_had else set()
    route = world.routes.of(b"t")
    left, count = route.without(had.__contains__)
    assert count == 3
    assert [one.client_id for one, _ in left.queued] == ["1", "1had", "2"]
    specials = [target.session.client_id for target in left.special]
    assert specials == [f"special {name}" for name in ("0", "0had", "1", "1had", "2")]
    assert [group[0] for group, _ in left.shared] == ["0", "0had", "1", "1had", "2"]
    assert (left.live_5, left.zero_5) == (route.live_5, route.zero_5)
    assert (left.topic, left.key, left.is_plain, left.has_receivers) == ("t", b"t", False, True)
    same, count = route.without(lambda session: False)
    assert (count, same.queued, same.special) == (0, route.queued, route.special)
    assert same.shared == route.shared
    for key in (b"$x", b"jobs/1"):
        route = world.routes.of(key)
        left, _ = route.without(had.__contains__)
        assert (left.closed, left.is_plain) == (route.closed, route.is_plain)
        assert left.is_shared_elsewhere == route.is_shared_elsewhere
        assert left.has_receivers == route.has_receivers
