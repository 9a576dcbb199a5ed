"""One user sends no faster than its rate, whatever its clients do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.shares.user_rates import MOST_USERS, UserRates
from tests.held_objects import held_objects

SIZES = st.lists(st.integers(1, 300_000), min_size=1, max_size=30)
RATE = 100_000


@given(SIZES, SIZES)
def test_who_waits_as_told_sends_no_faster_but_for_one_second_and_what_was_read_last(
    one: list[int], two: list[int]
) -> None:
    rates = UserRates(RATE)
    free_at_s = [0.0, 0.0]
    sent, last_s = 0, 0.0
    queues = [list(one), list(two)]
    while any(queues):
        at = min((n for n in (0, 1) if queues[n]), key=lambda n: free_at_s[n])
        now_s = max(free_at_s[at], last_s)
        assert sent <= RATE * (now_s + 1.0) + 2 * 300_000
        size = queues[at].pop()
        sent, last_s = sent + size, now_s
        free_at_s[at] = now_s + rates.wait_s("user", size, now_s)


@given(SIZES)
def test_what_one_user_sends_keeps_no_other_waiting(sizes: list[int]) -> None:
    rates = UserRates(RATE)
    for size in sizes:
        rates.wait_s("greedy", size, 0.0)
    assert rates.wait_s("modest", RATE, 0.0) == 0.0


def test_users_that_are_remembered_are_bounded() -> None:
    rates = UserRates(RATE)
    for number in range(MOST_USERS):
        rates.wait_s(number, 1, 0.0)
    held = held_objects(rates)
    for number in range(MOST_USERS, 3 * MOST_USERS):
        rates.wait_s(number, 1, 0.0)
    assert held_objects(rates) < 1.5 * held


def test_who_has_sent_nothing_for_longest_is_forgotten_first() -> None:
    rates = UserRates(RATE)
    for number in range(MOST_USERS):
        rates.wait_s(number, 2 * RATE, 0.0)
    rates.wait_s(0, 1, 0.0)
    rates.wait_s("one more", 1, 0.0)
    assert rates.wait_s(0, RATE, 0.0) > 1.0, "it sent last but one"
    assert rates.wait_s(1, RATE, 0.0) == 0.0
