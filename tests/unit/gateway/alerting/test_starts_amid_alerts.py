"""A start amid an alert neither ends it nor raises it anew, by whichever rule: late is not well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from alerts import state as states
from alerts.state import AlertState
from gateway.alerting import rules
from gateway.alerting.gateway_alerts import GatewayAlerts
from gateway.alerting.judging import ELECTIONS, SeenByGateway
from gateway.alerting.plan import AlertPlan
from gateway.alerting.sensor_judging import SensorRuleJudge
from gateway.alerting.sensor_rules import SensorRules

LOOK_S: Final = 10.0
AHEAD_S: Final = 1.7e9
A_WHILE, LONG = 13, 800
"""Looks: two minutes are more than most rules take to clear, and two hours more than any."""
SITES = {"gw-a": "campus/north", "gw-b": "campus/south"}
WELL = SeenByGateway(
    gateway="gw-a",
    site="campus/north",
    ahead_s=AHEAD_S,
    free_bytes=10_000_000_000,
    total_bytes=30_000_000_000,
    is_read_only=False,
    written_bytes=1_000,
    temperature_cel=45.0,
    under_voltage=False,
    is_throttled=False,
    disk_life_used=0.3,
    is_clock_kept=True,
    links=1,
    dialled=[],
    sites=SITES,
    is_release_known=True,
    sensors=(),
)
NOBODY_LOOKED: Final[Mapping[str, Any]] = {
    "free_bytes": None,
    "total_bytes": None,
    "is_read_only": None,
    "written_bytes": None,
    "temperature_cel": None,
    "under_voltage": None,
    "is_throttled": None,
    "disk_life_used": None,
    "is_clock_kept": None,
    "log_failure": None,
    "links": 0,
    "sites": {"gw-a": "campus/north"},
    "is_release_known": False,
    "sensors": None,
}
AWAY: Final[Mapping[str, Any]] = {
    "address": "10.0.0.2:8883",
    "linked": False,
    "fails_since_s": 5.0,
    "id": "gw-b",
    "source": "static",
    "why": "timed out",
}


class Facts:
    """Give what one rule goes by, look by look.

    Args:
        wrong: what is seen while it is wrong; of some a function of the number of the look.
        unknown: what is seen after a start, before there is evidence.
        well: what is seen at the end.

    """

    def __init__(
        self,
        wrong: Mapping[str, Any] | Callable[[int], Mapping[str, Any]],
        unknown: Mapping[str, Any] | None = None,
        well: Mapping[str, Any] | None = None,
    ) -> None:
        self._wrong = wrong
        self._unknown = unknown
        self._well: Mapping[str, Any] = well or {}

    def begin(self) -> None:
        """Begin a life of the process."""

    def wrong(self, look: int) -> Mapping[str, Any]:
        return self._wrong(look) if callable(self._wrong) else self._wrong

    def unknown(self, look: int) -> Mapping[str, Any]:
        return self.wrong(look) if self._unknown is None else self._unknown

    def well(self, look: int) -> Mapping[str, Any]:
        return self._well


class Tank(Facts):
    """A sensor with two values, of which the second is good from the first reading on.

    Args:
        alerts: the rules of its table.
        wrong: gives its first value while it is wrong.

    """

    def __init__(self, alerts: Mapping[str, Any], wrong: float | None) -> None:
        super().__init__({})
        self._rules = SensorRules.of(alerts)
        self._level = wrong
        self.begin()

    def begin(self) -> None:
        self._judge = SensorRuleJudge()
        self._is_new = True

    def _read(self, level: float | None, look: int, humidity: float | None) -> Mapping[str, Any]:
        now_s = look * LOOK_S
        if self._is_new:
            self._judge.begin("tank", self._rules, LOOK_S, now_s)
            self._is_new = False
        elif level is not None or humidity is not None:
            self._judge.took("tank", {"tank/level": level, "tank/humidity": humidity}, now_s)
        return {"sensors": self._judge.look(now_s), "unread_sensors": self._judge.unread}

    def wrong(self, look: int) -> Mapping[str, Any]:
        return self._read(self._level, look, None)

    def unknown(self, look: int) -> Mapping[str, Any]:
        is_silent = self._level is None
        return self._read(None, look, None if is_silent else 40.0 + look % 7)

    def well(self, look: int) -> Mapping[str, Any]:
        return self._read(2.0 + look % 2, look, 40.0 + look % 7)


def _jumps(look: int) -> Mapping[str, Any]:
    return {"ahead_s": AHEAD_S + 3_600.0 * (look > 1)}


def _writes(look: int) -> Mapping[str, Any]:
    return {"written_bytes": look * 100_000_000}


def _certificate(days: int, **more: Any) -> dict[str, Any]:
    one = {"field": "mqtt.certificate_file", "number": 1, "name": "gw-a", "days_left": days}
    return {"certificates": [one], **more}


def _lost(messages: int) -> dict[str, Any]:
    return {"lost": messages, "still_lost": messages}


_OLD_CLOCK: Final = {"ahead_s": AHEAD_S - 86_400.0, "is_clock_kept": False}
_LINKED: Final = {"dialled": [{**AWAY, "linked": True, "fails_since_s": None}]}
_DIALLED: Final = {"dialled": [{**AWAY, "id": None, "fails_since_s": None, "why": ""}]}
_ANONYMOUS: Final = {"dialled": [{**AWAY, "id": None}]}


CASES: Final[Mapping[str, tuple[Facts, ...]]] = {
    rules.DISK_READ_ONLY: (Facts({"is_read_only": True}, NOBODY_LOOKED),),
    rules.LOG_REFUSES: (Facts({"log_failure": "No space left on device"}, {"log_failure": None}),),
    rules.MESSAGES_LOST: (Facts(_lost(3), {}), Facts(_lost(3), well=_lost(3))),
    rules.DISK_FULL: (Facts({"free_bytes": 1_000_000_000}, NOBODY_LOOKED),),
    rules.GATEWAY_AWAY: (
        Facts({"away": ["gw-b"], "missing": ["gw-b"]}, {"links": 0}),
        Facts({"away": ["gw-b"], "missing": ["gw-b"]}, {"sites": {"gw-a": "campus/north"}}),
    ),
    rules.NO_LINK: (Facts({"links": 0}, {"links": 0, "sites": {}}),),
    rules.PART_FAILING: (
        Facts({"failing": {"alerts by mail": "silent"}}, {"untried": ["alerts by mail"]}),
    ),
    rules.CERTIFICATE_ENDED: (Facts(_certificate(-1), _certificate(90, **_OLD_CLOCK)),),
    rules.NEIGHBOUR_AWAY: (
        Facts({"dialled": [AWAY]}, _DIALLED, _LINKED),
        Facts({"dialled": [AWAY]}, _ANONYMOUS, _LINKED),
        Facts({"dialled": [AWAY]}, {**_DIALLED, "links": 0}, _LINKED),
    ),
    rules.MESSAGES_DROPPED: (Facts({"dropped": 3}, {}),),
    rules.LIMIT_NEAR: (Facts({"limits": {"sessions": (950, 1_000)}}),),
    rules.REFUSED_LOGINS: (Facts({"failed_logins": 30}, {}),),
    rules.CERTIFICATE_ENDING: (Facts(_certificate(3), _certificate(90, **_OLD_CLOCK)),),
    rules.CLOCK_NOT_KEPT: (Facts({"is_clock_kept": False}, NOBODY_LOOKED),),
    rules.CLOCK_JUMPED: (Facts(_jumps),),
    rules.UNDER_VOLTAGE: (Facts({"under_voltage": True}, NOBODY_LOOKED),),
    rules.HOT: (Facts({"temperature_cel": 90.0}, NOBODY_LOOKED),),
    rules.THROTTLED: (Facts({"is_throttled": True}, NOBODY_LOOKED),),
    rules.DISK_WORN: (Facts({"disk_life_used": 0.9}, NOBODY_LOOKED),),
    rules.DISK_WEARING: (Facts(_writes, NOBODY_LOOKED),),
    rules.ROOT_FLAPPING: (Facts({"elections": ELECTIONS}, {"elections": 1}),),
    rules.SENSOR_SILENT: (Tank({}, None),),
    rules.SENSOR_STUCK: (Tank({"stuck_s": 60, "humidity": {"stuck_s": 0}}, 9.0),),
    rules.SENSOR_RANGE: (Tank({"level": {"high": 4}}, 9.0),),
    rules.RELEASE_RETURNED: (Facts({"returned": ("1.2", "it did not answer")}, NOBODY_LOOKED),),
}
AT_ONCE: Final = frozenset((rules.LIMIT_NEAR, rules.NO_LINK, rules.CLOCK_JUMPED))
"""Of them all is known at the first look."""
COUNTED: Final = frozenset(
    (rules.MESSAGES_LOST, rules.MESSAGES_DROPPED, rules.REFUSED_LOGINS, rules.ROOT_FLAPPING)
)
"""They end when nothing came for long, which every life sees for itself."""


class Told:
    """The records of a gateway's alerts by one rule, over restarts of its process."""

    def __init__(self, rule: str, facts: Facts) -> None:
        self._plan = AlertPlan(terms={rule: rules.RULES[rule]})
        self.changes: list[str] = []
        self.alerts: list[str] = []
        self._facts = facts
        self._kept = AlertState().encode()
        self._looks = 0
        self.start()

    def start(self) -> None:
        self._facts.begin()
        self._gateway = GatewayAlerts(self._plan, states.decode(self._kept), self._looks * LOOK_S)

    def look(self, seen: Callable[[int], Mapping[str, Any]], times: int) -> Iterator[None]:
        for _ in range(times):
            self._looks += 1
            now_s = self._looks * LOOK_S
            now = replace(WELL, **seen(self._looks))
            self._gateway.look(now, round((now.ahead_s + now_s) * 1e6), now_s)
            self.changes += [one.change for one in self._gateway.told]
            self.alerts += [one.alert for one in self._gateway.told]
            self._kept = self._gateway.state.encode()
            yield

    def looks(self, seen: Callable[[int], Mapping[str, Any]], times: int) -> None:
        for _ in self.look(seen, times):
            pass

    def is_raised(self, seen: Callable[[int], Mapping[str, Any]]) -> bool:
        return any(self.changes for _ in self.look(seen, LONG))


