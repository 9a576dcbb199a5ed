"""Gateways that never come back are forgotten, and no others; those that do tell what they want."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import Replication
from tree_handler.routing.accounts import Accounts
from tree_handler.routing.destination import MAX_ASKED_STREAMS, Destination
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.unreachable import LONG_S, TELL_S, UnreachableGateways
from tree_handler.routing.wire import Ack, Ask

ALL = ("gw-b", "gw-c")


def test_who_was_away_for_long_and_for_longer_than_the_log_reaches_back_is_forgotten() -> None:
    away = UnreachableGateways()
    away.follow(ALL, {"gw-c"}, 0.0, position=500)
    assert away.over(2 * LONG_S, oldest=499) == []  # what it missed is still there
    assert away.over(LONG_S - 1, oldest=500) == []
    assert away.over(LONG_S, oldest=500) == ["gw-b"]
    assert away.over(LONG_S, oldest=500) == []
    assert len(away) == 0


def test_who_comes_back_in_time_is_not_forgotten_and_its_time_begins_anew() -> None:
    away = UnreachableGateways()
    away.follow(ALL, {"gw-c"}, 0.0, position=500)
    away.follow(ALL, {"gw-b", "gw-c"}, LONG_S - 1, position=600)
    away.follow(ALL, {"gw-c"}, LONG_S, position=700)
    assert away.over(LONG_S + 1, oldest=700) == []
    assert away.over(2 * LONG_S, oldest=700) == ["gw-b"]


def test_for_how_long_a_gateway_is_away_is_known_after_a_restart() -> None:
    away = UnreachableGateways()
    away.follow(ALL, {"gw-c"}, 0.0, position=500)
    again = UnreachableGateways()
    again.load(away.save(LONG_S / 2), 7.0)  # another clock
    again.follow(ALL, (), 7.0, position=900)
    assert again.over(7.0 + LONG_S / 2 - 1, oldest=900) == []
    assert again.over(7.0 + LONG_S / 2, oldest=900) == ["gw-b"]


def test_who_reached_nobody_or_somebody_not_for_long_tells_its_record_anew() -> None:
    away = UnreachableGateways()
    assert not away.follow(ALL, (), 0.0, 0)  # a start: its record is told anyway
    assert not away.follow(ALL, ALL, 1.0, 0)
    assert not away.follow(ALL, {"gw-c"}, 2.0, 0)
    assert not away.follow(ALL, ALL, 3.0, 0)  # a link that ends now and then costs nothing
    assert not away.follow(ALL, (), 4.0, 0)
    assert away.follow(ALL, ALL, 5.0, 0)  # this gateway may have been paused for a year
    away.follow(ALL, (), 6.0, 0)
    assert not away.follow(ALL, ALL, 7.0, 0)  # not more often
    away.follow(ALL, {"gw-c"}, 8.0 + TELL_S, 0)
    assert away.follow(ALL, ALL, 8.0 + LONG_S, 0)


def test_a_forgotten_gateway_is_no_destination_and_nothing_is_kept_of_it() -> None:
    interests, accounts = Interests("gw-a"), Accounts("gw-a", 2)
    for name in ALL:
        interests.update(Interest(name, 1, 1, frozenset({"a/#", f"{name}/#"})))
    accounts.ended(1, 3)
    accounts.accepted(2, 1, 10, ALL, 0.0)
    assert interests.destinations("a/b") == set(ALL)
    interests.forget("gw-b")
    accounts.forget("gw-b")
    assert interests.destinations("a/b") == interests.everyone == {"gw-c"}
    assert interests.destinations("gw-b/x") == frozenset()
    assert accounts.owed().keys() == {"gw-c"}
    assert len(accounts) == 2
    assert accounts.lost == 10
    assert accounts.last_for(2, ALL) == [("gw-b", 0), ("gw-c", 10)]
    interests.forget("gw-b")  # twice changes nothing
    assert interests.update(Interest("gw-b", 1, 1, frozenset({"a/#"})))  # and it may come back
    assert interests.destinations("a/b") == set(ALL)


def test_thirty_years_of_gateways_that_come_and_go_leave_those_that_are_there() -> None:
    away, interests = UnreachableGateways(), Interests("gw-a")
    day_s, position = 86_400.0, 0
    for month in range(360):
        names = [f"gw-{month + n}" for n in range(12)]
        for name in names:
            interests.update(Interest(name, 1, 1, frozenset({"#"})))
        known = [one.gateway_id for one in interests]
        now, position = month * 30 * day_s, position + 1_000
        away.follow(known, names, now, position)
        for gone in away.over(now, oldest=position - 1_000):
            interests.forget(gone)
        assert len(interests) <= 12 + 2
        assert len(away) <= 2


def test_requests_that_are_never_answered_are_remembered_up_to_a_bound() -> None:
    core = Replication("gw-a", 1, {}, RepairSettings(floods_clients=False), [])
    asks: list[Ask | Ack] = []

    def send(_: str, message: Ask | Ack) -> list[Any]:
        asks.append(message)
        return [message]

    destination = Destination(core, send, Counter())
    for epoch in range(1, 2 * MAX_ASKED_STREAMS):  # an origin that starts again each second
        destination.claimed(("gw-b", epoch), 5, 5, 0, float(epoch))
    assert len(asks) == 2 * MAX_ASKED_STREAMS - 1
    assert destination.asked == MAX_ASKED_STREAMS
    destination.forget("gw-b")
    assert destination.asked == 0
