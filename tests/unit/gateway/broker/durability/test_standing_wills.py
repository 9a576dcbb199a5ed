"""Wills that may still have to be published: when they stand, and what a restart is told of it."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from gateway.broker.durability.changes import Changes
from gateway.broker.durability.journal import Event, Journal
from gateway.broker.durability.standing_wills import RestoredWills, SavedWill, StandingWills
from gateway.broker.hooks import Client
from gateway.mqtt import Will
from gateway.trust.tls.peer_certificate import PeerCertificate

ANNA = Client("c", "anna", "192.0.2.7", 5, PeerCertificate("anna", frozenset(("b", "a"))))
WILL = Will("w", b"gone", 1, True, {3: "text"})
NEXT = Will("w", b"again", 1, False)


class Standing:
    """The wills of a broker, and what was said of them since this was asked before."""

    def __init__(self) -> None:
        self.journal = Journal(("here", 1))
        self.changes = Changes()
        self.wills = StandingWills(self.journal, self.changes)

    def came(self, client_id: str = "c", will: Will | None = WILL) -> SavedWill | None:
        """A client comes, with a will or without; return how that stands."""
        before = set(self.changes.wills)
        self.wills.connected(Client(client_id, None, "", 5), will)
        for number in sorted(self.changes.wills - before):
            if (saved := self.wills.saved([number])[number]) is not None:
                return saved
        return None

    def said(self) -> tuple[list[Any], set[int]]:
        """The events of the journal, and the wills that the next checkpoint has to tell of."""
        events = msgpack.unpackb(self.journal.frame(), strict_map_key=False)[0]
        self.journal.has_written()
        return events, self.changes.take().wills

    def stands(self, number: int) -> SavedWill | None:
        return self.wills.saved([number])[number]


def stood(world: Standing) -> SavedWill:
    """A client's will stands, and all has been said of it."""
    saved = world.came()
    assert saved is not None
    world.said()
    return saved


def note(saved: SavedWill) -> list[Any]:
    """The event by which it stands."""
    roles = None if saved.roles is None else list(saved.roles)
    return [Event.WILL, *saved[:3], roles, *saved[4:]]


def test_a_will_stands_from_the_connect_on_as_its_client_and_it_were() -> None:
    world = Standing()
    world.wills.connected(ANNA, WILL)
    saved = SavedWill(1, "c", "anna", ("a", "b"), 5, "w", b"gone", 1, True, {3: "text"})
    assert world.stands(1) == saved
    assert world.said() == ([note(saved)], {1})
    assert (saved.client, saved.will) == (Client.away("c", "anna", ("a", "b"), 5), WILL)
    assert world.wills.is_latest(saved)


@pytest.mark.parametrize("will", [None, NEXT])
def test_the_next_connect_ends_it_and_a_new_one_has_the_next_number(will: Will | None) -> None:
    world = Standing()
    first = stood(world)
    second = world.came(will=will)
    more = [] if second is None else [note(second)]
    numbers = {1} if second is None else {1, 2}
    assert (second is None, world.stands(1)) == (will is None, None)
    assert world.said() == ([[Event.WILL_ENDED, first.number], *more], numbers)
    third = world.came("d")
    assert third is not None
    assert third.number == max(numbers) + 1


def test_one_that_ends_is_said_to_end_once() -> None:
    world = Standing()
    stood(world)
    world.wills.ended("nobody")
    assert world.said() == ([], set())
    world.wills.ended("c")
    assert (world.stands(1), world.said()) == (None, ([[Event.WILL_ENDED, 1]], {1}))
    world.wills.ended("c")
    assert world.said() == ([], set())


def test_one_that_is_published_is_said_so_by_the_batch_and_the_checkpoint_alone() -> None:
    world = Standing()
    saved = stood(world)
    assert world.wills.published("c") == saved
    assert world.wills.published("c") is None
    assert (world.stands(1), world.said()) == (None, ([], {1}))


def test_one_that_the_log_refused_stands_again_beside_its_clients_next() -> None:
    """A checkpoint in between may have said that it was published."""
    world = Standing()
    saved = stood(world)
    world.wills.published("c")
    second = world.came(will=NEXT)
    assert second is not None
    world.said()
    world.wills.refused(saved)
    assert world.said() == ([note(saved)], {1})
    assert world.wills.saved([1, 2, 3]) == {1: saved, 2: second, 3: None}
    assert [world.wills.is_latest(one) for one in (saved, second)] == [False, True]
    world.wills.tried_again(saved)
    assert (world.stands(1), world.said()) == (None, ([], {1}))
    assert (world.wills.is_latest(saved), world.stands(2)) == (True, second)


def test_one_that_is_given_up_ends_and_its_clients_next_does_not() -> None:
    world = Standing()
    saved = stood(world)
    world.wills.published("c")
    second = world.came(will=NEXT)
    world.wills.refused(saved)
    world.said()
    world.wills.given_up(saved)
    assert world.said() == ([[Event.WILL_ENDED, 1]], {1})
    assert world.wills.saved([1, 2]) == {1: None, 2: second}
    assert second is not None
    world.wills.given_up(second)
    assert world.said() == ([[Event.WILL_ENDED, 2]], {2})
    assert world.stands(2) is None


def named(number: int, client_id: str = "c") -> SavedWill:
    return SavedWill(number, client_id, None, None, 5, "w", b"%d" % number, 1, False, {})


def test_a_start_goes_on_with_what_stood_and_gives_no_number_again() -> None:
    """Of two of one client the log had refused the first: its coming would have ended it."""
    changes = Changes()
    found = RestoredWills([named(7), named(3), named(4, "d")], changes)
    world = Standing()
    world.wills.go_on(found)
    assert world.wills.saved([3, 4, 7]) == {3: named(3), 4: named(4, "d"), 7: named(7)}
    latest = [number for number, one in found.standing.items() if world.wills.is_latest(one)]
    assert latest == [7, 4]
    assert (world.said(), changes.wills) == (([], set()), set())
    third = world.came("e")
    assert third is not None
    assert third.number == 8
    assert world.wills.published("c") == named(7)


def test_the_first_will_of_a_broker_that_had_none_is_number_one() -> None:
    world = Standing()
    world.wills.go_on(RestoredWills([], Changes()))
    saved = world.came()
    assert saved is not None
    assert saved.number == 1


def test_the_journal_says_which_stand_since_the_checkpoint_and_which_was_the_highest() -> None:
    changes = Changes()
    found = RestoredWills([named(3), named(4, "d")], changes)
    assert found.highest == 4
    found.event(Event.WILL, [*named(9, "e")])
    found.event(Event.WILL_ENDED, [3])
    found.event(Event.WILL_ENDED, [11])
    assert found.standing == {4: named(4, "d"), 9: named(9, "e")}
    assert (found.highest, changes.wills) == (11, {3, 9, 11})


def test_what_was_announced_is_published_if_the_log_has_its_message_and_not_otherwise() -> None:
    changes = Changes()
    found = RestoredWills([named(number, f"{number}") for number in (1, 2, 3, 4, 5)], changes)
    for message, number in ((20, 1), (21, 2), (23, 3), (24, 4)):
        found.announced(message, number)
    found.batch(21, 23)
    assert (sorted(found.standing), changes.wills) == ([1, 4, 5], {2, 3})
    found.no_batch_came()
    found.batch(1, 99)
    assert (sorted(found.standing), changes.wills) == ([1, 4, 5], {2, 3})
