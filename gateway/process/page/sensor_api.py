"""API for sensors: drivers and their keys, a trial, and adding and changing one.

What changes a sensor is asked of the resource ``/sensors``, which decides who may, as over CoAP.
What is a trial, or tells what a form has to know, is for who may add a sensor. A browser names
drivers that ship or are installed, by their words, and never a class or a file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

from gateway.coap.sensors.roll import MAX_TABLE_BYTES
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.site_asker import JSON, SiteAsker, SiteQuestion
from gateway.sensors.catalogue import KINDS, all_types, described, driver_of
from gateway.sensors.options import SensorConfigError
from gateway.sensors.stock import SensorConflictError
from gateway.sensors.trying import SensorTrials, TrialFailedError, TrialLateError, TriedSensor
from gateway.sensors.values import as_text
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError

VALUES_MAX: Final = 64
"""Of a trial that are told."""
CHARACTERS_MAX: Final = 200
"""Of each text in one."""
LISTED_S: Final = 60.0
"""So long a list of drivers holds: to find those that are installed reads all packages' files."""
_TRIED_NAME: Final = "try"


class AddedTables(Protocol):
    """The tables of sensors that were added (`gateway.process.running.readings.Readings`)."""

    def added_table(self, name: str) -> Mapping[str, Any]:
        """Return the table of a sensor that was added.

        Raises:
            KeyError: there is no such sensor.
            SensorConflictError: it stands in the configuration.

        """


