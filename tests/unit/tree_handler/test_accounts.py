"""An origin's accounts: what it owes whom, when it claims that, and what it keeps at most."""

from __future__ import annotations

import math

import pytest

from tree_handler.intervals import Intervals
from tree_handler.routing.accounts import Accounts

NOW = 100.0
B, C = "gw-b", "gw-c"


def accounts(epoch: int = 300) -> Accounts:
    return Accounts("gw-a", epoch)


def odd(count: int) -> Intervals:
    """So many ranges of one number each."""
    return Intervals((number, number) for number in range(1, 2 * count, 2))


def every(accepted: Accounts, gateway_id: str, epoch: int = 300) -> Intervals:
    return accepted.wanted(gateway_id, epoch, Intervals([(1, 10_000)]))


def claimed(here: Accounts, now: float, reached: tuple[str, ...] = (B, C)) -> object:
    return list(here.claims(reached, now))


def test_a_batch_tells_each_gateway_which_number_was_its_last_before() -> None:
    here = accounts()
    assert here.last_for(300, (B, C)) == [(B, 0), (C, 0)]
    assert here.accepted(300, 1, 3, (B, C), NOW) == [(B, 0), (C, 0)]
    assert here.accepted(300, 5, 6, (B,), NOW) == [(B, 3)]
    assert here.last_for(300, (B, C, "gw-d")) == [(B, 6), (C, 3), ("gw-d", 0)]
    assert here.accepted(300, 7, 9, (C,), NOW) == [(C, 3)]
    assert [here.tail(one, 300) for one in (B, C, "gw-d")] == [(6, 9), (9, 9), (0, 9)]
    assert here.tail(B, 299) == (0, 0)
    assert every(here, B) == Intervals([(1, 3), (5, 6)])
    assert here.wanted(B, 300, Intervals([(3, 5)])) == Intervals([(3, 3), (5, 5)])
    assert [here.before(B, 300, number) for number in (1, 4, 5, 7)] == [0, 3, 3, 6]
    assert (here.before("gw-d", 300, 9), every(here, "gw-d"), len(here)) == (0, Intervals(), 2)


def test_what_nobody_says_he_has_is_claimed_ever_more_seldom_until_every_ten_seconds() -> None:
    here = accounts()
    here.accepted(300, 1, 2, (B,), NOW)
    here.accepted(300, 3, 3, (B,), NOW + 0.4)  # does not put it off
    times: list[float] = []
    while len(times) < 8:
        due = here.due_at
        assert claimed(here, due - 0.01) == []
        assert here.due_at == due
        assert claimed(here, due) == [(("gw-a", 300), 3, [(B, 3, 0)])]
        times.append(due - NOW)
    assert times == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 26.0, 36.0]
    here.covered(B, 300, 2, NOW + 40)  # all but the last: it is claimed soon again
    assert here.due_at == NOW + 40.5
    here.covered(B, 300, 3, NOW + 41)
    here.covered(B, 300, 1, NOW + 42)  # of before, and overtaken
    assert claimed(here, NOW + 99) == []
    assert here.due_at == math.inf


def test_of_who_is_out_of_reach_nothing_is_claimed_until_it_is_back() -> None:
    here = accounts()
    here.accepted(300, 1, 1, (B, C), NOW)
    here.answered(B, 300, 7)
    here.answered("gw-d", 300, 7)
    assert claimed(here, NOW + 1, (C,)) == [(("gw-a", 300), 1, [(C, 1, 0)])]
    assert here.due_at == NOW + 1.5
    here.claim_anew({B}, NOW + 2, restarted=False)
    assert here.due_at == NOW + 2
    assert claimed(here, NOW + 2) == [(("gw-a", 300), 1, [(B, 1, 7), (C, 1, 0)])]
    here.covered(B, 300, 1, NOW + 3)
    here.claim_anew({B, "gw-d"}, NOW + 4, restarted=False)
    assert here.owed() == {C: 1}
    here.claim_anew({B}, NOW + 4, restarted=True)
    assert here.owed() == {B: 1, C: 1}
    assert claimed(here, NOW + 4, (B,)) == [(("gw-a", 300), 1, [(B, 1, 0)])]


def test_the_request_that_was_answered_last_is_known_and_no_other() -> None:
    here = accounts()
    here.accepted(300, 1, 1, (B,), NOW)
    assert not here.has_answered(B, 300, 0)
    here.answered(B, 300, 2)
    assert [here.has_answered(B, 300, number) for number in (1, 2, 3)] == [False, True, False]
    assert not here.has_answered(C, 300, 2)
    assert not here.has_answered(B, 299, 2)


def test_who_asks_for_what_it_said_it_has_is_owed_it_again() -> None:
    here = accounts()
    here.accepted(300, 1, 9, (B,), NOW)
    here.covered(B, 300, 9, NOW)
    here.asks(B, 300, Intervals([(10, 12)]), NOW)  # not for it
    here.asks(C, 300, Intervals([(1, 1)]), NOW)
    assert (here.owed(), claimed(here, NOW + 9)) == ({}, [])
    here.asks(B, 300, Intervals([(9, 9)]), NOW + 10)
    assert here.owed() == {B: 1}
    assert claimed(here, NOW + 10.4) == []
    assert claimed(here, NOW + 10.5) == [(("gw-a", 300), 9, [(B, 9, 0)])]
    here.asks(B, 300, Intervals([(4, 5), (7, 7)]), NOW + 10.6)
    assert here.owed() == {B: 6}  # from 4 on
    assert here.due_at == NOW + 11


