"""Registrations expire at their time, the first one first, however many are put off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_directory.expiry import PUT_OFF_AT_ONCE, Expiry

NAMES = st.sampled_from("abcdef")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, st.integers(1, 9)),
        st.tuples(st.just("discard"), NAMES, st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(0, 9)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("count", [PUT_OFF_AT_ONCE, PUT_OFF_AT_ONCE + 1, 3 * PUT_OFF_AT_ONCE])
def test_none_of_many_that_are_put_off_expires_before_its_new_time(count: int) -> None:
    expiry = Expiry()
    keys = [f"{number:03}" for number in range(count)]
    for at in (10.0, 100.0):
        for key in keys:
            expiry.set(key, at)
    for _ in range(count):  # each look finds new places for some of them
        assert expiry.expired(99.0, count) == []
    assert expiry.next_timer() == 100.0
    assert sorted(expiry.expired(100.0, count)) == keys
    assert expiry.next_timer() is None


def test_a_look_takes_no_more_than_it_was_told_to_and_the_next_one_goes_on() -> None:
    expiry = Expiry()
    for at, key in enumerate("abc"):
        expiry.set(key, float(at))
    assert expiry.expired(5.0, 2) == ["a", "b"]
    assert expiry.next_timer() == 2.0
    assert expiry.expired(5.0, 2) == ["c"]


@given(STEPS)
def test_each_key_expires_at_its_latest_time_and_the_first_one_first(
    steps: list[tuple[str, str, int]],
) -> None:
    expiry, expected, now = Expiry(), dict[str, float](), 0.0
    for step, key, number in steps:
        if step == "set":
            expected[key] = now + number
            expiry.set(key, now + number)
        elif step == "discard":
            expected.pop(key, None)
            expiry.discard(key)
        else:
            now += number
        due = {one: at for one, at in expected.items() if at <= now}
        found = expiry.expired(now, 10)
        assert set(found) == due.keys()
        assert [due[one] for one in found] == sorted(due.values())
        for one in found:
            del expected[one]
        assert len(expiry) == len(expected)
        assert expiry.next_timer() == min(expected.values(), default=None)
