"""A clock that was ahead for a while dates no alert after it is right again."""

from __future__ import annotations

import msgspec
import pytest

from alerts import state as states
from alerts.desk import AlertDesk, AlertLook, LookTime, Sighting
from alerts.record import AlertRecord
from alerts.state import AlertState
from alerts.terms import RuleTerms

RULES = {"hot": RuleTerms(severity="warning", after_s=10, clears_after_s=10, what_to_do="cool it")}
WRONG = AlertLook({"hot"}, [Sighting("hot", "gw", "", "campus/north", "91 degrees")])
WELL = AlertLook({"hot"}, ())
NOW_S, AHEAD_S = 1_800_000_000, 4_000_000_000
STEP_S = 6


class Gateway:
    """One whose clock is set, and which is started anew."""

    def __init__(self) -> None:
        self.state = AlertState()
        self.wall_s = NOW_S
        self.told: list[AlertRecord] = []

    def looks(self, look: AlertLook, count: int = 3) -> None:
        """Look so often, each time in a new life."""
        for _ in range(count):
            self.state = states.decode(self.state.encode())
            desk = AlertDesk(self.state, RULES)
            self.told += desk.look(look, LookTime(self.wall_s * 1_000_000, STEP_S))
            self.wall_s += STEP_S

    def times_s(self) -> list[tuple[str, int, int]]:
        """Return what was told: the change, since when it holds, and when it was told."""
        return [(one.change, one.since_us // 10**6, one.at_us // 10**6) for one in self.told]


def test_what_was_told_while_the_clock_was_ahead_is_over_now_and_not_then() -> None:
    """An Alertmanager keeps an alert whose end is in the future."""
    gateway = Gateway()
    gateway.wall_s = AHEAD_S
    gateway.looks(WRONG)
    gateway.wall_s = NOW_S
    gateway.looks(WELL)
    raised, cleared = gateway.times_s()
    assert raised == ("raised", AHEAD_S, AHEAD_S + 2 * STEP_S)
    assert cleared == ("cleared", NOW_S, NOW_S + 2 * STEP_S)
    assert gateway.told[0].alert == gateway.told[1].alert


@pytest.mark.parametrize("is_wrong_while_ahead", [True, False])
def test_what_is_raised_when_the_clock_is_right_again_has_its_time(
    *, is_wrong_while_ahead: bool
) -> None:
    gateway = Gateway()
    gateway.wall_s = AHEAD_S
    gateway.looks(WRONG if is_wrong_while_ahead else WELL)
    gateway.looks(WELL)
    gateway.wall_s = NOW_S
    gateway.looks(WRONG)
    assert gateway.times_s()[-1] == ("raised", NOW_S, NOW_S + 2 * STEP_S)


def test_what_is_about_to_be_raised_when_the_clock_is_set_back_is_raised_now() -> None:
    gateway = Gateway()
    gateway.wall_s = AHEAD_S
    gateway.looks(WRONG, 2)
    gateway.wall_s = NOW_S
    gateway.looks(WRONG, 2)
    assert gateway.times_s() == [("raised", NOW_S, NOW_S)]


def test_no_two_alerts_have_one_name_though_the_clock_shows_one_time_twice() -> None:
    gateway = Gateway()
    for _ in range(3):
        gateway.wall_s = NOW_S
        gateway.looks(WRONG)
        gateway.looks(WELL)
    names = [one.alert for one in gateway.told if one.change == "raised"]
    assert len(set(names)) == 3
    assert {one.since_us for one in gateway.told} == {NOW_S * 10**6}
    assert all(msgspec.json.encode(one) for one in gateway.told)
