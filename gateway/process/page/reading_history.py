"""The last hour of each sensor, a value a minute, for the small charts of the page. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

from gateway.sensors.reading import Reading, full_name

MINUTES: Final = 60
SERIES_MAX: Final = 2_000
"""Sensors have so many values together; of further ones nothing is kept."""


class ReadingHistory:
    """The last readings of sensors, and those of the last hour."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        self._kept: dict[str, deque[tuple[int, float]]] = {}

    def __len__(self) -> int:
        """Return of how many values something is kept."""
        return len(self._kept)

    def add(self, sensor: str, reading: Reading) -> None:
        """Take a reading: of each minute the last one counts."""
        minute = int(reading.time_s // 60)
        if sensor in self._last or len(self._last) < SERIES_MAX:
            self._last[sensor] = reading
        for part, each in reading.values.items():
            value = each.value
            if not isinstance(value, (int, float)):
                continue
            name = full_name(sensor, part)
            series = self._kept.get(name)
            if series is None:
                if len(self._kept) >= SERIES_MAX:
                    self._drop_old(minute)
                if len(self._kept) >= SERIES_MAX:
                    continue
                series = self._kept[name] = deque(maxlen=MINUTES)
            if series and series[-1][0] > minute:  # the clock has been set back
                series.clear()
            if series and series[-1][0] == minute:
                series.pop()
            series.append((minute, float(value)))

    def last(self, sensor: str) -> Reading | None:
        """Return what a sensor said last, however old that is; None if it has said nothing."""
        return self._last.get(sensor)

    def of(self, name: str, now_s: float) -> list[float | None]:
        """Return the values of the last hour, a minute each, None where there is none.

        Args:
            name: the full name of a value.
            now_s: by the wall clock.

        """
        last = int(now_s // 60)
        found: list[float | None] = [None] * MINUTES
        for minute, value in self._kept.get(name, ()):
            at = MINUTES - 1 - (last - minute)
            if 0 <= at < MINUTES:
                found[at] = value
        return found

    def _drop_old(self, minute: int) -> None:
        """Forget what has said nothing for an hour: its sensor may be gone."""
        old = [name for name, kept in self._kept.items() if kept[-1][0] < minute - MINUTES]
        for name in old:
            del self._kept[name]
        for name in [
            one for one, said in self._last.items() if said.time_s // 60 < minute - MINUTES
        ]:
            del self._last[name]