class SensorApi:
    """Answers.

    Args:
        asker: asks ``/sensors``.
        tables: of sensors that were added.

    """

    def __init__(self, asker: SiteAsker, tables: AddedTables) -> None:
        self._asker = asker
        self._tables = tables
        self._trials = SensorTrials()
        self._listed: tuple[float, Sequence[Mapping[str, Any]]] | None = None

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "drivers": self.drivers,
            "driver": self.driver,
            "try_sensor": self.try_sensor,
            "add_sensor": self.add,
            "sensor_table": self.table,
            "change_sensor": self.change,
            "remove_sensor": self.remove,
        }

    def may_add(self, visitor: Principal) -> bool:
        """Return whether a visitor may add sensors."""
        return self._asker.may(visitor, "POST", "sensors")

    def _check(self, visitor: Principal) -> None:
        if not self.may_add(visitor):
            raise ApiError(HTTPStatus.FORBIDDEN, f"{visitor} may not POST /sensors")

    # -- drivers ---------------------------------------------------------------------------------

    async def drivers(self, asked: ApiRequest) -> Any:
        """List the drivers that there are; installed ones are not loaded for that."""
        self._check(asked.visitor)
        now_s = asyncio.get_running_loop().time()
        if self._listed is None or now_s - self._listed[0] >= LISTED_S:
            self._listed = now_s, await asyncio.to_thread(_listed)
        return {"drivers": self._listed[1]}

    async def driver(self, asked: ApiRequest) -> Any:
        """Tell all keys of a driver."""
        self._check(asked.visitor)
        return await self._described(asked.names["type"])

    async def _described(self, kind: str) -> Mapping[str, Any]:
        try:
            return await asyncio.to_thread(self._described_now, kind)
        except TrialLateError as error:
            raise ApiError(HTTPStatus.GATEWAY_TIMEOUT, _cut(f"type: {error}")) from error
        except TrialFailedError as error:
            raise ApiError(HTTPStatus.CONFLICT, _cut(f"type: {error}")) from error

    def _described_now(self, kind: str) -> Mapping[str, Any]:
        if kind in KINDS:
            return described(kind).as_json()
        known = all_types()
        if kind not in known:  # a class is not loaded because a browser names it
            why = f"type: {kind[:64]!r} is none of {', '.join(known)}"
            raise ApiError(HTTPStatus.CONFLICT, why)
        return self._trials.described(kind)

    # -- one sensor ------------------------------------------------------------------------------

    async def try_sensor(self, asked: ApiRequest) -> Any:
        """Build a sensor, read it once, and keep nothing of it."""
        self._check(asked.visitor)
        table = _table(asked.body)
        if "name" not in table:
            driver = await self._described(table["type"])
            keys = driver["parameters"]
            if any(one["name"] == "name" and one["is_needed"] for one in keys):
                table["name"] = _TRIED_NAME
                asked.check_still_in()  # to load it may have taken ten seconds
                self._check(asked.visitor)
        tried = partial(self._trials.tried, None, table, is_afar=True)
        try:
            found = await asyncio.to_thread(tried)
        except SensorConfigError as error:
            key = error.key.partition(".")[2] or "sensor"
            raise ApiError(HTTPStatus.BAD_REQUEST, _cut(f"{key}: {error.why}")) from error
        except TrialFailedError as error:
            raise ApiError(HTTPStatus.GATEWAY_TIMEOUT, _cut(f"sensor: {error}")) from error
        left_out = max(0, len(found) - VALUES_MAX)
        return {"values": [_value(one) for one in found[:VALUES_MAX]], "left_out": left_out}

    async def add(self, asked: ApiRequest) -> Any:
        """Have one more sensor."""
        payload = _payload(_table(asked.body))
        question = SiteQuestion(
            "POST",
            ("sensors",),
            payload=payload,
            content_format=JSON,
        )
        return await self._asker.document(asked, question)

    async def table(self, asked: ApiRequest) -> Any:
        """Tell the table of a sensor that was added."""
        self._check(asked.visitor)
        return {"table": dict(self._table_of(asked.names["name"]))}

    async def change(self, asked: ApiRequest) -> Any:
        """Have a sensor that was added by another table."""
        name, table = asked.names["name"], _table(asked.body)
        if self.may_add(asked.visitor):  # who may not is refused by the resource
            table = dict.fromkeys(self._table_of(name)) | table
        question = SiteQuestion(
            "POST",
            ("sensors",),
            [f"change={name}"],
            _payload(table),
            content_format=JSON,
        )
        return await self._asker.document(asked, question)

    async def remove(self, asked: ApiRequest) -> Any:
        """Have a sensor no more that was added."""
        path = ("sensors", *asked.names["name"].split("/"))
        question = SiteQuestion("DELETE", path)
        return await self._asker.document(asked, question)

    def _table_of(self, name: str) -> Mapping[str, Any]:
        try:
            return self._tables.added_table(name)
        except KeyError as error:
            raise ApiError(HTTPStatus.NOT_FOUND, f"name: no sensor {name!r}") from error
        except SensorConflictError as error:
            raise ApiError(HTTPStatus.CONFLICT, f"name: {error}") from error


def _listed() -> Sequence[Mapping[str, Any]]:
    """Waits for files, and for modules of drivers that ship."""
    return [
        {
            "type": kind,
            "text": driver_of(kind).text if kind in KINDS else "",
            "is_installed": kind not in KINDS,
        }
        for kind in all_types()
    ]


def _table(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sensor's table, as a configuration has it."""
    options = body.get("options", {})
    for key in ("type", "name"):
        if key in options:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"options: {key} stands beside them")
    table = {key: body[key] for key in ("type", "name") if key in body}
    table |= options
    _payload(table)
    return table


def _payload(table: Mapping[str, Any]) -> bytes:
    payload = json.dumps(table).encode()
    if len(payload) > MAX_TABLE_BYTES:
        why = f"options: over {MAX_TABLE_BYTES} bytes in all"
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return payload


def _value(one: TriedSensor) -> dict[str, Any]:
    value = as_text(one.value) if isinstance(one.value, bytes) else one.value
    return {
        "name": _cut(one.name),
        "value": _cut(value) if isinstance(value, str) else value,
        "unit": _cut(one.unit),
        "quality": one.quality,
        "why": _cut(one.why),
    }


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else f"{text[: CHARACTERS_MAX - 1]}…"
