"""A thread for a way out, so that nobody waits for one that takes long or never answers.

One thread at a time hands records over, in order. While it is at work, or hangs, it takes no
others: they stay with who raises alerts, and come again once it is free.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from alerts.record import AlertRecord, WayOut

LONG_S: Final = 60.0
"""A record that takes longer is told of in the log."""

_log = logging.getLogger(__name__)


class WayOutThread:
    """Hands records over to one way out.

    Args:
        way_out: gets them.
        clock: monotonic seconds.

    """

    def __init__(self, way_out: WayOut, clock: Callable[[], float] = time.monotonic) -> None:
        self._way_out = way_out
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._taken: list[str] = []
        self._begun_s = clock()
        self._is_late = False
        self._has_failed = False

    def is_free(self) -> bool:
        """Return whether it hands nothing over now; say once of a record that takes long."""
        if self._thread is None or not self._thread.is_alive():
            self._is_late = False
            return True
        if not self._is_late and self._clock() - self._begun_s > LONG_S:
            self._is_late = True
            _log.warning(
                "alerts wait: their way out has not answered for %g s; tables do not wait for it",
                LONG_S,
            )
        return False

    def offer(self, records: Sequence[AlertRecord]) -> None:
        """Hand records over from now on, in order; what is not taken is to be offered again.

        Args:
            records: they are left alone unless it `is_free`.

        """
        if not records or not self.is_free():
            return
        self._begun_s = self._clock()
        # A daemon: a way out that hangs keeps no process from its end.
        thread = threading.Thread(
            target=self._hand_over, args=(tuple(records),), name="way-out", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the machine has no thread left
            self._failed(error)
            return
        self._thread = thread

    def taken(self) -> Sequence[str]:
        """Return the `delivery_id` of each record that was taken over since this was last asked."""
        with self._lock:
            found, self._taken = self._taken, []
        return found

    def wait(self, longest_s: float) -> None:
        """Wait until it is free, seconds at most."""
        if self._thread is not None:
            self._thread.join(longest_s)

    def _hand_over(self, records: Sequence[AlertRecord]) -> None:
        for record in records:
            self._begun_s = self._clock()
            try:
                self._way_out.take((record,))
            except Exception as error:  # of whatever kind: this one and all later ones come again
                self._failed(error)
                return
            with self._lock:
                self._taken.append(record.delivery_id)
        self._has_failed = False

    def _failed(self, error: Exception) -> None:
        if not self._has_failed:
            _log.warning("alerts wait for their way out: %s: %s", type(error).__name__, error)
        self._has_failed = True
