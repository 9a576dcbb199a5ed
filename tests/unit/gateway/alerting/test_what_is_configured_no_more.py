"""The end of an alert is told once where the configuration has no more what it was about."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from alerts import state as states
from alerts.state import AlertState
from gateway.alerting import rules
from gateway.alerting.gateway_alerts import GatewayAlerts
from gateway.alerting.judging import SeenByGateway
from gateway.alerting.plan import AlertPlan
from gateway.alerting.sensor_judging import SensorFinding

PLAN = AlertPlan(ways=("mail",), gather_s=0)
WELL = SeenByGateway(gateway="gw-a", site="campus/north", ahead_s=0.0, sensors=())
AWAY: dict[str, Any] = {
    "address": "10.0.0.2:8883",
    "linked": False,
    "fails_since_s": 5.0,
    "id": "gw-b",
    "source": "static",
    "why": "Connection refused",
}
ENDED = {"field": "mqtt.certificate_file", "number": 1, "name": "gw-a", "days_left": -1}
TANK = [
    SensorFinding(rule, "tank", True, "it says 7", 7.0)
    for rule in (rules.SENSOR_SILENT, rules.SENSOR_STUCK, rules.SENSOR_RANGE)
]


class Told:
    """The records of a gateway's alerts, over restarts of its process."""

    def __init__(self, plan: AlertPlan = PLAN) -> None:
        self.records: list[tuple[str, str]] = []
        self._kept = AlertState().encode()
        self._s = 0.0
        self.start(plan)

    def start(self, plan: AlertPlan = PLAN) -> None:
        self.alerts = GatewayAlerts(plan, states.decode(self._kept), self._s)

    def look(self, seen: SeenByGateway, times: int = 30) -> None:
        for _ in range(times):
            self._s += 10.0
            self.alerts.look(seen, round((3_600 + self._s) * 1e6), self._s)
            self.records += [(one.change, one.alert) for one in self.alerts.told]
        self._kept = self.alerts.state.encode()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("wrong", "gone", "expected"),
    [
        ({"sensors": TANK}, {}, 3),
        ({"dialled": [AWAY], "links": 1}, {"links": 1}, 1),
        ({"dialled": [AWAY], "links": 1}, {"links": 0}, 1),
        ({"certificates": [ENDED]}, {}, 1),
    ],
    ids=["sensor", "neighbour", "only neighbour", "certificate"],
)
def test_what_was_wrong_with_it_is_cleared_once_by_its_name(
    wrong: dict[str, Any], gone: dict[str, Any], expected: int, *, is_restarted: bool
) -> None:
    told = Told()
    told.look(replace(WELL, **wrong))
    raised = [alert for change, alert in told.records if change == "raised"]
    assert len(raised) == expected
    if is_restarted:
        told.start()
    told.look(replace(WELL, **gone))
    assert Counter(told.records) == {
        (change, alert): 1 for alert in raised for change in ("raised", "cleared")
    }


def test_without_any_link_the_alert_about_a_neighbour_that_is_dialled_stands() -> None:
    told = Told()
    told.look(replace(WELL, dialled=[AWAY], links=1))
    told.look(replace(WELL, dialled=[AWAY], links=0))
    told.look(replace(WELL, dialled=[AWAY | {"fails_since_s": None}], links=0))
    assert [change for change, _ in told.records] == ["raised"]


def test_records_that_wait_for_a_way_that_has_gone_are_dropped_and_status_tells_it() -> None:
    told = Told()
    told.look(replace(WELL, certificates=[ENDED]))
    told.start(AlertPlan(ways=("ntfy",), gather_s=0))
    told.look(replace(WELL, certificates=[ENDED]))
    gone = told.alerts.summary()["ways"]["mail"]
    assert (gone["waiting"], gone["dropped"]) == (0, 1)
    assert "no more" in gone["trouble"]
    assert told.alerts.test("gw-a", "campus/north", ()) == ["ntfy"]
    told.start(AlertPlan(ways=("ntfy",), gather_s=0))
    assert set(told.alerts.summary()["ways"]) == {"ntfy"}
