"""One sensor or actuator as Home Assistant's MQTT discovery wants it described.

Home Assistant's documentation: "MQTT", section "MQTT Discovery", and the pages of the components
sensor, binary_sensor, switch and number. Nothing of Home Assistant is needed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.home_assistant.units import RATIO, shown_as
from gateway.sensors import mqtt_form
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sensor import Actuator

SENSOR, BINARY_SENSOR, SWITCH, NUMBER = "sensor", "binary_sensor", "switch", "number"
ON, OFF = "1", "0"
"""A switch's state and commands, as `mqtt_form.plain` writes 1 and 0."""
COUNTER = "network-bytes"
"""Resource type of what only rises until its machine starts anew."""
READS_LATE_S = 10
"""A reading may take so long (`Sampler`), beside the intervals that it may miss."""
WIDEST = 1_000_000
"""An actuator says itself which values it takes, so the number that is shown is not narrow."""

OWN_KEYS = frozenset(
    {"availability_topic", "command_topic", "device", "expire_after", "origin", "payload_off"}
    | {"payload_on", "qos", "state_off", "state_on", "state_topic", "unique_id", "value_template"}
)
"""What the gateway knows better than a configuration."""


@dataclass(frozen=True, slots=True)
class AnnouncingGateway:
    """Whose entities they are.

    Attributes:
        gateway_id: its id.
        prefix: what its topics begin with.
        version: of its software.

    """

    gateway_id: str
    prefix: str
    version: str

    @property
    def availability_topic(self) -> str:
        """Where it says, retained, whether it is there."""
        return f"{self.prefix}/availability"

    def state_topic(self, name: str) -> str:
        """Where a sensor's readings are published."""
        return f"{self.prefix}/{name}"

    def command_topic(self, name: str) -> str:
        """Where an actuator is told its value."""
        return f"{self.prefix}/{name}/set"


@dataclass(frozen=True, slots=True)
class Entity:
    """A component of Home Assistant, and its discovery payload."""

    component: str
    fields: Mapping[str, Any]


def object_id(name: str) -> str:
    """A sensor's name as a topic level; no two have the same, for no name has a ``_``."""
    return name.replace("/", "_")


def describe(each: ConfiguredSensor, gateway: AnnouncingGateway) -> Entity:
    """Describe a sensor or an actuator.

    Args:
        each: its readings are published as JSON or text, which Home Assistant reads.
        gateway: whose it is.

    Raises:
        SensorConfigError: its table ``home_assistant`` has a key that is the gateway's, a
            component that does not fit, or a value that is no text, number or truth.

    """
    sensor, more = each.sensor, dict(each.home_assistant)
    component = _component(each, more.pop("component", None))
    for key, value in more.items():
        if key in OWN_KEYS:
            raise SensorConfigError(f"{each.where}.home_assistant.{key}", "set by the gateway")
        if not isinstance(value, str | int | float):
            why = f"{value!r} is neither a text nor a number, nor true or false"
            raise SensorConfigError(f"{each.where}.home_assistant.{key}", why)
    unique_id = f"hedgerow_{gateway.gateway_id}_{object_id(sensor.name)}"
    fields: dict[str, Any] = {
        "name": sensor.name.replace("/", " "),
        "unique_id": unique_id,
        "state_topic": gateway.state_topic(sensor.name),
        "availability_topic": gateway.availability_topic,
        "qos": 1,
        "device": {
            "identifiers": [f"hedgerow_{gateway.gateway_id}"],
            "name": gateway.gateway_id,
            "manufacturer": "Hedgerow",
            "model": "gateway",
            "sw_version": gateway.version,
        },
        "origin": {"name": "hedgerow", "sw_version": gateway.version},
        **_shown(each, component),
    }
    if isinstance(sensor, Actuator):
        fields["command_topic"] = gateway.command_topic(sensor.name)
    else:  # a gateway that was killed could not say so
        fields["expire_after"] = math.ceil(3 * sensor.interval_s) + READS_LATE_S
    return Entity(component, fields | more)


def _component(each: ConfiguredSensor, chosen: object) -> str:
    if isinstance(each.sensor, Actuator):
        is_switch = "switch" in each.sensor.resource_type.split()
        default, possible = SWITCH if is_switch else NUMBER, (SWITCH, NUMBER)
    else:
        default, possible = SENSOR, (SENSOR, BINARY_SENSOR)
    if chosen is None:
        return default
    if chosen not in possible:
        why = f"{chosen!r} is none of {', '.join(map(repr, possible))}"
        raise SensorConfigError(f"{each.where}.home_assistant.component", why)
    return str(chosen)


def _shown(each: ConfiguredSensor, component: str) -> dict[str, Any]:
    """What depends on the component: unit, classes, and how the value is taken from a reading."""
    is_json = each.form.format == mqtt_form.JSON
    value = "value_json[0].v" if is_json else "value"
    if component in (SWITCH, BINARY_SENSOR):
        on_off = {"payload_on": ON, "payload_off": OFF}
        if component == SWITCH:
            on_off |= {"state_on": ON, "state_off": OFF}
        return on_off | ({"value_template": f"{{{{ {value} | int }}}}"} if is_json else {})
    shown, unit = shown_as(each.sensor.unit), each.sensor.unit
    told = {"unit_of_measurement": shown.unit, "device_class": shown.device_class}
    found: dict[str, Any] = {name: known for name, known in told.items() if known is not None}
    if is_json:
        found["value_template"] = f"{{{{ {value} }}}}"
    if component == NUMBER:
        found |= {"mode": "box", "min": -WIDEST, "max": WIDEST, "step": 0.01}
        if unit == RATIO:
            found |= {"min": 0, "max": 1}
            del found["unit_of_measurement"]
        return found
    if unit == RATIO:
        found["value_template"] = f"{{{{ ({value} | float * 100) | round(2) }}}}"
    if shown.state_class is not None:
        is_counter = COUNTER in each.sensor.resource_type.split()
        found["state_class"] = "total_increasing" if is_counter else shown.state_class
    return found
