"""Missing batches are asked of one neighbour at a time, and then of another."""

from __future__ import annotations

import pytest

from tree_handler import batch
from tree_handler.batch import MAX_NUMBER, Epoch, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.anti_entropy import MAX_REQUEST_NUMBERS, AntiEntropy
from tree_handler.replication.neighbour_picture import MAX_FRUITLESS
from tree_handler.replication.repair import Summary

STREAM = ("origin", 1)
TIMEOUT_S = 5.0


def two_who_have_it(have: dict[Epoch, Intervals]) -> AntiEntropy:
    """Both neighbours have the numbers 1 to 5, none of which is here; link 1 is asked first."""
    neighbours = AntiEntropy(have, lambda _: True, TIMEOUT_S)
    for link in (1, 2):
        neighbours.link_up(link)
        neighbours.told(link, Summary({STREAM: Intervals([(1, 5)])}, completes=True))
    assert [asked.link for asked in neighbours.ask_all(0.0)] == [1]
    return neighbours


def test_who_does_not_answer_is_asked_again_after_all_others() -> None:
    neighbours = two_who_have_it({})
    asked = [
        request.link
        for now in range(1, int(5 * TIMEOUT_S))
        for request in neighbours.handle_timer(float(now))
    ]
    assert asked == [2, 1, 2, 1]


def test_who_is_still_sending_is_waited_for() -> None:
    neighbours = two_who_have_it({})
    neighbours.progressed(1, TIMEOUT_S - 1.0)
    assert neighbours.handle_timer(TIMEOUT_S) == []
    assert [asked.link for asked in neighbours.handle_timer(2 * TIMEOUT_S)] == [2]


def test_what_a_neighbour_says_it_has_and_does_not_send_is_asked_of_another() -> None:
    have: dict[Epoch, Intervals] = {}
    neighbours = two_who_have_it(have)
    _, header = batch.make(*STREAM, 1, [("t", 1, b"")] * 2, flags=Flags.LOGGED, origin_time_us=0)
    neighbours.came(1, header)
    have[STREAM] = Intervals([(1, 2)])
    assert neighbours.done(1, 1.0) == []
    (asked,) = neighbours.handle_timer(2.0)
    assert asked.link == 2
    assert asked.request.wanted == {STREAM: Intervals([(3, 5)])}


def test_what_is_asked_of_one_is_asked_of_another_when_that_one_is_gone() -> None:
    neighbours = two_who_have_it({})
    (asked,) = neighbours.link_down(1, 1.0)
    assert asked.link == 2
    assert asked.request.wanted == {STREAM: Intervals([(1, 5)])}


def unproven(neighbours: AntiEntropy, link: int, now: float) -> None:
    """A neighbour sends all five, and there is no certificate here that proves them."""
    _, header = batch.make(*STREAM, 1, [("t", 1, b"")] * 5, flags=Flags.LOGGED, origin_time_us=0)
    neighbours.came(link, header)
    neighbours.offered(link, header)
    assert neighbours.done(link, now) == []


def one_who_has_it() -> AntiEntropy:
    neighbours = AntiEntropy({}, lambda _: True, TIMEOUT_S, must_prove=True)
    neighbours.link_up(1)
    neighbours.told(1, Summary({STREAM: Intervals([(1, 5)])}, completes=True))
    assert [asked.link for asked in neighbours.ask_all(0.0)] == [1]
    unproven(neighbours, 1, 0.0)
    return neighbours


def test_what_nobody_can_prove_is_asked_for_ever_more_seldom_up_to_once_a_minute() -> None:
    neighbours = one_who_has_it()
    asked = []
    for now in range(1, 400):
        if neighbours.handle_timer(float(now)):
            asked.append(now)
            unproven(neighbours, 1, float(now))
    assert asked == [10, 30, 70, 130, 190, 250, 310, 370]


def test_other_numbers_are_not_put_off_and_a_new_certificate_ends_the_wait() -> None:
    neighbours = one_who_has_it()
    neighbours.told(1, Summary({STREAM: Intervals([(1, 7)])}, completes=True))
    (more,) = neighbours.ask_all(1.0)
    assert more.request.wanted == {STREAM: Intervals([(6, 7)])}
    (all_,) = neighbours.ask_anew(2.0)
    assert all_.request.wanted == {STREAM: Intervals([(1, 7)])}
    assert neighbours.is_catching_up()


def test_what_was_put_off_counts_as_what_a_neighbour_can_send() -> None:
    neighbours = one_who_has_it()
    assert list(neighbours.can_send(STREAM)) == [Intervals([(1, 5)])]
    assert neighbours.out_of_reach({STREAM: 5}) == {}


def one_who_is_late(have: dict[Epoch, Intervals]) -> AntiEntropy:
    """It has 1 to 5, and did not answer in time so often that it counts as silent, at 15 s."""
    neighbours = AntiEntropy(have, lambda _: True, TIMEOUT_S, must_prove=True)
    neighbours.link_up(1)
    neighbours.told(1, Summary({STREAM: Intervals([(1, 5)])}, completes=True))
    assert len(neighbours.ask_all(0.0)) == 1
    asked = [now for now in (5.0, 10.0, 15.0) if neighbours.handle_timer(now)]
    assert asked == [5.0, 10.0]
    assert list(neighbours.can_send(STREAM)) == [Intervals()]
    return neighbours


