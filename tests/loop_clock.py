"""An event loop's clock and timers, moved by a test."""

from __future__ import annotations

import math
from collections.abc import Callable


class Alarm:
    """One timer."""

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback = callback

    def cancel(self) -> None:
        self.due_s = math.inf


class Clock:
    """An event loop's clock and timers, moved by the test."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.alarms: list[Alarm] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(self.now_s + delay, callback)
        self.alarms.append(alarm)
        return alarm

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        due = [alarm for alarm in self.alarms if alarm.due_s <= self.now_s]
        self.alarms = [alarm for alarm in self.alarms if alarm.due_s > self.now_s]
        for alarm in due:
            alarm.callback()
