"""Sensors and actuators as CoAP resources below ``/sensors``, and their links (A5, A7).

A GET is answered from the sensor's last reading or a fresh one and never waits on MQTT. A PUT
sets an actuator. A resource can be observed (RFC 7641): each new reading is a notification. Who
may write is decided before a request comes here.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Mapping
from functools import partial
from typing import Any, Final

from aiocoap import Code, ContentFormat, Message, error, resource

from coap_engine.message import CoapResponse
from dtls.identity import ANONYMOUS
from gateway.base.printable import told
from gateway.coap.sensors.answers import FORMATS, PATH, SensorAnswers, max_age_s
from gateway.coap.sensors.device_answers import DeviceAnswers, LetsPeer, any_peer
from gateway.coap.sensors.link_attributes import CheckedLink, DescribedLinks
from gateway.coap.sensors.pack import MayRead, SensorPack, in_senml
from gateway.coap.sensors.roll import MayWrite, SensorRoll, anybody, checked_again, removed
from gateway.sensors import senml, values
from gateway.sensors.device_resource import GET, DeviceResource
from gateway.sensors.reading import Reading
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import (
    Actuator,
    Sensor,
    SensorBusyError,
    SensorError,
    SensorLateError,
    ValueRefusedError,
    check_sensor,
)
from record_formats.value import Value
from resource_directory.link_format import WebLink
from resource_directory.registration import MAX_LIFETIME_S
from resource_directory.registry import Registry
from tree_handler.members.place import Place

_REMOVED = b"removed"
_TEXT = int(ContentFormat.TEXT)
_UNSURE = "the value may be set"
_FORMATS_TEXT = "senml+json (110), senml+cbor (112) or text/plain (0)"
LINKS_MAX: Final = 2_048
CHILD_LINKS_BYTES_MAX: Final = 32 << 10
"""So much of the own registration may be links of child resources, which clients have created."""
OWN_IDENTITY = "self"
"""Owner of the gateway's own registration; a peer's is ``PROOF:NAME``, so that none is this."""


class SensorResources:
    """The resources of a gateway's sensors on its site.

    Args:
        site: where they are served.
        sampler: reads the sensors.
        gateway_id: whose they are.
        place: its domain and group, which each sensor's link names.
        may_read: who may read which of them.
        may_write: says again who may set one, or change which there are.
        lets: says again which peer may have a device handle what.

    """

    def __init__(
        self,
        site: resource.Site,
        sampler: Sampler,
        gateway_id: str,
        place: Place,
        may_read: MayRead = lambda _remote, _name: True,
        may_write: MayWrite = anybody,
        lets: LetsPeer = any_peer,
    ) -> None:
        self._may_write = may_write
        self._site = site
        self._sampler = sampler
        self._gateway_id = gateway_id
        self._place = place
        self._resources: dict[str, SensorResource] = {}
        self._read: dict[str, SensorResource] = {}
        """Those whose GET is a reading: of others a developer's own handler says what it is."""
        self.answers = SensorAnswers(self._read, sampler)
        """The answers that are at hand of them."""
        self.devices = DeviceAnswers(site, sampler, self._attributes_of, lets)
        """The requests that they handle themselves, and their child resources."""
        self._pack = SensorPack(self._resources, sampler, f"{gateway_id}/", may_read, may_write)
        self._roll: SensorRoll | None = None
        site.add_resource((PATH,), self._pack)
        sampler.listen(self._notify)

    def roll(self, roll: SensorRoll) -> None:
        """Let sensors be listed, added and removed."""
        self._roll = self._pack.roll = self.devices.roll = roll

    def add(self, sensor: Sensor) -> None:
        """Serve a sensor, at run time too."""
        kind = ActuatorResource if isinstance(sensor, Actuator) else SensorResource
        served = kind(sensor, self._sampler, f"{self._gateway_id}/", self._attributes)
        served.roll, served.may_write = self._roll, self._may_write
        self._resources[sensor.name] = served
        if sensor.handler_of(GET) is None:
            self._read[sensor.name] = served
        self.devices.serve(sensor)
        self.answers.changed(sensor.name)
        self._site.add_resource(_path(sensor.name), served)

    def remove(self, name: str) -> None:
        """Serve a sensor no more; who observes it is told.

        Raises:
            KeyError: it is not served.

        """
        del self._resources[name]
        self._read.pop(name, None)
        self.devices.remove(name)
        self._site.remove_resource(_path(name))
        self.answers.removed(name, CoapResponse(int(Code.NOT_FOUND), (), _REMOVED))

    def move(self, place: Place) -> None:
        """Tell another domain and group in each link from now on; `register` is to follow."""
        self._place = place

    def links(self, most: int = LINKS_MAX) -> list[WebLink]:
        """Return a link for each sensor that is served, and for as many child resources as may be.

        Args:
            most: links in all; sensors have theirs all the same.

        """
        links = [_link(_path(name), one.get_link_description()) for name, one in self._items()]
        left = CHILD_LINKS_BYTES_MAX
        for path, described in self.devices.listed():
            link = _link(path, described)
            left -= len(str(link))
            if len(links) >= most or left < 0:
                break
            links.append(link)
        return links

    def _items(self) -> ItemsView[str, SensorResource]:
        return self._resources.items()

    def register(self, registry: Registry, base: str, now: float) -> None:
        """Put the links into the gateway's own Resource Directory, or renew them there.

        What it registered under another name or domain, in an earlier life, goes.

        Args:
            registry: the directory.
            base: URI of the gateway's CoAP server.
            now: the directory's time.

        Raises:
            resource_directory.errors.DirectoryError: the directory does not take them.

        """
        name = (self._gateway_id, self._place.domain)
        own = [one for one in registry.registrations() if one.owner == OWN_IDENTITY]
        for one in own:
            if (one.endpoint, one.sector) != name:
                registry.remove(one.location, now, owner=OWN_IDENTITY)
        group = [("gp", self._place.group)] if self._place.group else []
        registry.register(
            self._gateway_id,
            self.links(registry.links_max),
            now,
            base=base,
            sector=self._place.domain,
            lifetime_s=MAX_LIFETIME_S,
            attributes=[("et", "hedgerow.gateway"), *group],
            owner=OWN_IDENTITY,
        )

    def _attributes_of(self, child: DeviceResource) -> dict[str, str]:
        named = {"domain": self._place.domain, "group": self._place.group, **child.attributes}
        return {name: value for name, value in named.items() if value}

    def _attributes(self, sensor: Sensor) -> dict[str, str]:
        units = dict.fromkeys(part.unit for part in sensor.parts.values() if part.unit)
        named = {
            "sz": str(sensor.size_bytes or ""),
            "unit": " ".join(units) if sensor.parts else sensor.unit,
            **self._attributes_of(sensor),
        }
        return {name: value for name, value in named.items() if value}

    def _notify(self, sensor: Sensor) -> None:
        self.answers.changed(sensor.name)


