"""Each bound of the desk and of matchers at its exact value, and who goes first beyond it."""

from __future__ import annotations

import pytest

from alerts.desk import AlertDesk, AlertLook, LookTime, Sighting, SilenceError
from alerts.matcher import AlertMatcher, MatcherError
from alerts.record import AlertRecord
from alerts.state import AlertState
from alerts.terms import RuleTerms

DAY_S = 86_400.0
NOW_US = 1_790_000_000_000_000
EVERYBODY = AlertMatcher()
AT_ONCE = RuleTerms(severity="warning", after_s=0, clears_after_s=0, what_to_do="look")
AWAY = RuleTerms(severity="critical", after_s=0, clears_after_s=0, what_to_do="go", hides=True)


def wrong(rule: str, gateway: str, message: str = "it is wrong") -> Sighting:
    return Sighting(rule, gateway, "", "campus/north", message, 1.0)


class Desk:
    """A desk of rules that raise and clear at once, and its clock."""

    def __init__(self, **rules: RuleTerms) -> None:
        self.state = AlertState()
        self.rules = rules
        self.desk = AlertDesk(self.state, rules, 0.0)
        self.wall_us = NOW_US

    def look(
        self, *seen: Sighting, above: dict[str, str | None] | None = None
    ) -> list[AlertRecord]:
        self.wall_us += 10_000_000
        look = AlertLook(self.rules, seen, above=above or {})
        return list(self.desk.look(look, LookTime(self.wall_us, 10.0)))


def test_a_pattern_has_1_to_200_characters() -> None:
    for length in (1, 200):
        assert AlertMatcher.parse([f"gateway={'*' * length}"])
    for length in (0, 201):
        with pytest.raises(MatcherError, match="no text of 1 to 200"):
            AlertMatcher.parse([f"gateway={'*' * length}"])


def test_a_silence_lasts_up_to_31_days_and_begins_within_366() -> None:
    desk = Desk().desk
    made = desk.silence(EVERYBODY, 31 * DAY_S, NOW_US)
    assert made.ends_us == NOW_US + 31 * 86_400_000_000
    for seconds in (0.0, -1.0, 31 * DAY_S + 1):
        with pytest.raises(SilenceError, match="31 days"):
            desk.silence(EVERYBODY, seconds, NOW_US)
    latest_us = NOW_US + 366 * 86_400_000_000
    assert (
        desk.silence(EVERYBODY, 1.0, NOW_US, begins_us=latest_us).ends_us == latest_us + 1_000_000
    )
    for begins_us in (latest_us + 1, -1):
        with pytest.raises(SilenceError, match="within a year"):
            desk.silence(EVERYBODY, 1.0, NOW_US, begins_us=begins_us)


def test_silences_are_numbered_from_1_one_by_one() -> None:
    desk = Desk().desk
    assert [desk.silence(EVERYBODY, 60.0, NOW_US).number for _ in range(3)] == [1, 2, 3]
    desk.end_silence(3)
    assert desk.silence(EVERYBODY, 60.0, NOW_US).number == 4, "no number comes again"


def test_there_are_100_silences_and_one_that_ends_gives_its_place_back() -> None:
    desk = Desk().desk
    numbers = [desk.silence(EVERYBODY, 60.0, NOW_US).number for _ in range(100)]
    with pytest.raises(SilenceError, match="100 silences"):
        desk.silence(EVERYBODY, 60.0, NOW_US)
    desk.end_silence(numbers[0])
    assert desk.silence(EVERYBODY, 60.0, NOW_US).number not in numbers


def test_a_silence_that_is_over_gives_its_place_back() -> None:
    one = Desk(hot=AT_ONCE)
    for _ in range(100):
        one.desk.silence(EVERYBODY, 10.0, one.wall_us)
    one.look()
    assert one.desk.silence(EVERYBODY, 10.0, one.wall_us)


def test_notes_and_messages_are_cut_to_500_characters() -> None:
    one = Desk(hot=AT_ONCE)
    assert one.desk.silence(AlertMatcher.parse(["rule=x"]), 1.0, NOW_US, note="n" * 501).note == (
        "n" * 500
    )
    (raised,) = one.look(wrong("hot", "gw-a", "m" * 501))
    assert raised.message == "m" * 500
    one.look(wrong("hot", "gw-a", "k" * 501))
    (cleared,) = one.look()
    assert cleared.message == "k" * 500


def test_the_100_alerts_that_ended_last_are_kept_the_oldest_goes_first() -> None:
    one = Desk(hot=AT_ONCE)
    for number in range(101):
        one.look(wrong("hot", f"gw-{number}"))
        one.look()
    assert [record.gateway for record in one.state.cleared] == [f"gw-{n}" for n in range(1, 101)]


def test_of_one_rule_100_alerts_stand_and_of_all_500_and_more_are_counted() -> None:
    one = Desk(**{f"rule-{number}": AT_ONCE for number in range(6)})
    full = [wrong(f"rule-{rule}", f"gw-{n}") for rule in range(5) for n in range(100)]
    assert len(one.look(*full)) == 500
    assert one.look(*full, wrong("rule-0", "gw-100"), wrong("rule-5", "gw-0")) == []
    assert one.state.left_out == 2
    more = (*full[1:], wrong("rule-5", "gw-0"))
    assert [(record.change, record.rule) for record in one.look(*more)] == [("cleared", "rule-0")]
    assert [(record.change, record.rule) for record in one.look(*more)] == [("raised", "rule-5")]


def test_of_one_rule_the_101st_is_left_out_though_there_is_room_for_others() -> None:
    one = Desk(hot=AT_ONCE, cold=AT_ONCE)
    many = [wrong("hot", f"gw-{number}") for number in range(101)]
    raised = one.look(*many, wrong("cold", "gw-0"))
    assert sum(record.rule == "hot" for record in raised) == 100
    assert sum(record.rule == "cold" for record in raised) == 1
    assert one.state.left_out == 1


@pytest.mark.parametrize(("depth", "is_told"), [(64, False), (65, True)])
def test_a_gateway_that_is_away_hides_what_is_up_to_64_links_below(
    depth: int, *, is_told: bool
) -> None:
    one = Desk(away=AWAY)
    above: dict[str, str | None] = {f"gw-{n}": f"gw-{n - 1}" for n in range(1, depth + 1)}
    one.look(wrong("away", "gw-0"), above=above)
    told = one.look(wrong("away", "gw-0"), wrong("away", f"gw-{depth}"), above=above)
    assert bool(told) == is_told


@pytest.mark.parametrize(("after_s", "looks"), [(0, 1), (10, 2), (11, 3), (20, 3)])
def test_what_is_wrong_is_open_when_it_was_seen_to_be_so_for_just_as_long_as_its_rule_says(
    after_s: float, looks: int
) -> None:
    """The first look sees it; each later one is ten seconds behind the one before."""
    terms = RuleTerms(severity="warning", after_s=after_s, clears_after_s=0, what_to_do="look")
    desk = Desk(hot=terms)
    told = [bool(desk.look(wrong("hot", "gw-a"))) for _ in range(looks)]
    assert told == [False] * (looks - 1) + [True]
