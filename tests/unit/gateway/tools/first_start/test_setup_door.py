"""Goal: who knows the setup code sets the gateway up, one at a time and once; guesses are slow."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.first_start import setup_door
from gateway.tools.first_start.setup_door import DeniedError, SetupDoor, SetupStage

CODE = "0123456789AB"
HERE, THERE = "10.0.0.5", "10.0.0.6"


def door() -> SetupDoor:
    numbers = count()
    return SetupDoor(CODE, lambda: f"token-{next(numbers)}")


def denied(own: SetupDoor, typed: str, host: str, now_s: float, *, instead: bool = False) -> str:
    with pytest.raises(DeniedError) as error:
        own.enter(typed, host, now_s, instead=instead)
    return error.value.why


def test_the_code_is_taken_however_it_is_typed() -> None:
    for typed in (CODE, "0123-4567-89ab", " o1 23 4567-89AB", "Oi23456789ab"):
        assert door().enter(typed, HERE, 0.0)


def test_wrong_codes_of_an_address_are_slow_and_the_right_one_waits_as_well() -> None:
    own = door()
    for _ in range(setup_door.WRONG_AT_ONCE):
        assert denied(own, "wrong", HERE, 0.0) == "wrong"
    assert denied(own, CODE, HERE, 0.0) == "later"
    assert own.enter(CODE, THERE, 0.0)
    assert own.enter(CODE, HERE, 1.0 / setup_door.WRONG_PER_S, instead=True)


@given(st.integers(1, 5_000))
def test_a_neighbour_with_any_number_of_addresses_has_one_try_a_second(seconds: int) -> None:
    own = door()
    tried = 0
    for number in range(200):
        now_s = seconds * number / 200
        with pytest.raises(DeniedError) as error:
            own.enter("wrong", f"10.0.{number}.1", now_s)
        tried += error.value.why == "wrong"
    assert tried <= setup_door.ALL_WRONG_AT_ONCE + seconds * setup_door.ALL_WRONG_PER_S


def test_a_second_browser_waits_or_takes_over_and_the_first_one_is_out() -> None:
    own = door()
    first = own.enter(CODE, HERE, 0.0)
    with pytest.raises(DeniedError) as error:
        own.enter(CODE, THERE, 1.0)
    assert (error.value.why, error.value.holder) == ("taken", HERE)
    second = own.enter(CODE, THERE, 1.0, instead=True)
    assert not own.is_held_by(first, 1.0)
    assert own.is_held_by(second, 1.0)


def test_who_is_idle_makes_room_and_has_to_give_the_code_again() -> None:
    own = door()
    token = own.enter(CODE, HERE, 0.0)
    assert own.is_held_by(token, setup_door.IDLE_S)
    assert not own.is_held_by(token, 2 * setup_door.IDLE_S + 1)
    assert own.stage is SetupStage.WAITING
    assert own.enter(CODE, THERE, 2 * setup_door.IDLE_S + 1)


def test_one_gateway_is_written_at_a_time_and_nobody_takes_over_meanwhile() -> None:
    own = door()
    token = own.enter(CODE, HERE, 0.0)
    own.begin(token, 0.0)
    with pytest.raises(DeniedError):
        own.begin(token, 0.0)
    assert denied(own, CODE, THERE, 0.0, instead=True) == "taken"
    own.failed()
    own.begin(token, 0.0)


def test_nobody_comes_in_once_there_is_an_owner() -> None:
    own = door()
    token = own.enter(CODE, HERE, 0.0)
    own.begin(token, 0.0)
    own.done()
    own.failed()  # of no use any more
    assert denied(own, CODE, THERE, 9e9, instead=True) == "over"
    with pytest.raises(DeniedError):
        own.begin(token, 0.0)
    assert own.is_held_by(token, 9e9)  # sees what phones need


@pytest.mark.parametrize("token", ["", "token-7", "x" * 129, "\udcff"])
def test_a_token_that_nobody_was_given_is_nobodys(token: str) -> None:
    own = door()
    own.enter(CODE, HERE, 0.0)
    assert not own.is_held_by(token, 0.0)
    with pytest.raises(DeniedError):
        own.begin(token, 0.0)