def answer(first: int, last: int) -> batch.Header:
    rows = [("t", 1, b"")] * (last - first + 1)
    _, header = batch.make(STREAM[0], STREAM[1], first, rows, flags=Flags.LOGGED, origin_time_us=0)
    return header


def test_who_leaves_all_unanswered_is_asked_ever_more_seldom_and_never_given_up() -> None:
    neighbours = one_who_is_late({})
    asked = [now for now in range(15, 86_400, 5) if neighbours.handle_timer(float(now))]
    assert asked[:5] == [25, 50, 95, 180, 345]
    assert len(asked) > 86_400 / 700
    assert list(neighbours.can_send(STREAM)) == [Intervals()]
    assert not neighbours.is_catching_up()


@pytest.mark.parametrize("must_prove", [True, False])
def test_a_neighbour_that_sends_some_each_time_or_needs_no_proof_is_asked_at_every_time_out(
    must_prove: bool,
) -> None:
    neighbours = AntiEntropy({}, lambda _: True, TIMEOUT_S, must_prove=must_prove)
    neighbours.link_up(1)
    neighbours.told(1, Summary({STREAM: Intervals([(1, 5)])}, completes=True))
    assert len(neighbours.ask_all(0.0)) == 1
    for times in range(1, 12):
        if must_prove:
            neighbours.came(1, answer(1, 1))
        assert len(neighbours.handle_timer(times * TIMEOUT_S)) == 1
        assert list(neighbours.can_send(STREAM)) == [Intervals([(1, 5)])]


def test_what_comes_late_shows_that_a_neighbour_is_not_silent() -> None:
    neighbours = one_who_is_late({})
    neighbours.came(1, answer(1, 1))
    assert list(neighbours.can_send(STREAM)) == [Intervals([(1, 5)])]
    assert [asked.link for asked in neighbours.handle_timer(20.0)] == [1]


def test_a_late_word_that_this_was_all_shows_it_too_and_the_rest_is_asked_for_at_once() -> None:
    have: dict[Epoch, Intervals] = {}
    neighbours = one_who_is_late(have)
    have[STREAM] = Intervals([(1, 4)])
    (asked,) = neighbours.done(1, 16.0)
    assert asked.request.wanted == {STREAM: Intervals([(5, 5)])}


def test_the_word_on_a_request_that_was_given_up_ends_none_that_came_after_it() -> None:
    have: dict[Epoch, Intervals] = {}
    neighbours = AntiEntropy(have, lambda _: True, TIMEOUT_S, must_prove=True)
    neighbours.link_up(1)
    neighbours.told(1, Summary({STREAM: Intervals([(1, 5)])}, completes=True))
    assert neighbours.ask_all(0.0)
    assert neighbours.handle_timer(5.0)
    assert neighbours.done(1, 6.0) == []  # the first request's; the second's answer is to come
    assert list(neighbours.can_send(STREAM)) == [Intervals([(1, 5)])]
    assert neighbours.is_asking
    neighbours.came(1, answer(1, 5))
    have[STREAM] = Intervals([(1, 5)])
    assert neighbours.done(1, 7.0) == []
    assert not neighbours.is_asking


def test_a_word_that_never_comes_makes_none_wait_longer_than_a_request_may_take() -> None:
    neighbours = AntiEntropy({}, lambda _: True, TIMEOUT_S, must_prove=True)
    neighbours.link_up(1)
    neighbours.told(1, Summary({STREAM: Intervals([(1, 5)])}, completes=True))
    assert neighbours.ask_all(0.0)
    assert neighbours.handle_timer(5.0)  # the first one is lost for good
    assert neighbours.done(1, 6.0) == []
    assert neighbours.handle_timer(11.0) == []  # so this was the second's: the five are not there
    assert list(neighbours.can_send(STREAM)) == [Intervals()]
    neighbours.told(1, Summary({STREAM: Intervals([(1, 6)])}))
    assert neighbours.ask_all(12.0)
    assert neighbours.done(1, 13.0) == []
    assert not neighbours.is_asking


def test_who_claims_all_numbers_and_sends_none_is_asked_ever_more_seldom() -> None:
    have: dict[Epoch, Intervals] = {}
    neighbours = AntiEntropy(have, lambda _: True, TIMEOUT_S, must_prove=True)
    neighbours.link_up(1)
    neighbours.told(1, Summary({STREAM: Intervals([(1, MAX_NUMBER)])}, completes=True))
    asked = [0.0 for _ in neighbours.ask_all(0.0)]
    for now in range(3_600):
        requests = neighbours.done(1, float(now)) if len(asked) > 0 else []
        while requests and len(asked) < 1_000:
            asked.append(float(now))
            requests = neighbours.done(1, float(now))
        asked += [float(now) for _ in neighbours.handle_timer(float(now))]
    assert len(asked) <= 20
    assert asked.count(0.0) <= MAX_FRUITLESS
    # What it does send is asked for at once again.
    while not neighbours.is_asking:
        now += 1
        neighbours.handle_timer(float(now))
    first = MAX_REQUEST_NUMBERS * (len(asked)) + 1
    _, header = batch.make(*STREAM, first, [("t", 1, b"")], flags=Flags.LOGGED, origin_time_us=0)
    neighbours.came(1, header)
    have[STREAM] = Intervals([(first, first)])
    assert neighbours.done(1, float(now))
