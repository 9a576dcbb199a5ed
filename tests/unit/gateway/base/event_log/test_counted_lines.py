"""Goal: what members and clients cause again and again is counted, and never floods the log."""

from __future__ import annotations

import logging

import pytest
from loop_clock import Clock

from gateway.base.event_log.counted_lines import CountedLines

_log = logging.getLogger(__name__)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return messages


def test_each_kind_is_said_once_a_second_with_how_often_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    lines = CountedLines(_log, clock.time)
    for number in range(5):
        lines.count("refused", f"client {number}")
    lines.count("dropped", "client 9")
    assert said(caplog) == ["client 0: refused (1 so far)", "client 9: dropped (1 so far)"]
    clock.pass_s(1.0)
    lines.count("refused", "client 5", 3)
    assert said(caplog) == ["client 5: refused (8 so far)"]


def test_no_source_takes_the_lines_of_another(caplog: pytest.LogCaptureFixture) -> None:
    lines = CountedLines(_log, Clock().time, at_once=2)
    for number in range(100):
        lines.count("lost", f"{number} of gw-a", source="gw-a")
    lines.count("lost", "7 of gw-b", source="gw-b")
    assert said(caplog) == [
        "0 of gw-a: lost (1 so far)",
        "1 of gw-a: lost (2 so far)",
        "7 of gw-b: lost (101 so far)",
    ]