def test_257_lives_are_kept_and_the_earliest_goes_first() -> None:
    here = accounts()
    for epoch in range(44, 301):
        here.ended(epoch, epoch)
    assert sorted(here.streams) == list(range(44, 301))
    here.ended(43, 9)
    assert (min(here.streams), len(here.streams)) == (44, 257)
    here.owe(43, Intervals([(1, 1)]), (B,), NOW)  # older than all that are kept
    here.for_everybody(43, Intervals([(1, 1)]))
    assert (len(here), min(here.streams), here.saved_up_to(43)) == (0, 44, 0)
    here.load([[43, 9, [[B, 0, [[1, 9]]]]]], NOW)
    assert (len(here), min(here.streams), here.due_at) == (0, 44, math.inf)
    here.load([[301, 9, [[B, 0, [[1, 9]]]]]], NOW)
    assert (len(here), min(here.streams), here.saved_up_to(301)) == (1, 45, 9)
    here.ended(300, 2)  # it had ended with a later one
    assert here.tail(B, 300) == (0, 300)


@pytest.mark.parametrize("way", ["accepted", "owe", "for everybody"])
def test_of_more_than_256_ranges_gaps_of_the_older_half_are_filled_and_none_is_lost(
    way: str,
) -> None:
    here = accounts()
    here.ended(300, 513)
    numbers = odd(257)
    for part in (odd(256), numbers):
        if way == "accepted":
            for first, last in part:
                here.accepted(300, first, last, (B,), NOW)
        elif way == "owe":
            here.owe(300, part, (B,), NOW)
        else:
            here.for_everybody(300, part)
            here.forget(B)
            here.met(B, NOW)
        kept = every(here, B)
        if part != numbers:
            assert kept == part
    assert numbers.without(kept) == Intervals()
    filled = Intervals((first, first) for first in range(2, 256, 4))
    assert kept.without(numbers) == filled
    assert len(kept) == 257 - 64


def test_what_the_log_drops_is_lost_for_who_has_not_said_that_it_has_it() -> None:
    here = accounts()
    here.accepted(300, 1, 10, (B, C), NOW)
    here.covered(C, 300, 10, NOW)
    here.trimmed({("gw-a", 300): 1, ("gw-x", 300): 9})
    assert (here.lost, here.owed()) == (0, {B: 10})
    here.trimmed({("gw-a", 300): 5})
    assert (here.lost, here.owed()) == (4, {B: 6})
    assert every(here, C) == Intervals([(5, 10)])
    here.trimmed({("gw-a", 300): 11})
    assert (here.lost, here.owed()) == (10, {})
    assert claimed(here, NOW + 1) == [(("gw-a", 300), 10, [(B, 0, 0)])]  # that they do not come
    here.covered(B, 300, 10, NOW + 1)
    assert claimed(here, NOW + 9) == []
    here.accepted(300, 11, 12, (B,), NOW + 9)
    here.forget(B)
    here.forget("gw-d")
    assert (here.lost, len(here), here.owed()) == (12, 1, {})


def test_what_is_for_everybody_is_owed_whoever_is_met_and_goes_with_the_log() -> None:
    here = accounts()
    here.ended(300, 9)
    here.for_everybody(300, Intervals([(2, 8)]))
    assert here.last_for(300, (B,)) == [(B, 8)]
    here.trimmed({("gw-a", 300): 4})
    here.met(B, NOW)
    assert (every(here, B), here.due_at) == (Intervals([(4, 8)]), NOW)
    assert here.accepted(300, 10, 10, (C,), NOW) == [(C, 8)]
    assert claimed(here, NOW) == [(("gw-a", 300), 10, [(B, 8, 0)])]


def test_who_gets_its_first_message_of_a_life_is_told_how_the_earlier_ones_ended() -> None:
    here = accounts()
    here.ended(299, 7)
    here.ended(298, 0)
    here.ended(301, 5)
    here.accepted(300, 1, 1, (B,), NOW)
    assert claimed(here, NOW) == [(("gw-a", 299), 7, [(B, 0, 0)])]
    here.covered(B, 299, 7, NOW)
    assert claimed(here, NOW + 0.5) == [(("gw-a", 300), 1, [(B, 1, 0)])]


def test_what_is_saved_is_taken_up_as_it_was_and_all_that_is_open_is_claimed() -> None:
    here = accounts()
    here.ended(299, 4)
    here.for_everybody(299, Intervals([(1, 2)]))
    here.accepted(300, 1, 3, (B, C), NOW)
    here.accepted(300, 5, 5, (C,), NOW)
    here.covered(B, 300, 3, NOW)
    rows = here.save()
    assert rows == [
        [299, 4, [[B, 0, [(1, 2)]], [C, 0, [(1, 2)]], ["", 0, [(1, 2)]]]],
        [300, 5, [[B, 3, [(1, 3)]], [C, 0, [(1, 3), (5, 5)]]]],
    ]
    again = accounts()
    again.load(rows, NOW + 1)
    assert again.save() == rows
    assert (again.due_at, again.saved_up_to(299), again.saved_up_to(300)) == (NOW + 1, 4, 5)
    assert again.owed() == {B: 2, C: 6}
    assert claimed(again, NOW + 1) == [
        (("gw-a", 299), 4, [(B, 2, 0), (C, 2, 0)]),
        (("gw-a", 300), 5, [(C, 5, 0)]),
    ]


def test_what_is_for_everybody_is_kept_in_256_ranges_too() -> None:
    here = accounts()
    here.ended(300, 513)
    here.for_everybody(300, odd(256))
    assert here.save() == [[300, 513, [["", 0, list(odd(256))]]]]
    here.for_everybody(300, odd(257))
    ((_, _, ((_, _, kept),)),) = here.save()
    assert len(kept) == 257 - 64
