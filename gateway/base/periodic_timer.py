"""Does something again and again, whatever becomes of one time."""

from __future__ import annotations

from collections.abc import Callable

from gateway.base.event_log.failures import Failures
from gateway.base.timers import Alarm, Timers


class PeriodicTimer:
    """A timer that a failure does not end.

    Args:
        timers: the event loop.
        what: is done, for the line that tells of a failure.
        step: does it, and returns in how many seconds it is due again.
        after_failure_s: when it is due again after it failed.
        failures: is told.

    """

    def __init__(
        self,
        timers: Timers,
        what: str,
        step: Callable[[], float],
        after_failure_s: float,
        failures: Failures,
    ) -> None:
        self._timers = timers
        self._what = what
        self._step = step
        self._after_failure_s = after_failure_s
        self._failures = failures
        self._alarm: Alarm | None = None
        self._is_over = False

    def start(self, delay_s: float) -> None:
        """Begin in so many seconds."""
        self._alarm = self._timers.call_later(delay_s, self._due)

    def stop(self) -> None:
        """Do it no more."""
        self._is_over = True
        if self._alarm is not None:
            self._alarm.cancel()

    def _due(self) -> None:
        again_s = self._after_failure_s
        try:
            again_s = self._step()
        except Exception as error:  # whatever it was, the next time is another one
            self._failures.failed(self._what, error)
        finally:
            if not self._is_over:
                self.start(again_s)