def _each(left_out: frozenset[str] = frozenset()) -> list[Any]:
    return [
        pytest.param(rule, one, id=f"{rule}-{number}")
        for rule, cases in CASES.items()
        for number, one in enumerate(cases)
        if rule not in left_out and f"{rule}-{number}" not in left_out
    ]


def test_no_rule_is_left_out() -> None:
    assert set(CASES) == set(rules.RULES)


@pytest.mark.parametrize(("rule", "facts"), _each())
def test_evidence_that_comes_late_neither_ends_an_alert_nor_raises_it_anew(
    rule: str, facts: Facts
) -> None:
    told = Told(rule, facts)
    assert told.is_raised(facts.wrong)
    told.start()
    told.looks(facts.unknown, A_WHILE)
    assert told.changes == ["raised"]
    told.looks(facts.wrong, A_WHILE)
    assert told.changes == ["raised"]
    told.looks(facts.well, LONG)
    assert told.changes == ["raised", "cleared"]
    assert len(set(told.alerts)) == 1


@pytest.mark.parametrize(("rule", "facts"), _each(AT_ONCE | COUNTED))
def test_evidence_that_never_comes_leaves_the_alert_standing(rule: str, facts: Facts) -> None:
    told = Told(rule, facts)
    assert told.is_raised(facts.wrong)
    told.start()
    told.looks(facts.unknown, LONG)
    assert told.changes == ["raised"]


@pytest.mark.parametrize(
    ("rule", "facts"),
    _each(AT_ONCE | {rules.SENSOR_SILENT, f"{rules.NEIGHBOUR_AWAY}-1", f"{rules.MESSAGES_LOST}-1"}),
)
def test_a_start_without_evidence_raises_nothing(rule: str, facts: Facts) -> None:
    told = Told(rule, facts)
    told.looks(facts.unknown, LONG)
    assert told.changes == []


def test_a_loss_that_each_start_finds_again_is_told_once_and_more_of_it_as_well() -> None:
    lost = Facts(_lost(3))
    told = Told(rules.MESSAGES_LOST, lost)
    for _ in range(3):
        told.looks(lost.wrong, LONG)
        told.start()
    assert told.changes == ["raised", "cleared"]
    told.looks(lambda look: _lost(4), LONG)
    assert told.changes == ["raised", "cleared"] * 2
    told.looks(lambda look: {"lost": 4, "still_lost": 0}, 10)
    told.start()
    told.looks(lambda look: _lost(1), 1)
    assert told.changes == [*["raised", "cleared"] * 2, "raised"], "others were brought back"