class SensorResource(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    """One sensor: GET as SenML JSON, or as SenML CBOR or plain text if that is asked for.

    Who observes it is told by `SensorAnswers`, once for all, not by aiocoap's task for each.

    Args:
        sensor: what is served.
        sampler: reads it.
        base_name: SenML base name, which makes the sensor's name unique in the fleet.
        attributes: says what its link has beside ``rt``, ``if``, ``ct`` and ``obs``.

    """

    roll: SensorRoll | None = None
    """The roll by which it can be removed."""
    may_write: MayWrite = staticmethod(anybody)
    """Says again who may set or remove it."""

    def __init__(
        self,
        sensor: Sensor,
        sampler: Sampler,
        base_name: str,
        attributes: Callable[[Sensor], dict[str, str]],
    ) -> None:
        super().__init__()
        self._sensor = sensor
        self._sampler = sampler
        self._base_name = base_name
        self._attributes = attributes
        self._link = CheckedLink(sensor.name, partial(check_sensor, sensor), self._described)

    async def render_get(self, request: Message) -> Message:
        """Return the value, as the newest reading says it."""
        accept = request.opt.accept
        if accept is not None and accept not in FORMATS:
            raise error.NotAcceptable(_FORMATS_TEXT)
        try:
            reading = await self._sampler.current(self._sensor)
        except SensorBusyError as busy:
            return _busy(busy)
        except SensorError as failed:
            raise error.ServiceUnavailable(str(failed)) from failed
        rendered = self.rendered(accept, reading)
        if rendered is None and any(each.value is not None for each in reading.values.values()):
            raise error.NotAcceptable("several values: senml+json (110) or senml+cbor (112)")
        if rendered is None:
            raise error.ServiceUnavailable(f"{self._sensor.name}: no value, it is bad")
        form, payload = rendered
        response = Message(payload=payload, content_format=form)
        response.opt.max_age = max_age_s(self.good_for_s(reading))
        return response

    async def render_put(self, _request: Message) -> Message:
        """Refused: it says what it measures."""
        raise error.UnallowedMethod(f"{self._sensor.name} is a sensor, which can only be read")

    async def render_delete(self, request: Message) -> Message:
        """Have it no more."""
        if self.roll is None:
            raise error.UnallowedMethod("sensors can't be removed here")
        return await removed(self.roll, self._sensor.name, request, self.may_write)

    @property
    def sensor(self) -> Sensor:
        """Return the sensor that is served."""
        return self._sensor

    def good_for_s(self, reading: Reading) -> float:
        """Return how long a reading is the sensor's value, from now on.

        An actuator's is for no time.
        """
        if isinstance(self._sensor, Actuator):
            return 0.0
        return self._sensor.interval_s - (self._sampler.now() - reading.taken_at)

    def get_link_description(self) -> dict[str, str | None]:
        """Return the attributes of the sensor's link."""
        return self._link.now()

    def _described(self) -> DescribedLinks:
        described = {"rt": self._sensor.resource_type, "if": self._sensor.interface}
        return {
            **{name: value for name, value in described.items() if value},
            "ct": " ".join(str(one) for one in FORMATS if one != _TEXT or not self._sensor.parts),
            "obs": None,
            **self._attributes(self._sensor),
        }

    def rendered(self, accept: int | None, reading: Reading) -> tuple[int, bytes] | None:
        """Return a reading in one of `FORMATS`, after the number of that format.

        None if it has no value, or several where the format takes one.
        """
        if accept == _TEXT:
            if len(reading.values) != 1 or (value := reading.value) is None:
                return None
            value = values.shown(value, reading.resolution)
            text = repr(value) if isinstance(value, float) else values.as_text(value)
            return _TEXT, text.encode()
        records = in_senml(self._sensor.name, reading)
        if not records:
            return None
        form = senml.CONTENT_FORMAT if accept is None else accept
        return form, senml.encode(self._base_name, records, form)


class ActuatorResource(SensorResource):
    """One actuator: PUT sets its value, from SenML JSON, SenML CBOR or plain text.

    Its representation says since when its state is what it is, as far as this gateway knows. So its
    ETag is another one when the state is, and not each time that it is read (`If-Match`).
    """

    _sensor: Actuator
    _state: Reading | None = None
    """The first reading of the present state."""

    def rendered(self, accept: int | None, reading: Reading) -> tuple[int, bytes] | None:
        """Return the first reading of the present state, as `SensorResource` renders one."""
        if self._state is None or self._state.values != reading.values:
            self._state = reading
        return super().rendered(accept, self._state)

    async def render_put(self, request: Message) -> Message:
        """Set the value; the answer comes when the actuator has it."""
        try:
            value = self._value(request)
            path = _path(self._sensor.name)
            check = checked_again(request.remote, self.may_write, "PUT", path)
            await self._sampler.write(self._sensor, value, _asker(request.remote), check)
        except (senml.SenmlError, ValueRefusedError) as refused:
            raise error.BadRequest(told(refused)) from refused
        except SensorBusyError as busy:
            return _busy(busy)
        except SensorLateError as late:
            # Only 5.03 and what is 4.xx say that nothing was done.
            raise error.GatewayTimeout(f"{late}; {_UNSURE}") from late
        except SensorError as failed:
            raise error.InternalServerError(f"{failed}; {_UNSURE}") from failed
        return Message(code=Code.CHANGED)

    def _value(self, request: Message) -> Value:
        content_format, sensor = request.opt.content_format, self._sensor
        if content_format in (None, _TEXT):
            return senml.decode_text(request.payload, sensor.kind)
        if content_format not in FORMATS:
            raise error.UnsupportedContentFormat(_FORMATS_TEXT)
        target = senml.ActuatorTarget(self._base_name, sensor.name, sensor.unit, sensor.kind)
        return senml.decode_value(request.payload, target, content_format)


def _link(path: tuple[str, ...], described: Mapping[str, str | None]) -> WebLink:
    return WebLink("/" + "/".join(path), tuple(described.items()))


def _busy(busy: SensorBusyError) -> Message:
    answer = Message(code=Code.SERVICE_UNAVAILABLE, payload=str(busy).encode())
    answer.opt.max_age = max_age_s(busy.again_s)
    return answer


def _asker(remote: Any) -> str:
    """Return whose turn a write takes: strangers share theirs."""
    principal = getattr(remote, "principal", None)
    return str(principal or getattr(remote, "identity", None) or ANONYMOUS)


def _path(name: str) -> tuple[str, ...]:
    return (PATH, *name.split("/"))
