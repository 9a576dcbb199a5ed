"""A sensor that plays a recorded series at a chosen speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.sensors.recorded import Series
from gateway.sensors.sensor import Sensor
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Playback:
    """A series that is played over and over.

    Attributes:
        series: over and over.
        speed: seconds of the series that pass in one second.
        offset_s: where in the series it starts, seconds, so that several gateways differ.

    Raises:
        ValueError: ``speed`` is not greater than 0, or ``offset_s`` is less than 0.

    """

    series: Series
    speed: float = 1.0
    offset_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"speed: {self.speed} is not greater than 0")
        if not self.offset_s >= 0:
            raise ValueError(f"offset_s: {self.offset_s} is less than 0")

    def after(self, seconds: float) -> float:
        """Return the value so long after the start."""
        return self.series.at(self.offset_s + seconds * self.speed)


class Replay(Sensor):
    """Reads what a recorded series showed as long after its start, times a speed.

    Args:
        name: the sensor's name.
        playback: what it plays.
        clock: seconds, rising; the series starts at the first reading.
        interval_s: how often it is read, seconds.
        resource_type: the link's ``rt``.
        attributes: more attributes of the link.

    """

    is_quick = True

    def __init__(
        self,
        name: str,
        playback: Playback,
        *,
        clock: Callable[[], float],
        interval_s: float = 10.0,
        resource_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            name,
            interval_s=interval_s,
            unit=playback.series.unit,
            resource_type=resource_type,
            attributes=attributes,
        )
        self._playback = playback
        self._clock = clock
        self._started: float | None = None

    def read(self) -> float:
        """Return the series' value at this time."""
        now = self._clock()
        if self._started is None:
            self._started = now
        return self._playback.after(now - self._started)
