"""Base of sensors and actuators (A7): a small class with a name, a unit and a ``read``.

A developer's own sensor is a subclass; the gateway adds the rest (CoAP resource, link in the
Resource Directory, MQTT topic, domain and group attributes)::

    class Soil(Sensor):
        unit = "%RH"
        resource_type = "soil-moisture"

        def read(self) -> float:
            return self.converter.read(channel=0) / 10.24

A ``read`` may wait for a bus or a device: it is called in a thread of its own, with a limit of
time. One that is ``async`` runs in the event loop and must not block it. What a device does beside
that (moves, jobs, settings) are handlers and child resources: `gateway.sensors.device_resource`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

from gateway.base.printable import SAID_CHARACTERS_MAX, printable
from gateway.sensors.device_resource import ChildResources, DeviceResource, check_described
from gateway.sensors.link_texts import DescriptionError, check_text, checked_attributes
from gateway.sensors.values import KINDS, NUMBER, Outcome, ValueKind
from light_dataclasses import dataclass
from record_formats.value import Value
from tree_handler.members.place import is_name

MAX_NAME_LENGTH = 200


class SensorError(Exception):
    """A sensor can't be read or an actuator not be set.

    Args:
        name: the sensor's name.
        why: what it raised, or what is wrong with its value.

    """

    def __init__(self, name: str, why: str) -> None:
        why = printable(why[:SAID_CHARACTERS_MAX])
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class SensorBusyError(SensorError):
    """Its driver was not called, for others wait for it, or it has not come back from earlier.

    Args:
        name: the sensor's name.
        why: what it waits for.
        again_s: after so many seconds it may be worth another try.

    """

    def __init__(self, name: str, why: str, again_s: float) -> None:
        super().__init__(name, why)
        self.again_s = again_s


class SensorLateError(SensorError):
    """Its driver was called and has not come back in time: what it does may be done yet."""


class ValueRefusedError(ValueError):
    """An actuator does not take this value; the message says which it takes."""


@dataclass(frozen=True, slots=True)
class SensorPart:
    """One of the values that a sensor reads at a time.

    Attributes:
        unit: a unit of the SenML registry, or ``""``.
        kind: what it is.

    """

    unit: str = ""
    kind: ValueKind = NUMBER


class Sensor(DeviceResource):
    """A source of readings: of one value, or of several at a time that have names.

    Args:
        name: unique at its gateway; path segments such as ``host/load1``.
        interval_s: how often it is read, seconds.
        unit: a unit of the SenML registry (RFC 8428, section 12.1); the class's unless given.
        resource_type: the link's ``rt``; the class's unless given.
        attributes: more attributes for its link, beside the class's own.
        resolution: of what is shown; the class's unless given.

    Attributes:
        children: the resources below its path; see `ChildResources`.

    Raises:
        ValueError: a name, interval or attribute is not of the form above; it is named.

    """

    unit: str = ""
    """A unit of the SenML registry, or ``""`` for none."""
    resolution: float = 0.0
    """The step in which it measures, as ``0.1``: what is shown of a value has no more decimals, and
    what is recorded is exact. 0 if it is not known."""
    interface = "core.s"
    kind: ValueKind = NUMBER
    """The kind of value that it reads and takes."""
    parts: Mapping[str, SensorPart] = {}
    """The values by name, where a ``read`` returns several; ``unit`` and ``kind`` are theirs."""
    size_bytes: int = 0
    """The estimated size of its longest value, if that may be more than a datagram takes: the
    link's ``sz``."""
    is_pushed: bool = False
    """True if its readings come by themselves (`hear`, or a task of its own that calls ``push``):
    then ``read`` is asked for the last one alone, and ``interval_s`` is how long one holds."""
    topics: tuple[str, ...] = ()
    """MQTT topics whose messages `hear` is given."""
    push: Callable[[Outcome | Exception], None]
    """Takes a reading, or why there is none; there from `begin` on."""
    publish: Callable[[str, bytes], None]
    """Publishes a message; likewise."""
    is_quick: bool = False
    """True if ``read`` and ``write`` never wait for anything: then they need no thread."""

    def __init__(
        self,
        name: str,
        *,
        interval_s: float = 10.0,
        unit: str | None = None,
        resource_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
        resolution: float | None = None,
    ) -> None:
        if len(name) > MAX_NAME_LENGTH:
            raise ValueError(f"name: longer than {MAX_NAME_LENGTH}")
        for level in name.split("/"):
            if not is_name(level):
                why = "is not 1 to 63 lower-case letters, digits and hyphens, as each level is"
                raise ValueError(f"name: {level[:80]!r} {why}")
        if not 0 < interval_s < math.inf:
            raise ValueError(f"interval_s: {interval_s} is not greater than 0")
        self.name = name
        self.interval_s = float(interval_s)
        self.attributes = checked_attributes({**self.attributes, **(attributes or {})})
        self.children = ChildResources()
        if resolution is not None:
            if not 0 < resolution < math.inf:
                raise ValueError(f"resolution: {resolution} is not greater than 0")
            self.resolution = float(resolution)
        if unit is not None:
            self.unit = unit
        if resource_type is not None:
            self.resource_type = resource_type

    def read(self) -> Outcome | Awaitable[Outcome]:
        """Take one reading now, in ``unit``.

        A number, a text, a boolean or bytes; `Measured`, where quality or tags are to be said; or a
        mapping of such by their names. May raise anything: the failure is reported with the
        sensor's name and the other sensors go on.
        """
        raise NotImplementedError(f"{type(self).__name__}.read")

    def begin(self) -> None:
        """It is read from now on; called in the event loop."""

    def hear(self, topic: str, payload: bytes) -> None:
        """Take a message on one of ``topics``."""

    def close(self) -> Awaitable[None] | None:
        """Give back what it holds (a pin, a bus): it is read no more."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Actuator(Sensor):
    """A sensor whose value can be set."""

    interface = "core.a"

    def write(self, value: Value) -> Awaitable[None] | None:
        """Set the value, which is of ``kind`` and in ``unit``.

        Raises:
            ValueRefusedError: the actuator does not take this value.

        """
        raise NotImplementedError(f"{type(self).__name__}.write")


def check_sensor(sensor: Sensor) -> None:
    """Check what the class of a sensor says of it.

    Raises:
        DescriptionError: a link can't carry it, or it is none of what may be said; it is named.

    """
    check_described(sensor)
    check_text("unit", sensor.unit)
    if sensor.kind not in KINDS:
        raise DescriptionError("kind", f"{sensor.kind!r} is none of {', '.join(KINDS)}")
    if not isinstance(sensor.size_bytes or 0, int):
        raise DescriptionError("size_bytes", f"{sensor.size_bytes!r} is no number of bytes")
    for name, part in dict(sensor.parts).items():
        if not isinstance(part, SensorPart):
            raise DescriptionError(f"parts.{name}", f"{part!r} is no SensorPart")
        check_text(f"parts.{name}", part.unit)
