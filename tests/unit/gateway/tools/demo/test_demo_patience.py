"""The demo waits for processes that have no processor, and not for those that do nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gateway.tools.demo.patience import AT_MOST_S, QuietClock, StalledError, processor_delay_s


class Machine:
    """Time passes in steps, in which the processes wait for a processor or not."""

    def __init__(self) -> None:
        self.now_s = self.delay_s = 0.0
        self.patience = QuietClock(lambda: self.delay_s, lambda: self.now_s, budget_s=30.0)

    def pass_time(self, seconds: float, waiting: float) -> None:
        self.now_s += seconds
        self.delay_s += waiting
        self.patience.check()


def test_what_does_nothing_on_a_quiet_machine_is_given_up_after_the_budget() -> None:
    machine = Machine()
    for _ in range(30):
        machine.pass_time(1.0, 0.0)
    with pytest.raises(StalledError, match=r"^within 31 s$"):
        machine.pass_time(1.0, 0.0)


def test_who_waits_for_a_processor_all_the_while_is_waited_for() -> None:
    machine = Machine()
    for _ in range(290):
        machine.pass_time(1.0, 0.9)
    with pytest.raises(StalledError, match=r"within 30 s, beside 27\d s"):
        for _ in range(20):
            machine.pass_time(1.0, 0.9)


def test_nothing_is_waited_for_without_an_end() -> None:
    machine = Machine()
    with pytest.raises(StalledError):
        for _ in range(int(AT_MOST_S) + 1):
            machine.pass_time(1.0, 1.0)


def test_another_process_than_before_gives_no_time_back() -> None:
    machine = Machine()
    machine.pass_time(10.0, 10.0)
    machine.delay_s = 0.0  # the one that waited has ended
    machine.pass_time(20.0, 0.0)
    with pytest.raises(StalledError):
        machine.pass_time(11.0, 0.0)


def test_linux_tells_how_long_a_process_waited_and_nothing_of_one_that_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert processor_delay_s([os.getpid(), process.pid]) >= processor_delay_s([process.pid])
        process.communicate(b"\n")
    assert processor_delay_s([process.pid]) == 0.0
    assert processor_delay_s([]) == 0.0
