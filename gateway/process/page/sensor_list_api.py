"""API for the list of sensors, which a page asks for every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from gateway.base.in_turns import in_turns
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.site_asker import SiteAsker
from gateway.sensors.reading import full_name
from gateway.sensors.sensor import Actuator
from gateway.web.api_error import ApiError

if TYPE_CHECKING:
    from gateway.process.page.reading_history import ReadingHistory
    from gateway.sensors.catalogue import ConfiguredSensor
    from gateway.sensors.reading import Reading
    from gateway.sensors.sampler import Sampler
    from gateway.sensors.sensor import Sensor
    from gateway.sensors.stock import SensorPlan


class PlannedSensors(Protocol):
    """The sensors of a gateway (`gateway.process.running.readings.Readings`)."""

    @property
    def plan(self) -> SensorPlan:
        """The sensors that there are now."""


class SensorRow:
    """A sensor as it is told to those who may set it, or to those who may not.

    The JSON is made once and told until there is news of the sensor.

    Args:
        configured: the sensor, and its table.
        is_added: true if it can be changed and removed.
        may_set: true if the visitor may set it.

    """

    def __init__(self, configured: ConfiguredSensor, *, is_added: bool, may_set: bool) -> None:
        self.configured = configured
        self.is_added = is_added
        self._may_set = may_set
        self._reading: Reading | None = None
        self._state = ""
        self._told = msgspec.Raw()

    def told(self, reading: Reading | None, state: str) -> msgspec.Raw:
        """Return the row as JSON.

        Args:
            reading: the sensor's last one.
            state: as `Sampler.state_of` tells it.

        """
        if reading is not self._reading or state != self._state:
            self._told = self.made(reading, state)
            self._reading, self._state = reading, state
        return self._told

    def made(
        self,
        reading: Reading | None,
        state: str,
        hour: Callable[[str], list[float | None]] | None = None,
    ) -> msgspec.Raw:
        """Make the row, and keep nothing.

        Args:
            reading: as of `told`.
            state: as of `told`.
            hour: gives the last hour of a value; None to tell none.

        """
        sensor = self.configured.sensor
        row = self.configured.as_json(is_added=self.is_added, state=state) | {
            "is_actuator": isinstance(sensor, Actuator),
            "may_set": self._may_set,
            "values": [] if reading is None else _values(sensor.name, reading, hour),
        }
        return msgspec.Raw(msgspec.json.encode(row))


class SensorListApi:
    """Lists sensors.

    Rows are kept: most sensors say nothing new between two looks, and to make hundreds of rows
    takes milliseconds of the event loop.

    Args:
        asker: knows who may read and set what.
        roll: has the sensors.
        sampler: reads them.
        history: their last hour.

    """

    def __init__(
        self, asker: SiteAsker, roll: PlannedSensors, sampler: Sampler, history: ReadingHistory
    ) -> None:
        self._asker = asker
        self._roll = roll
        self._sampler = sampler
        self._history = history
        self._rows: dict[tuple[str, bool], SensorRow] = {}
        sampler.listen(self._read)

    def __len__(self) -> int:
        """Return how many rows are kept."""
        return len(self._rows)

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {"sensors": self.sensors}

    def _read(self, sensor: Sensor) -> None:
        reading = self._sampler.at_hand(sensor)
        if reading is not None:
            self._history.add(sensor.name, reading)

    async def sensors(self, asked: ApiRequest) -> Any:
        """List the sensors that the visitor may read, with what they say and said.

        Others have turns meanwhile. Each row is JSON before the next turn, so that the whole is put
        together in no time.
        """
        rights = self._asker.rights(asked.visitor)
        if not rights.may("GET", ("sensors",)).is_allowed:
            raise ApiError(HTTPStatus.FORBIDDEN, "sensors: the policy lets you read none")
        now_s = time.time() if asked.query.get("hour", 1) else None
        plan = self._roll.plan
        added = {each.sensor.name for each in plan.added}
        told: list[msgspec.Raw] = []
        async for each in in_turns(plan.all):
            sensor = each.sensor
            path = ("sensors", *sensor.name.split("/"))
            if not self._sampler.reads(sensor) or not rights.may("GET", path).is_allowed:
                continue
            may_set = isinstance(sensor, Actuator) and rights.may("PUT", path).is_allowed
            row = self._row(each, is_added=sensor.name in added, may_set=may_set)
            reading, state = self._history.last(sensor.name), self._sampler.state_of(sensor)
            if now_s is None:
                told.append(row.told(reading, state))
            else:
                told.append(row.made(reading, state, partial(self._history.of, now_s=now_s)))
        self._forget_all_but(plan)
        return {"sensors": told}

    def _row(self, configured: ConfiguredSensor, *, is_added: bool, may_set: bool) -> SensorRow:
        key = (configured.sensor.name, may_set)
        row = self._rows.get(key)
        if row is None or row.configured is not configured or row.is_added != is_added:
            row = self._rows[key] = SensorRow(configured, is_added=is_added, may_set=may_set)
        return row

    def _forget_all_but(self, plan: SensorPlan) -> None:
        """Forget rows of sensors that have gone, as soon as there are too many."""
        if len(self._rows) > 2 * len(plan.all):
            names = {each.sensor.name for each in plan.all}
            self._rows = {key: row for key, row in self._rows.items() if key[0] in names}


def _values(
    name: str, reading: Reading, hour: Callable[[str], list[float | None]] | None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part, each in reading.values.items():
        value: dict[str, Any] = {
            "name": full_name(name, part),
            "value": each.value,
            "unit": each.unit or "",
            "quality": each.quality,
            "time_ms": int(reading.time_s * 1000),
        }
        if hour is not None:
            value["hour"] = hour(value["name"])
        found.append(value)
    return found
