"""An alert is raised once and cleared once, over restarts, silences, and clocks that jump."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts import state as states
from alerts.desk import (
    MAX_ALERTS,
    MAX_ALERTS_A_RULE,
    UNHIDDEN_AFTER_S,
    AlertDesk,
    AlertLook,
    AlertNotFoundError,
    LookTime,
    Sighting,
    SilenceError,
)
from alerts.matcher import AlertMatcher, MatcherError
from alerts.record import AlertRecord
from alerts.state import AlertState
from alerts.terms import RuleTerms

HOUR_US = 3_600_000_000
RULES = {
    "disk-full": RuleTerms(
        severity="critical", after_s=30, clears_after_s=60, what_to_do="make room"
    ),
    "hot": RuleTerms(severity="warning", after_s=0, clears_after_s=0, what_to_do="cool it"),
    "gateway-away": RuleTerms(
        severity="critical", after_s=60, clears_after_s=0, what_to_do="look", hides=True
    ),
}


def wrong(rule: str = "disk-full", gateway: str = "gw-a", part: str = "") -> Sighting:
    return Sighting(rule, gateway, part, "campus/north", f"{rule} of {gateway}", 1.0)


class Watched:
    """A desk, a clock that goes evenly, and what was told."""

    def __init__(self, remind_s: float = 0.0) -> None:
        self.state = AlertState()
        self.remind_s = remind_s
        self.wall_us = HOUR_US
        self.desk = AlertDesk(self.state, RULES, remind_s)
        self.told: list[AlertRecord] = []

    def look(
        self, *seen: Sighting, passed_s: float = 10.0, above: dict[str, str | None] | None = None
    ) -> list[tuple[str, str, str]]:
        self.wall_us += round(passed_s * 1e6)
        look = AlertLook(RULES, seen, above=above or {})
        told = self.desk.look(look, LookTime(self.wall_us, passed_s))
        self.told += told
        return [(one.change, one.rule, one.gateway) for one in told]

    def looks(self, count: int, *seen: Sighting) -> list[tuple[str, str, str]]:
        return [told for _ in range(count) for told in self.look(*seen)]

    def restart(self) -> None:
        self.state = states.decode(self.state.encode())
        self.desk = AlertDesk(self.state, RULES, self.remind_s)


def test_what_is_wrong_for_long_enough_is_told_once_and_its_end_once() -> None:
    watched = Watched()
    assert watched.looks(3, wrong()) == []
    assert watched.looks(7, wrong()) == [("raised", "disk-full", "gw-a")]
    assert watched.looks(6) == []
    assert watched.looks(4) == [("cleared", "disk-full", "gw-a")]
    raised, cleared = watched.told
    assert raised.alert == cleared.alert
    assert cleared.at_us > raised.since_us


def test_what_is_over_before_its_time_is_not_told() -> None:
    watched = Watched()
    assert watched.look(wrong()) + watched.look(wrong()) + watched.look() == []
    assert watched.look(wrong()) + watched.look(wrong()) + watched.look(wrong()) == []


def test_what_nobody_could_look_at_stays_as_it_is() -> None:
    watched = Watched()
    watched.look(wrong("hot"))
    now = LookTime(watched.wall_us, 1e6)
    assert watched.desk.look(AlertLook({"disk-full"}, ()), now) == []
    assert watched.desk.look(AlertLook({"hot"}, (), {("hot", "gw-a", "")}), now) == []
    assert [one.change for one in watched.desk.look(AlertLook({"hot"}, ()), now)] == ["cleared"]


def test_what_stands_is_reminded_of_until_somebody_takes_it_on() -> None:
    watched = Watched(remind_s=100)
    watched.look(wrong("hot"))
    assert watched.looks(20, wrong("hot")) == [("reminded", "hot", "gw-a")] * 2
    assert [one.number for one in watched.told] == [0, 1, 2]
    (alert,) = watched.desk.standing
    watched.desk.acknowledge(alert.raised.alert, "alice", "on my way", watched.wall_us)
    watched.restart()
    assert watched.looks(30, wrong("hot")) == []
    assert watched.look() == [("cleared", "hot", "gw-a")]
    with pytest.raises(AlertNotFoundError, match="hot:gw-a"):
        watched.desk.acknowledge(alert.raised.alert, "alice", "", watched.wall_us)


def test_a_silence_keeps_quiet_for_its_time_and_then_what_still_is_wrong_is_told() -> None:
    watched = Watched()
    north = AlertMatcher.parse(["domain=campus", "rule=h*"])
    watched.desk.silence(north, 100, watched.wall_us)
    told = [watched.look(wrong("hot"), passed_s=20) for _ in range(8)]
    assert [len(one) for one in told] == [0, 0, 0, 0, 1, 0, 0, 0]


def test_the_end_of_what_was_told_is_told_in_a_silence_too() -> None:
    watched = Watched()
    watched.look(wrong("hot"))
    watched.desk.silence(AlertMatcher(), 1000, watched.wall_us)
    assert watched.look() == [("cleared", "hot", "gw-a")]
    assert watched.look(wrong("hot")) + watched.look() == [], "never told, so no end"


def test_a_maintenance_window_holds_from_its_begin() -> None:
    watched = Watched()
    begins_us = watched.wall_us + 50_000_000
    watched.desk.silence(AlertMatcher(), 100, watched.wall_us, begins_us=begins_us)
    assert watched.look(wrong("hot")) == [("raised", "hot", "gw-a")]
    watched.look()
    watched.look(passed_s=60)
    assert watched.look(wrong("hot")) == []


@pytest.mark.parametrize("jump_us", [-HOUR_US, HOUR_US * 24 * 365 * 50])
def test_a_clock_that_jumps_makes_no_silence_longer_and_no_alert_twice(jump_us: int) -> None:
    watched = Watched(remind_s=3600)
    watched.desk.silence(AlertMatcher(), 100, watched.wall_us)
    watched.look(wrong("hot"))
    watched.wall_us += jump_us
    told = watched.looks(12, wrong("hot"))
    assert told == [("raised", "hot", "gw-a")]
    assert watched.look() == [("cleared", "hot", "gw-a")]


def test_a_site_that_loses_its_power_is_one_alert() -> None:
    watched = Watched()
    above: dict[str, str | None] = {f"gw-{i}": "gw-head" for i in range(49)}
    above["gw-head"] = "gw-root"
    children = [wrong("gateway-away", name) for name in above if name != "gw-head"]
    for _ in range(3):  # the head is missed later than its children
        watched.look(*children, above=above)
    for _ in range(20):
        watched.look(*children, wrong("gateway-away", "gw-head"), above=above)
    assert Counter((one.change, one.gateway) for one in watched.told) == {("raised", "gw-head"): 1}
    watched.look(*children, above=above)  # they come back a look after their head
    watched.look(above=above)
    assert [one.change for one in watched.told] == ["raised", "cleared"]


def test_what_is_still_wrong_when_its_head_is_back_is_told() -> None:
    watched = Watched()
    above: dict[str, str | None] = {"gw-a": "gw-head"}
    child, head = wrong("gateway-away", "gw-a"), wrong("gateway-away", "gw-head")
    for _ in range(10):
        watched.look(child, head, above=above)
    for _ in range(round(UNHIDDEN_AFTER_S / 10) + 1):
        watched.look(child, above=above)
    assert [(one.change, one.gateway) for one in watched.told] == [
        ("raised", "gw-head"),
        ("cleared", "gw-head"),
        ("raised", "gw-a"),
    ]


def test_what_is_below_a_lost_gateway_and_there_is_told_of_as_ever() -> None:
    watched = Watched()
    above: dict[str, str | None] = {"gw-a": "gw-head"}
    watched.look(wrong("gateway-away", "gw-head"), above=above)
    told = watched.look(wrong("gateway-away", "gw-head"), wrong("hot"), above=above)
    assert told == [("raised", "hot", "gw-a")]


def test_who_is_above_a_lost_gateway_is_remembered_when_nobody_knows_it_any_more() -> None:
    watched = Watched()
    above: dict[str, str | None] = {"gw-a": "gw-head"}
    lost = wrong("gateway-away", "gw-a"), wrong("gateway-away", "gw-head")
    watched.look(*lost, above=above)
    watched.restart()
    assert watched.looks(20, *lost) == [("raised", "gateway-away", "gw-head")]


def test_what_is_closed_is_told_to_be_over_and_raised_anew_if_it_is_wrong_still() -> None:
    watched = Watched()
    watched.look(wrong("hot"))
    (alert,) = watched.desk.standing
    (over,) = watched.desk.close(alert.raised.alert, watched.wall_us)
    assert (over.change, over.alert) == ("cleared", alert.raised.alert)
    assert watched.state.alerts == []
    with pytest.raises(AlertNotFoundError, match="hot:gw-a"):
        watched.desk.close(alert.raised.alert, watched.wall_us)
    assert watched.look(wrong("hot")) == [("raised", "hot", "gw-a")]
    (again,) = watched.desk.standing
    assert again.raised.alert != alert.raised.alert


def test_each_reminder_comes_as_long_after_the_last_one_as_the_first_after_the_begin() -> None:
    watched = Watched(remind_s=50.5)
    watched.look(wrong("hot"))
    told = [bool(watched.look(wrong("hot"))) for _ in range(18)]
    assert told == [*[False] * 5, True] * 3


def test_who_takes_on_or_closes_an_alert_has_that_of_its_name_and_no_other() -> None:
    watched = Watched()
    seen = wrong("disk-full"), wrong("hot"), wrong("hot", "gw-b")
    watched.look(*seen)
    pending = watched.state.alerts[0]
    assert (pending.raised.rule, pending.is_open) == ("disk-full", False)
    first, second = watched.desk.standing
    assert watched.desk.acknowledge(second.raised.alert, "ada", "", 5).raised.gateway == "gw-b"
    assert [one.taken_on is not None for one in watched.desk.standing] == [False, True]
    for change in (
        lambda: watched.desk.acknowledge(pending.raised.alert, "ada", "", 5),
        lambda: watched.desk.close(pending.raised.alert, 5),
    ):
        with pytest.raises(AlertNotFoundError, match="no alert 'disk-full:gw-a:"):
            change()
    (over,) = watched.desk.close(second.raised.alert, watched.wall_us)
    assert over.alert == second.raised.alert
    assert list(watched.desk.standing) == [first]


@pytest.mark.parametrize("is_missed_later", [False, True])
def test_a_site_that_is_larger_than_what_is_remembered_is_one_alert(is_missed_later: bool) -> None:
    watched = Watched()
    above: dict[str, str | None] = {f"gw-{i:03}": "gw-z" for i in range(3 * MAX_ALERTS_A_RULE)}
    children = [wrong("gateway-away", name) for name in above]
    head = [wrong("gateway-away", "gw-z")]
    above["gw-z"] = "gw-root"
    if is_missed_later:
        watched.look(*children, above=above)
    for _ in range(20):
        watched.look(*children, *head, above=above)
    assert [(one.change, one.gateway) for one in watched.told] == [("raised", "gw-z")]
    left_out = watched.state.left_out
    watched.look(*children, *head, above=above)
    assert watched.state.left_out == left_out, "what is hidden is not left out"
    while children:
        children = children[50:]
        watched.look(*children, above=above)
    for _ in range(20):
        watched.look(above=above)
    assert [one.change for one in watched.told] == ["raised", "cleared"]
    assert watched.state.alerts == []


def test_a_circle_above_a_gateway_hides_nothing_for_ever() -> None:
    watched = Watched()
    above: dict[str, str | None] = {"gw-a": "gw-b", "gw-b": "gw-c", "gw-c": "gw-b"}
    assert watched.look(wrong("hot"), wrong("gateway-away", "gw-z"), above=above) != []


def test_more_than_its_share_no_rule_has_and_what_is_left_out_is_counted() -> None:
    watched = Watched()
    crowd = [wrong("hot", f"gw-{i}") for i in range(MAX_ALERTS)]
    told = watched.look(*crowd, wrong("disk-full"))
    assert len(told) == MAX_ALERTS_A_RULE
    assert watched.state.left_out == MAX_ALERTS - MAX_ALERTS_A_RULE
    assert watched.desk.look(AlertLook(RULES, [wrong("disk-full")]), LookTime(watched.wall_us, 30))[
        -1
    ].rule in ("disk-full", "hot")


def test_a_rule_that_was_switched_off_leaves_no_alert_behind() -> None:
    watched = Watched()
    watched.look(wrong("hot"))
    desk = AlertDesk(watched.state, {}, 0)
    told = desk.look(AlertLook((), ()), LookTime(watched.wall_us, 10))
    assert [one.change for one in told] == ["cleared"]


def test_wrong_words_are_refused_by_name() -> None:
    with pytest.raises(MatcherError, match="'colour' is none of rule, severity"):
        AlertMatcher.parse(["colour=red"])
    with pytest.raises(MatcherError, match="not FIELD=PATTERN"):
        AlertMatcher.parse(["hot"])
    with pytest.raises(MatcherError, match="twice"):
        AlertMatcher.parse(["rule=a", "rule=b"])
    with pytest.raises(SilenceError, match="31 days"):
        Watched().desk.silence(AlertMatcher(), 1e9, HOUR_US)
    with pytest.raises(states.AlertStateError):
        states.decode(b'{"format": 9}')
    with pytest.raises(states.AlertStateError):
        states.decode(b"\x00" * 20)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("look"),
            st.sets(
                st.tuples(st.sampled_from(sorted(RULES)), st.sampled_from(["gw-a", "gw-b"])),
                max_size=4,
            ),
            st.floats(0, 120),
        ),
        st.tuples(st.just("jump"), st.integers(-10 * HOUR_US, 10 * HOUR_US)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("kill")),
        st.tuples(st.just("silence"), st.sampled_from(["hot", "*"]), st.floats(1, 300)),
        st.tuples(st.just("take on")),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_whatever_happens_each_alert_is_raised_once_and_cleared_once(
    drawn: list[tuple[object, ...]],
) -> None:
    watched = Watched(remind_s=50)
    above: dict[str, str | None] = {"gw-a": "gw-b"}
    for step in drawn:
        match step:
            case ("look", seen, passed_s):
                sightings = [wrong(*one) for one in sorted(seen)]  # type: ignore[call-overload]
                watched.look(*sightings, passed_s=float(str(passed_s)), above=above)
            case ("jump", by_us):
                watched.wall_us = max(1, watched.wall_us + int(str(by_us)))
            case ("restart",):
                watched.restart()
            case ("kill",):  # nothing since the last look is lost: it is kept as a whole
                kept = watched.state.encode()
                watched.state = states.decode(kept)
                watched.desk = AlertDesk(watched.state, RULES, watched.remind_s)
            case ("silence", rule, for_s):
                matcher = AlertMatcher.of({"rule": rule})
                watched.desk.silence(matcher, float(str(for_s)), watched.wall_us)
            case ("take on",):
                for alert in watched.desk.standing:
                    watched.desk.acknowledge(alert.raised.alert, "bob", "", watched.wall_us)
    for _ in range(3):  # all is well for long: what was told is told to be over
        watched.look(passed_s=200, above=above)
    assert watched.desk.standing == []
    changes = defaultdict(list)
    for record in watched.told:
        changes[record.alert].append(record)
    for told in changes.values():
        kinds = [one.change for one in told]
        assert kinds[0] == "raised"
        assert kinds[-1] == "cleared"
        assert kinds[1:-1] == ["reminded"] * (len(kinds) - 2)
        assert len({one.delivery_id for one in told}) == len(told)
        assert all(one.at_us >= one.since_us for one in told)
