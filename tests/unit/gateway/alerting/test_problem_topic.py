"""A gateway publishes once each time what is wrong, and again where the log has refused it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.alerting.problem_topic import ProblemTopic
from tree_handler.batch import Entry

WELL: dict[str, Any] = {"problem": "OFF", "count": 0}
WRONG: dict[str, Any] = {"problem": "ON", "count": 1}


class Place:
    """A topic that moves, and what came on any."""

    def __init__(self) -> None:
        self.topic = "campus/-/gw/alerts"
        self.came: list[Entry] = []
        self.told = ProblemTopic(lambda: self.topic, self.came.append)

    def took(self) -> list[tuple[str, int, bool]]:
        """Return what came since the last time: its state, its QoS, and whether it is retained."""
        came, self.came[:] = list(self.came), []
        return [
            ("ON" if b"ON" in one.payload else "OFF" if one.payload else "", one.qos, one.retain)
            for one in came
        ]


def test_what_changes_is_told_once_and_retained() -> None:
    place = Place()
    for problem in (WELL, WELL, WRONG, WRONG, WELL):
        place.told.tell(problem)
    assert place.took() == [("OFF", 1, True), ("ON", 1, True), ("OFF", 1, True)]


def test_while_the_log_refuses_it_is_told_without_it_and_once_more_when_it_takes_again() -> None:
    place = Place()
    place.told.tell(WELL)
    place.told.tell(WRONG)  # the log refuses this one, and nobody knows yet
    place.took()
    for _ in range(3):
        place.told.tell(WRONG, is_logged=False)
    assert place.took() == [("ON", 0, True)]
    place.told.tell(WELL, is_logged=False)
    assert place.took() == [("OFF", 0, True)]
    for _ in range(3):
        place.told.tell(WELL)
    assert place.took() == [("OFF", 1, True)]


@pytest.mark.parametrize("is_logged", [True, False])
def test_a_gateway_that_moves_leaves_nothing_at_its_old_topic(*, is_logged: bool) -> None:
    place = Place()
    place.told.tell(WRONG)
    place.came.clear()
    place.topic = "campus/north/gw/alerts"
    place.told.tell(WRONG, is_logged=is_logged)
    emptied, told = place.came
    assert (emptied.topic, emptied.payload) == ("campus/-/gw/alerts", b"")
    assert told.topic == "campus/north/gw/alerts"
