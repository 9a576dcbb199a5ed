"""Tables whose items may be long are bounded in bytes, not only in number."""

from __future__ import annotations

from gateway.broker.hooks import Client
from gateway.broker.inbound import authorization_cache
from gateway.broker.inbound.authorization_cache import AuthorizationCache
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound import aliases
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Grant, Route, Target
from gateway.broker.sessions.session import Session
from gateway.broker.topics import route_cache
from gateway.broker.topics.route_cache import RouteCache
from tree_handler.retained import tombstones
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import RetainedVersions

LONG = "x" * 4_000


def test_decisions_on_long_topics_are_forgotten_before_there_are_as_many_as_of_short_ones() -> None:
    made = AuthorizationCache(10_000)
    most = 0
    for number in range(3_000):
        made.note(f"{LONG}{number}", allowed=True)
        most = max(most, sum(map(len, made.kept)))
        assert made.kept[f"{LONG}{number}"]
    assert authorization_cache.BYTES_MAX // 2 < most <= authorization_cache.BYTES_MAX
    made.forget()
    for number in range(20_000):
        made.note(f"a/{number:030d}", allowed=number % 2 == 0)
        assert len(made.kept) <= 10_000
    assert len(made.kept) == 10_000


def test_long_topics_share_what_aliases_towards_a_client_may_take() -> None:
    made, sent = OutgoingAliases(64), 0
    for number in range(64):
        topic = f"{LONG}{number}"
        packet = Message(topic, topic.encode(), b"", 0, False).packet(5, 0, 0, (), 0.0)
        made.shorten(packet)
        sent += made.shorten(packet) != packet
    assert 0 < sent <= aliases.BYTES_MAX // len(LONG)


def test_routes_to_many_receivers_are_forgotten_before_they_take_too_much() -> None:
    cache: RouteCache[str] = RouteCache()
    size = route_cache.ROUTES_BYTES_MAX // 100
    for number in range(1_000):
        cache.put(b"t/%d" % number, "route", size)
        assert len(cache) <= 100
        assert cache.kept[b"t/%d" % number] == "route"
    assert len(cache) > 50


def test_a_route_tells_what_it_takes_with_its_receivers() -> None:
    route = Route("t", b"t")
    alone = route.size_bytes
    assert alone >= 400
    grant = Grant(1, False, tuple(range(1, 11)))
    limits = Limits()
    session = Session(Client.away("a", None, (), 5), limits, Budget(limits))
    route.special = [Target(session, grant, grant)] * 100
    assert route.size_bytes >= alone + 100 * 300


def test_deleted_topics_that_are_long_are_remembered_within_as_many_bytes() -> None:
    many = tombstones.BYTES_MAX // len(LONG) * 2
    made = RetainedVersions(retention_s=1e9)
    for number in range(many):
        version = RetainedVersion(1_000 + number, 0, "gw", 1)
        assert made.bury(f"{number}{LONG}", Tombstone(version, number, 1, float(number)), number)
    gone = made.expire(float(many), many)
    assert len(gone) == made.dropped_early > 0
    assert gone[0] == f"0{LONG}"
    held = many - len(gone)
    assert made.tombstones == held
    assert held * len(LONG) <= tombstones.BYTES_MAX < (held + 2) * (len(LONG) + 5)
