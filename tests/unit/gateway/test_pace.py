"""How much is done at a time: portions that grow while they cost little, and the turn's end."""

import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.pace import Pace


class ClockByHand:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def begun(
    clock: ClockByHand, *, turn_s: float = 1.0, portion: int = 8, portion_max: int = 64
) -> Pace:
    pace = Pace(clock, turn_s, portion, portion_max)
    pace.begin(clock.now_s)
    return pace


def test_a_portion_doubles_while_less_than_half_of_the_turn_is_used() -> None:
    clock = ClockByHand()
    pace = begun(clock)

    sizes = []
    for used_s in (0.25, 0.25, 0.25, 0.25):
        clock.now_s += used_s
        assert pace.goes_on(pace.left)
        sizes.append(pace.left)

    assert sizes == [16, 16, 16, 16]


def test_a_portion_never_grows_beyond_its_limit() -> None:
    pace = begun(ClockByHand(), portion=8, portion_max=32)

    assert all(pace.goes_on(pace.left) for _ in range(10))
    assert pace.left == 32


def test_steps_that_do_not_end_a_portion_do_not_look_at_the_clock() -> None:
    clock = ClockByHand()
    pace = begun(clock, portion=8)
    clock.now_s += 5

    assert all(pace.goes_on(1) for _ in range(7))
    assert not pace.goes_on(1)


def test_steps_beyond_a_portion_are_no_debt_of_the_next_one() -> None:
    pace = begun(ClockByHand(), portion=8)

    assert pace.goes_on(1_000)
    assert pace.left == 16


def test_a_turn_ends_when_its_time_is_used() -> None:
    clock = ClockByHand()
    pace = begun(clock)
    clock.now_s += 1.0
    assert pace.goes_on(pace.left)
    assert not pace.is_over

    clock.now_s += 0.25

    assert not pace.goes_on(pace.left)
    assert pace.is_over


def test_the_next_turn_begins_with_a_small_portion_and_all_of_its_time() -> None:
    clock = ClockByHand()
    pace = begun(clock)
    pace.goes_on(pace.left)
    clock.now_s += 5
    assert not pace.goes_on(pace.left)

    pace.begin(clock.now_s)

    assert pace.left == 8
    assert pace.goes_on(pace.left)


def test_a_turn_without_end_goes_on_however_late_it_is() -> None:
    clock = ClockByHand()
    pace = begun(clock)
    pace.begin(math.inf)

    clock.now_s += 1e9

    assert pace.goes_on(pace.left)
    assert not pace.is_over


def test_no_turn_is_under_way_before_the_first() -> None:
    assert Pace(ClockByHand(), 1.0, 8).is_over


@given(st.lists(st.integers(1, 4_000), min_size=1), st.integers(1, 64), st.integers(0, 6))
def test_work_ends_within_one_portion_of_its_time_whatever_a_step_costs(
    costs_us: list[int], portion: int, doublings: int
) -> None:
    clock = ClockByHand()
    pace = begun(clock, turn_s=0.01, portion=portion, portion_max=portion << doublings)
    began_s, at, goes_on = clock.now_s, 0, True
    while goes_on and at < len(costs_us):
        assert portion <= pace.left <= portion << doublings
        assert clock.now_s - began_s <= 0.01 + 1e-9
        clock.now_s += sum(costs_us[at : at + pace.left]) / 1e6
        at += pace.left
        goes_on = pace.goes_on(pace.left)
