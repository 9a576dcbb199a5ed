"""The topics that a gateway's sensors listen to: live messages, and what was retained before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.trust.policy.origins import OriginRights
from tree_handler.batch import Row

UNHEARD: Final = "message that a sensor may not be told"

FindKept = Callable[[str], tuple[bytes, float] | None]
"""Returns what is retained on a topic, and its age in seconds."""

_log = logging.getLogger(__name__)


def _nothing_kept(_topic: str) -> None:
    """Nothing is known of what is retained before the start."""


class HeardTopics:
    """Gives sensors the messages of their topics.

    Args:
        sampler: reads the sensors.
        refused: is told of what was not listened to: its kind, and which.

    Attributes:
        kept_on: finds what is retained on a topic; set at the start.

    """

    def __init__(self, sampler: Sampler, refused: Callable[[str, str], None]) -> None:
        self._sampler = sampler
        self._refused = refused
        self._sensors: dict[str, list[Sensor]] = {}
        self.kept_on: FindKept = _nothing_kept

    def __iter__(self) -> Iterator[str]:
        """Return the topics that any sensor listens to."""
        return iter(self._sensors)

    def follow(self, prefix: str, sensors: Sequence[Sensor]) -> None:
        """Go by these sensors from now on.

        Args:
            prefix: what their own topics begin with, which none of them hears.
            sensors: all that there are.

        """
        self._sensors = {}
        own = tuple(f"{prefix}/{sensor.name}/" for sensor in sensors)
        for sensor in sensors:
            for topic in sensor.topics:
                if f"{topic}/".startswith(own):  # what it published would be heard, and so on
                    _log.error("sensor %s: %s is a sensor's of this gateway", sensor.name, topic)
                else:
                    self._sensors.setdefault(topic, []).append(sensor)

    def hear(self, rows: Iterable[Row], voice: OriginRights | None) -> None:
        """Take what was published anywhere; see `Readings.hear`."""
        for row in rows if self._sensors else ():
            sensors = self._sensors.get(row[0], ())
            if sensors and voice is not None and not voice.may_speak(row[0]):
                self._refused(UNHEARD, f"{row[0]!r} came into the tree by {voice.origin}")
                continue
            for sensor in sensors:
                # Not now: what it says may publish, in the midst of a turn that does.
                asyncio.get_running_loop().call_soon(self._sampler.hear, sensor, row[0], row[2])

    def begin(self, sensor: Sensor) -> None:
        """Have a sensor hear what is retained on its topics, as whoever subscribes does."""
        if sensor.topics:  # not now, either
            asyncio.get_running_loop().call_soon(self._recall, sensor)

    def _recall(self, sensor: Sensor) -> None:
        for topic in sensor.topics:
            kept = self.kept_on(topic) if sensor in self._sensors.get(topic, ()) else None
            if kept is not None:
                self._sampler.recall(sensor, topic, *kept)
