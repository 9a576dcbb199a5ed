"""Goal: what fails for one item does not end a timer, and is told and counted."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from loop_clock import Clock

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import ALL, Failures
from gateway.base.pauses import GrowingPause
from gateway.base.periodic_timer import PeriodicTimer

_log = logging.getLogger(__name__)


class Unlucky:
    """Fails whenever it is told to."""

    def __init__(self) -> None:
        self.times = 0
        self.is_failing = False

    def __call__(self) -> float:
        self.times += 1
        if self.is_failing:
            raise ValueError("a bad\nitem")
        return 2.0


def test_a_timer_goes_on_after_a_failure_which_is_told_once_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, step = Clock(), Unlucky()
    lines = CountedLines(_log, clock.time)
    repeating = PeriodicTimer(clock, "look", step, 0.5, Failures(lines))
    repeating.start(1.0)
    clock.pass_s(1.0)
    step.is_failing = True
    clock.pass_s(2.0)
    assert step.times == 2
    clock.pass_s(1.0)
    assert step.times == 3
    step.is_failing = False
    clock.pass_s(0.5)
    clock.pass_s(2.0)
    assert step.times == 5
    assert lines.counts == {"set aside: look": 2}
    assert [(one.levelname, one.exc_info is not None) for one in caplog.records] == [
        ("ERROR", True),
        ("ERROR", False),
    ]
    assert "\n" not in caplog.records[0].getMessage()


def test_a_timer_that_was_stopped_by_what_it_did_stays_so() -> None:
    clock = Clock()
    stops: list[PeriodicTimer] = []

    def step() -> float:
        stops[0].stop()
        return 1.0

    stops.append(PeriodicTimer(clock, "look", step, 0.5, Failures(CountedLines(_log, clock.time))))
    stops[0].start(1.0)
    clock.pass_s(1.0)
    assert not clock.alarms


def test_a_pause_grows_with_each_failure_and_is_short_again_when_it_worked() -> None:
    pause = GrowingPause(0.5, 3.0)
    assert [pause.failed(10.0) for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert pause.until_s == 13.0
    pause.worked()
    assert pause.until_s <= 10.0
    assert pause.failed(20.0) == 0.5


def test_what_any_part_sets_aside_is_counted_for_the_status_of_the_whole_process() -> None:
    clock, before = Clock(), Counter(ALL)
    sensors, coap = (Failures(CountedLines(_log, clock.time)) for _ in range(2))
    sensors.failed("read of a test", OSError("bus"), "pump")
    coap.failed("answer to a test", ValueError("odd"))
    step = Unlucky()
    step.is_failing = True
    assert not sensors.tried("read of a test", step)
    assert ALL - before == {"read of a test": 2, "answer to a test": 1}


def test_who_a_step_is_about_is_asked_for_its_name_only_where_it_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Client:
        asked = 0

        def __str__(self) -> str:
            self.asked += 1
            return "thermometer"

    client, step = Client(), Unlucky()
    failures = Failures(CountedLines(_log, Clock().time))
    assert failures.tried("read of a test", step, client)
    assert client.asked == 0
    step.is_failing = True
    assert not failures.tried("read of a test", step, client)
    assert "thermometer" in caplog.text
