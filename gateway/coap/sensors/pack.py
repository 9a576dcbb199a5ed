"""All sensors and actuators of a gateway as one SenML pack, or those of them that are named.

``GET /sensors`` gives all, ``FETCH /sensors`` those that the request's body names (RFC 8790,
section 3.1: a pack of names alone, application/senml-etch+json or +cbor).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aiocoap import Message, error, resource

from gateway.base.in_turns import in_turns
from gateway.coap.operations.status import JSON
from gateway.coap.sensors.answers import ServedSensor
from gateway.coap.sensors.roll import MayWrite, SensorRoll, anybody, listed, posted
from gateway.sensors import senml
from gateway.sensors.reading import Reading, full_name
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import SensorError
from gateway.sensors.values import shown

AT_ONCE = 32
"""So many sensors are read side by side for one pack."""
WAIT_S = 3.0
"""A pack waits so long for sensors that have no reading at hand, all of them together. Another
gateway that asks for it gives up after 5 s (`docs/queries.md`)."""
SENML_ETCH_JSON = 320
SENML_ETCH_CBOR = 322
_ETCH = {SENML_ETCH_JSON: senml.CONTENT_FORMAT, SENML_ETCH_CBOR: senml.CBOR_FORMAT}
_FORMATS = (senml.CONTENT_FORMAT, senml.CBOR_FORMAT)

MayRead = Callable[[Any, str], bool]
"""Returns whether who stands behind ``request.remote`` may read the sensor of a name."""


class SensorPack(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    """The pack of a gateway's sensors.

    One that can't be read, or not in time, or may not, is left out of it.

    Args:
        served: the resources by sensor name; others add to it and take from it.
        sampler: reads the sensors.
        base_name: SenML base name of all.
        may_read: who may read which of them alone, and so in a pack.
        may_write: says again who may change which there are.
        wait_s: how long a pack waits for sensors that hang, in seconds.

    """

    roll: SensorRoll | None = None
    """The roll by which sensors are listed and added."""

    def __init__(
        self,
        served: Mapping[str, ServedSensor],
        sampler: Sampler,
        base_name: str,
        may_read: MayRead = lambda _remote, _name: True,
        may_write: MayWrite = anybody,
        wait_s: float = WAIT_S,
    ) -> None:
        super().__init__()
        self._may_write = may_write
        self._wait_s = wait_s
        self._may_read = may_read
        self._served = served
        self._sampler = sampler
        self._base_name = base_name

    async def render_get(self, request: Message) -> Message:
        """Return all that its sender may read; as JSON (50) what they are."""
        if request.opt.accept == JSON and self.roll is not None:
            return await listed(self.roll, lambda name: self._may_read(request.remote, name))
        names = [name for name in self._served if self._may_read(request.remote, name)]
        return await self._pack(request, names)

    async def render_post(self, request: Message) -> Message:
        """Have one more sensor, or one by another table."""
        if self.roll is None:
            raise error.UnallowedMethod("sensors can't be added here")
        return await posted(self.roll, request, self._may_write)

    async def render_fetch(self, request: Message) -> Message:
        """Return those that are named; 4.04 if one of them is not here, 4.03 if it may not be
        read."""
        form = _ETCH.get(request.opt.content_format)
        if form is None:
            raise error.UnsupportedContentFormat("senml-etch+json (320) or +cbor (322)")
        names = self._named(request.payload, form)
        for name in names:
            if not self._may_read(request.remote, name):
                raise error.Forbidden(f"{self._base_name}{name} is not for you")
        return await self._pack(request, names)

    def get_link_description(self) -> dict[str, str]:
        """Return the attributes of its link."""
        return {"ct": " ".join(map(str, _FORMATS)), "title": "all sensors; FETCH some by name"}

    async def _pack(self, request: Message, names: Iterable[str]) -> Message:
        accept = request.opt.accept
        if accept is not None and accept not in _FORMATS:
            raise error.NotAcceptable("senml+json (110) or senml+cbor (112)")
        form = senml.CONTENT_FORMAT if accept is None else accept
        records = list[senml.SenmlRecord]()
        asked = tuple(names)
        readings = await self._readings(asked)
        async for name in in_turns(asked):
            reading = readings.get(name)
            records += () if reading is None else in_senml(name, reading)
        payload = await senml.encoded_in_turns(self._base_name, records, form)
        return Message(payload=payload, content_format=form)

    async def _readings(self, names: Sequence[str]) -> dict[str, Reading]:
        """Return the readings that are at hand, then those of the others that come in time."""
        deadline = asyncio.get_running_loop().time() + self._wait_s
        found = dict[str, Reading]()
        async for name in in_turns(names):
            if (reading := self._at_hand(name)) is not None:
                found[name] = reading
        missing = [name for name in names if name not in found]
        in_turn = iter(missing)
        readers = min(AT_ONCE, len(missing))
        await asyncio.gather(*(self._read_all(in_turn, deadline, found) for _ in range(readers)))
        return found

    async def _read_all(
        self, names: Iterator[str], deadline: float, found: dict[str, Reading]
    ) -> None:
        """Read one sensor after the other, beside others that take theirs from the same names.

        One that hangs holds up its own reader alone.
        """
        now = asyncio.get_running_loop().time
        for name in names:
            if now() >= deadline:
                return
            if (reading := await self._read(name, deadline)) is not None:
                found[name] = reading

    def _at_hand(self, name: str) -> Reading | None:
        served = self._served.get(name)
        return None if served is None else self._sampler.at_hand(served.sensor)

    async def _read(self, name: str, deadline: float) -> Reading | None:
        served = self._served.get(name)
        if served is None:
            return None  # gone meanwhile
        try:
            async with asyncio.timeout_at(deadline):  # the read itself goes on
                return await self._sampler.current(served.sensor)
        except (SensorError, TimeoutError):
            return None

    def _named(self, payload: bytes, form: int) -> list[str]:
        try:
            asked = senml.loaded(payload, form)
        except senml.SenmlError as wrong:
            raise error.BadRequest(str(wrong)) from wrong
        names, base = list[str](), ""
        for record in asked:
            if not record.keys() <= {"bn", "n"}:
                raise error.BadRequest(f"a record names a sensor by bn and n alone: {record!r:.80}")
            base = _text(record, "bn", base)
            whole = base + _text(record, "n", "")
            name = whole.removeprefix(self._base_name)
            if name not in self._served:
                raise error.NotFound(f"no sensor {whole[:80]!r}")
            names.append(name)
        return names


def in_senml(name: str, reading: Reading) -> list[senml.SenmlRecord]:
    """Return the values of a reading as records of a pack, but for those that are none.

    Args:
        name: the sensor's.
        reading: of it.

    """
    return [
        senml.SenmlRecord(
            full_name(name, part),
            shown(each.value, reading.resolution),
            each.unit or "",
            reading.time_s,
            each.quality,
            each.tags,
        )
        for part, each in reading.values.items()
        if each.value is not None
    ]


def _text(record: dict[str, Any], field: str, missing: str) -> str:
    value = record.get(field, missing)
    if not isinstance(value, str):
        raise error.BadRequest(f"{field} is no text: {value!r:.80}")
    return value
