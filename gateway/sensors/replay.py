"""A sensor that plays a recorded series at a chosen speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.sensors.recorded import Series
from gateway.sensors.sensor import Sensor


class Replay(Sensor):
    """Reads what a recorded series showed as long after its start, times ``speed``.

    Args:
        name: the sensor's name.
        series: what it plays, over and over.
        clock: seconds, rising; the series starts at the first reading.
        speed: seconds of the series that pass in one second.
        offset_s: where in the series it starts, seconds, so that several gateways differ.
        interval_s: how often it is read, seconds.
        resource_type: the link's ``rt``.
        attributes: more attributes of the link.

    Raises:
        ValueError: ``speed`` is not greater than 0, or ``offset_s`` is less than 0.

    """

    def __init__(
        self,
        name: str,
        series: Series,
        *,
        clock: Callable[[], float],
        speed: float = 1.0,
        offset_s: float = 0.0,
        interval_s: float = 10.0,
        resource_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            name,
            interval_s=interval_s,
            unit=series.unit,
            resource_type=resource_type,
            attributes=attributes,
        )
        if not speed > 0:
            raise ValueError(f"speed: {speed} is not greater than 0")
        if not offset_s >= 0:
            raise ValueError(f"offset_s: {offset_s} is less than 0")
        self._series = series
        self._clock = clock
        self._speed = speed
        self._offset_s = offset_s
        self._started: float | None = None

    def read(self) -> float:
        """The series' value at this time."""
        now = self._clock()
        if self._started is None:
            self._started = now
        return self._series.at(self._offset_s + (now - self._started) * self._speed)
