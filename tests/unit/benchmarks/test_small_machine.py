"""Goal: the benchmark of a small machine reads what the kernel says, and fails where it should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.small_machine import Group, Periods, Squeezed, numbers
from benchmarks.weighed import Memory
from gateway.tools.bench.figures import LATE_MS, AnswerTimes

WELL = Squeezed("b", 1.0, Memory(1, 1), Memory(1, 1), AnswerTimes(1.0, LATE_MS), 0.0, 0)


def test_lines_of_a_control_group_that_are_no_number_are_passed_over() -> None:
    assert numbers("oom_kill 3\nlow max\n\nhigh 1\nthree words here\n") == {
        "oom_kill": 3,
        "high": 1,
    }


@pytest.mark.parametrize("file", ["memory.events", "memory.oom_control"])
def test_killed_processes_are_counted_by_either_version(tmp_path: Path, file: str) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / file).write_text("oom_kill_disable 0\noom_kill 2\n")
    (tmp_path / "cpu" / "cpu.stat").write_text("nr_periods 40\nnr_throttled 10\n")
    one = Group([tmp_path / "cpu", tmp_path / "memory"])
    assert one.killed() == 2
    assert one.periods() == Periods(10, 40)
    assert one.periods().since(Periods(5, 20)) == 0.25


def test_a_broker_that_was_killed_or_late_is_not_well() -> None:
    assert WELL.is_well
    assert not replace(WELL, killed=1).is_well
    assert not replace(WELL, puback=AnswerTimes(1.0, LATE_MS + 0.01)).is_well
