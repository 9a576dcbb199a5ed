"""A neighbour that changes its mind all the time moves the others as often as a tree needs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from gateway.base.event_log.bounded_lines import SUM_UP_S
from gateway.base.timers import Alarm
from gateway.node.links.link import Link
from gateway.node.links.link_log import EACH, LinkLog
from gateway.node.links.locator_part import AT_ONCE, GATHER_MAX_S, GATHER_S, LocatorPart
from gateway.node.links.word_rate import (
    HELLOS,
    MAX_NEIGHBOURS,
    REQUESTS,
    ROOTS,
    HelloPace,
    WordAllowance,
    WordRates,
)
from tree_handler.routing.locator import ReachUpdate
from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.election import Root

ONE, OTHER = (Root(name, 1, 1.0, "10.0.0.1") for name in ("gw-a", "gw-b"))
LINK = 3


def hello(number: int, root: Root = ONE, sender: str = "gw-x") -> Bpdu:
    return Bpdu(Kind.HELLO, number, sender, 1, 1.0, root)


def test_so_many_words_come_at_once_and_the_next_ones_at_a_steady_rate() -> None:
    rates = WordRates(WordAllowance(3, 0.5))
    assert [rates.wait_s("gw-x", 10.0) for _ in range(4)] == [0.0, 0.0, 0.0, 2.0]
    assert rates.wait_s("gw-y", 10.0) == 0.0, "each has its own"
    assert rates.wait_s("gw-x", 11.0) == 1.0
    assert [rates.wait_s("gw-x", 12.0) for _ in range(2)] == [0.0, 2.0]
    assert [rates.wait_s("gw-x", 1_000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 2.0]


def test_who_goes_on_beyond_the_rate_waits_behind_each_word_without_a_break() -> None:
    rates, now = WordRates(WordAllowance(3, 0.5)), 0.0
    assert [rates.spend("gw-x", now) for _ in range(3)] == [0.0, 0.0, 0.0]
    for _ in range(10):
        wait_s = rates.spend("gw-x", now)
        assert wait_s == 2.0
        now += wait_s
    assert rates.spend("gw-x", now, 5.0) == 10.0
    assert rates.spend("gw-x", now + 1_000.0) == 0.0


def test_as_many_neighbours_are_remembered_as_there_may_be_and_who_is_quiet_goes() -> None:
    rates = WordRates(WordAllowance(2, 0.001))
    rates.wait_s("gw-x", 0.0)
    for number in range(2 * MAX_NEIGHBOURS):
        rates.wait_s(f"gw-{number}", 1.0)
        assert number > MAX_NEIGHBOURS / 2 or rates.wait_s("gw-x", 1.0) or number == 0
    assert rates.wait_s("gw-x", 1.0) == 0.0


def test_of_hellos_beyond_the_rate_the_last_one_counts() -> None:
    pace = HelloPace()
    passed = [number for number in range(1_000) if pace.may_pass(LINK, hello(number), 0.0)]
    assert passed == list(range(int(HELLOS.at_once)))
    due = pace.next_timer()
    assert due == pytest.approx(1 / HELLOS.per_s)
    assert pace.take_due(due / 2) == []
    assert [(link, one.number) for link, one in pace.take_due(due + 0.001)] == [(LINK, 999)]
    assert pace.next_timer() == math.inf


def test_a_neighbour_names_another_root_again_and_again_more_seldom_than_it_says_hello() -> None:
    pace = HelloPace()
    passed = [pace.may_pass(LINK, hello(n, (ONE, OTHER)[n % 2]), 0.0) for n in range(50)]
    assert sum(passed) == 1 + ROOTS.at_once
    assert pace.next_timer() == pytest.approx(1 / ROOTS.per_s)
    pace.link_down(LINK)
    assert pace.next_timer() == math.inf
    assert pace.may_pass(LINK + 1, hello(1, OTHER), 0.0), "the first hello of a link"
    assert not pace.may_pass(LINK + 1, hello(2, ONE), 0.0), "what it said before counts there"
    assert pace.may_pass(LINK + 2, hello(1, ONE, "gw-y"), 0.0)


def test_requests_for_a_newer_sequence_are_passed_on_so_often_and_agreements_all() -> None:
    pace = HelloPace()
    asked = [replace(hello(n), kind=Kind.SEQUENCE_REQUEST, sequence=n) for n in range(500)]
    assert sum(pace.may_pass(LINK, one, 0.0) for one in asked) == REQUESTS.at_once
    assert pace.may_pass(LINK, hello(1), 0.0), "of their own"
    join = replace(hello(2), kind=Kind.JOIN)
    assert all(pace.may_pass(LINK, join, 0.0) for _ in range(500))
    assert pace.take_due(1 / REQUESTS.per_s + 0.001) == [(LINK, asked[-1])]


def test_a_hello_that_is_kept_gives_way_to_the_same_as_before() -> None:
    pace = HelloPace()
    now = 0.0
    while pace.may_pass(LINK, hello(1, ONE), now) and pace.may_pass(LINK, hello(2, OTHER), now):
        now += 0.2
    last = hello(3, OTHER)
    assert not pace.may_pass(LINK, last, now)
    assert pace.take_due(now + 1 / ROOTS.per_s + 0.001) == [(LINK, last)]


class Told:
    """A part that locates gateways, and what it has told a neighbour over another link."""

    def __init__(self) -> None:
        self.told: list[ReachUpdate] = []
        self.moves = 0
        links = frozenset((1, 2))
        self.part = LocatorPart(("gw", 1), lambda: links, self._send)
        self.part.tree_changed(0.0)
        self.part.tell_of_moves(self._moved)
        self.told.clear()

    def _send(self, link: int, topic: bytes, payload: bytes) -> None:
        if link == 2:
            self.told.append(ReachUpdate.decode(payload))

    def _moved(self, now: float) -> None:
        self.moves += 1

    def hear(self, life: int, now: float) -> None:
        update = ReachUpdate(False, {"gw-z": life})
        self.part.receive(1, b"$hedgerow/behind", update.encode(), now)


def test_who_moves_without_end_is_told_of_at_a_bounded_rate_and_where_it_is_in_the_end() -> None:
    to = Told()
    for life in range(1, 5_000):
        to.hear(life, 0.0)
    assert len(to.told) == to.moves == AT_ONCE.at_once
    assert to.part.next_timer() == GATHER_S
    to.part.handle_timer(GATHER_S / 2)
    assert len(to.told) == AT_ONCE.at_once
    to.part.handle_timer(GATHER_S)
    assert to.told[-1].added == {"gw-z": 4_999}
    assert len(to.told) == AT_ONCE.at_once + 1
    assert to.part.epoch_of("gw-z") == 4_999
    assert to.part.next_timer() == math.inf


def test_words_of_thousands_of_gateways_count_as_many() -> None:
    to = Told()
    there = ReachUpdate(True, {f"gw-{number}": 1 for number in range(5_000)}).encode()
    nowhere = ReachUpdate(True, {}).encode()
    now = 0.0
    for payload in [there, nowhere] * 100:
        to.part.receive(1, b"$hedgerow/behind", payload, now)
        now += 0.01
        to.part.handle_timer(now)
    assert len(to.told) < 40
    now += GATHER_MAX_S
    to.part.handle_timer(now)
    assert to.part.reached == frozenset()
    assert len(to.told[-1].removed) == 5_000


class Clock:
    """A clock that a test sets, and what is due on it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Alarm:
        self.due.append((self.now + delay, callback))
        return cast(Alarm, SimpleNamespace(cancel=self.due.clear))


def link_to(peer_id: str, number: int) -> Link:
    link = Link("10.0.0.1:1")
    link.peer_id, link.number = peer_id, number
    return link


async def test_links_that_come_and_go_fill_no_log_and_hide_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    log = LinkLog(clock)
    fickle, other = link_to("gw-x", 1), link_to("gw-b", 2)
    for _ in range(1_000):
        log.up(fickle)
        log.down(fickle, "closed by gw-x")
        log.changed("HELLO from gw-x")
    log.up(other)
    assert len(caplog.messages) == 2 * EACH.at_once + 1
    assert caplog.messages[-1] == "link 2 to gw-b (10.0.0.1:1) is up"
    ((at_s, sum_up),) = clock.due
    assert at_s == SUM_UP_S
    sum_up()
    assert caplog.messages[-1] == (
        "more links and changes than lines: another 980 changes of the tree, 990 links down, "
        "990 links up"
    )
    log.down(other, "this gateway stops")
    log.close()
    assert caplog.messages[-1] == "link 2 to gw-b is down: this gateway stops"
