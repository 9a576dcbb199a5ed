"""All sensors and actuators of a gateway as one SenML pack, or those of them that are named.

``GET /sensors`` gives all, ``FETCH /sensors`` those that the request's body names (RFC 8790,
section 3.1: a pack of names alone, application/senml-etch+json).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiocoap import Message, error, resource

from gateway.coap.sensor_answers import Served
from gateway.sensors import senml
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import SensorError

SENML_ETCH_JSON = 320
NAMED_MAX = 256
"""Sensors that one request may name."""

MayRead = Callable[[Any, str], bool]
"""Whether who stands behind ``request.remote`` may read the sensor of a name."""


class SensorPack(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    """The pack of a gateway's sensors; one that can't be read, or may not, is left out of it.

    Args:
        served: the resources by sensor name; others add to it and take from it.
        sampler: reads the sensors.
        base_name: SenML base name of all.
        may_read: who may read which of them alone, and so in a pack.

    """

    def __init__(
        self,
        served: Mapping[str, Served],
        sampler: Sampler,
        base_name: str,
        may_read: MayRead = lambda _remote, _name: True,
    ) -> None:
        super().__init__()
        self._may_read = may_read
        self._served = served
        self._sampler = sampler
        self._base_name = base_name

    async def render_get(self, request: Message) -> Message:
        """All that its sender may read."""
        names = [name for name in self._served if self._may_read(request.remote, name)]
        return await self._pack(request, names)

    async def render_fetch(self, request: Message) -> Message:
        """Those that are named; 4.04 if one of them is not here, 4.03 if it may not be read."""
        if request.opt.content_format != SENML_ETCH_JSON:
            raise error.UnsupportedContentFormat("senml-etch+json (320)")
        names = self._named(request.payload)
        for name in names:
            if not self._may_read(request.remote, name):
                raise error.Forbidden(f"{self._base_name}{name} is not for you")
        return await self._pack(request, names)

    def get_link_description(self) -> dict[str, str]:
        """The attributes of its link."""
        return {"ct": str(senml.CONTENT_FORMAT), "title": "all sensors; FETCH some by name"}

    async def _pack(self, request: Message, names: Iterable[str]) -> Message:
        if request.opt.accept not in (None, senml.CONTENT_FORMAT):
            raise error.NotAcceptable("senml+json (110)")
        records = []
        for name in tuple(names):
            served = self._served.get(name)
            if served is None:
                continue  # gone meanwhile
            try:
                reading = await self._sampler.current(served.sensor)
            except SensorError:
                continue
            unit = served.sensor.unit
            records.append(senml.SenmlRecord(name, reading.value, unit, reading.time_s))
        payload = senml.encode(self._base_name, records)
        return Message(payload=payload, content_format=senml.CONTENT_FORMAT)

    def _named(self, payload: bytes) -> list[str]:
        try:
            asked: Any = json.loads(payload)
        except (ValueError, RecursionError) as wrong:
            raise error.BadRequest("no JSON") from wrong
        if not isinstance(asked, list) or not 0 < len(asked) <= NAMED_MAX:
            raise error.BadRequest(f"not 1 to {NAMED_MAX} records")
        names, base = [], ""
        for record in asked:
            if not isinstance(record, dict) or not record.keys() <= {"bn", "n"}:
                raise error.BadRequest(f"a record names a sensor by bn and n alone: {record!r}")
            base = _text(record, "bn", base)
            whole = base + _text(record, "n", "")
            name = whole.removeprefix(self._base_name)
            if name not in self._served:
                raise error.NotFound(f"no sensor {whole[:80]!r}")
            names.append(name)
        return names


def _text(record: dict[str, Any], field: str, missing: str) -> str:
    value = record.get(field, missing)
    if not isinstance(value, str):
        raise error.BadRequest(f"{field} is no text: {value!r}")
    return value
