"""A simulated gateway that asks others: what is answered, ends, or should not have been."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tree_handler.remote.query import Publication
from tree_handler.routing.locator import ReachUpdate
from tree_handler.simulation.querying_gateway import DEADLINE_S, QueryingGateway, RemoteOutcome
from tree_handler.simulation.remote import RemoteWorld


@dataclass
class Exchange:
    """Two gateways side by side: what one says the other hears at once, if anything is carried."""

    now: float = 0.0
    outcome: RemoteOutcome = field(default_factory=RemoteOutcome)
    written: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    carries: bool = True
    said: list[Publication] = field(default_factory=list)
    gateways: dict[str, QueryingGateway] = field(default_factory=dict)

    def say(self, sender: QueryingGateway, publication: Publication) -> None:
        self.said.append(publication)
        if self.carries:
            self.gateways[publication.receiver].receive(publication.topic, publication.payload)

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := min(one.next_timer() for one in self.gateways.values())) <= until:
            self.now = max(self.now, due)
            for one in self.gateways.values():
                one.tick()
        self.now = until


@pytest.fixture
def two() -> Exchange:
    world = Exchange()
    for name in ("gw-a", "gw-b"):
        world.gateways[name] = one = QueryingGateway(world, name, 1)
        one.locator.forwards({1})
    for name, other in (("gw-a", "gw-b"), ("gw-b", "gw-a")):
        world.gateways[name].locator.receive(1, ReachUpdate(True, {other: 1}))
        world.gateways[name].moved()
    return world


def test_what_is_answered_and_what_ends_without_an_answer_is_counted_once(two: Exchange) -> None:
    asker = two.gateways["gw-a"]
    asker.read("gw-b")
    asker.write("gw-b", b"1;")
    assert (two.outcome.answered, two.outcome.ended, two.written) == (2, 0, {b"1;"})
    assert asker.asked == {}
    two.carries = False
    for number in range(1, 4):
        asker.read("gw-b")
        two.wait(DEADLINE_S + 5.0)
        assert (two.outcome.answered, two.outcome.ended) == (2, number)
        assert asker.asked == {}
    assert two.outcome.violations == []


def test_who_observes_is_told_each_value_until_it_leaves(two: Exchange) -> None:
    asker, owner = two.gateways["gw-a"], two.gateways["gw-b"]
    asker.observe("gw-b", 7)
    assert asker.told == {7: b"gw-b:1.0"} == {7: owner.content}
    asker.write("gw-b", b"1;")
    assert asker.told == {7: b"gw-b:1.1"} == {7: owner.content}
    assert two.outcome.told == 2
    asker.leave(7)
    asker.write("gw-b", b"2;")
    assert (asker.told, asker.targets, two.outcome.told) == ({}, {}, 2)
    assert two.outcome.violations == []


def test_who_observes_a_gateway_that_is_gone_is_told_the_end(two: Exchange) -> None:
    asker = two.gateways["gw-a"]
    asker.observe("gw-b", 7)
    two.carries = False
    asker.locator.link_down(1)
    asker.moved()
    two.wait(60.0)
    assert (asker.told, asker.targets) == ({}, {})
    assert two.outcome.ended == 0


def test_a_write_that_is_carried_out_twice_is_found(two: Exchange) -> None:
    two.written.add(b"1;")
    two.gateways["gw-a"].write("gw-b", b"1;")
    assert two.outcome.violations == ["b'1;' was carried out twice"]


def test_an_answer_of_another_gateway_or_to_another_write_is_found(two: Exchange) -> None:
    asker = two.gateways["gw-a"]
    two.carries = False
    asker.read("gw-b")
    [(correlation, (target, body))] = asker.asked.items()
    assert (target, body) == ("gw-b", b"")
    asker.asked[correlation] = ("gw-c", b"")
    two.carries = True
    question = two.said[-1]
    two.gateways["gw-b"].receive(question.topic, question.payload)
    assert two.outcome.violations == ["gw-c was asked for b'', b'gw-b:1.0' came"]


def test_a_clock_that_sleeps_stands_still_and_its_timers_come_so_much_later(two: Exchange) -> None:
    asker = two.gateways["gw-a"]
    two.carries = False
    asker.read("gw-b")
    due = asker.next_timer()
    two.now = 1.0
    asker.sleep()
    assert asker.is_asleep
    assert asker.next_timer() == float("inf")
    two.now = 11.0
    assert (asker.now, asker.clock_at(99.0)) == (1.0, 1.0)
    asker.wake()
    asker.wake()
    assert (asker.is_asleep, asker.now, asker.next_timer()) == (False, 1.0, due + 10.0)
    assert asker.clock_at(99.0) == 89.0


def test_of_a_run_what_is_asked_is_answered_or_ends_and_copies_are_said_again() -> None:
    outcome = RemoteWorld(1, 3).run()
    assert outcome.violations == []
    assert outcome.answered > 50
    assert outcome.ended > 0
    assert outcome.told > 100
    assert outcome.copies > 20
