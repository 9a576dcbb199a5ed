"""One sensor or actuator as Home Assistant's MQTT discovery wants it described.

A number is a ``sensor``, and a ``number`` if it can be set; a boolean a ``binary_sensor`` or a
``switch``; a text a ``sensor`` or a ``text``. Of several values each is an entity. Home Assistant's
documentation: "MQTT", section "MQTT Discovery", and the pages of these components. Nothing of Home
Assistant is needed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.base.near_words import near
from gateway.home_assistant.vocabulary import DEVICE_CLASSES, RATIO, shown_as
from gateway.sensors import mqtt_form
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.options import SensorConfigError
from gateway.sensors.reading import full_name
from gateway.sensors.sensor import Actuator, SensorPart
from gateway.sensors.values import BYTES, ValueKind
from light_dataclasses import dataclass

SENSOR, BINARY_SENSOR, SWITCH, TEXT = "sensor", "binary_sensor", "switch", "text"
NUMBER = "number"
ON, OFF = "1", "0"
"""A switch's state and commands, as `mqtt_form.plain` writes 1 and 0."""
TRUE, FALSE = "true", "false"
"""Likewise of one that is a boolean."""
LONGEST_TEXT = 255
"""Of a state in Home Assistant."""
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
"""The keys that the gateway knows better than a configuration."""


@dataclass(frozen=True, slots=True)
class AnnouncingGateway:
    """The gateway whose entities are announced.

    Attributes:
        gateway_id: its id.
        prefix: what its topics begin with.
        version: of its software.
        alerts: topic below its own on which it says what is wrong; empty where it says nothing.

    """

    gateway_id: str
    prefix: str
    version: str
    alerts: str = ""

    @property
    def availability_topic(self) -> str:
        """Return the topic at which the gateway says, retained, whether it is there."""
        return f"{self.prefix}/availability"

    @property
    def unique_prefix(self) -> str:
        """Return what the unique id of each of its entities begins with."""
        return f"hedgerow_{self.gateway_id}_"

    @property
    def alerts_node(self) -> str:
        """Return the node of the entity that says what is wrong: on its own one are sensors."""
        return f"{self.gateway_id}-alerts"

    @property
    def alerts_topic(self) -> str:
        """Return the topic on which it says what is wrong; empty where there is none."""
        return f"{self.prefix}/{self.alerts}" if self.alerts else ""

    def state_topic(self, name: str) -> str:
        """Return where a sensor's readings are published."""
        return f"{self.prefix}/{name}"

    def command_topic(self, name: str) -> str:
        """Return where an actuator is told its value."""
        return f"{self.prefix}/{name}/set"


@dataclass(frozen=True, slots=True)
class Entity:
    """A component of Home Assistant, and its discovery payload."""

    component: str
    fields: Mapping[str, Any]


def object_id(name: str) -> str:
    """Return a sensor's name as a topic level; no two have the same, for no name has a ``_``."""
    return name.replace("/", "_")


@dataclass(frozen=True, slots=True)
class ShownValue:
    """One value that is shown.

    Attributes:
        name: of the sensor, and of the value if there are several.
        unit: its unit.
        kind: what it is.

    """

    name: str
    unit: str
    kind: ValueKind


def shown_values(each: ConfiguredSensor) -> Iterator[tuple[str, ShownValue]]:
    """Yield the values of a sensor that Home Assistant can show, by their parts; bytes it can't."""
    sensor = each.sensor
    parts = sensor.parts or {"": SensorPart(sensor.unit, sensor.kind)}
    for part, of in parts.items():
        if of.kind != BYTES:
            yield part, ShownValue(full_name(sensor.name, part), of.unit, of.kind)


def describe(each: ConfiguredSensor, gateway: AnnouncingGateway) -> dict[str, Entity]:
    """Describe a sensor or an actuator.

    Args:
        each: its readings are published as JSON or text, which Home Assistant reads.
        gateway: whose it is.

    Returns:
        An entity for each of its values, by name.

    Raises:
        SensorConfigError: its table ``home_assistant`` has a key that is the gateway's, a
            component that does not fit, or a value that is no text, number or truth.

    """
    parts = each.sensor.parts
    common = {key: value for key, value in each.home_assistant.items() if key not in parts}
    found = {}
    for part, shown in shown_values(each):
        own = each.home_assistant.get(part, {}) if part else {}
        if not isinstance(own, Mapping):
            raise SensorConfigError(f"{each.where}.home_assistant.{part}", f"{own!r} is no table")
        found[shown.name] = _entity(each, shown, {**common, **own}, gateway)
    return found


def _entity(
    each: ConfiguredSensor, shown: ShownValue, more: dict[str, Any], gateway: AnnouncingGateway
) -> Entity:
    component = _component(each, shown.kind, more.pop("component", None))
    for key, value in more.items():
        if key in OWN_KEYS:
            raise SensorConfigError(f"{each.where}.home_assistant.{key}", "set by the gateway")
        if not isinstance(value, str | int | float):
            why = f"{value!r} is neither a text nor a number, nor true or false"
            raise SensorConfigError(f"{each.where}.home_assistant.{key}", why)
        if isinstance(value, float) and not math.isfinite(value):
            why = f"{value} is no number that JSON has"
            raise SensorConfigError(f"{each.where}.home_assistant.{key}", why)
    if "device_class" in more:
        _check_class(f"{each.where}.home_assistant.device_class", more["device_class"], component)
    fields: dict[str, Any] = {
        "name": shown.name.replace("/", " "),
        "unique_id": f"{gateway.unique_prefix}{object_id(shown.name)}",
        "state_topic": gateway.state_topic(shown.name),
        **_of_gateway(gateway),
        **_shown(each, shown, component),
    }
    if isinstance(each.sensor, Actuator):
        fields["command_topic"] = gateway.command_topic(each.sensor.name)
    else:  # a gateway that was killed could not say so
        fields["expire_after"] = math.ceil(3 * each.sensor.interval_s) + READS_LATE_S
    return Entity(component, fields | more)


def describe_alerts(gateway: AnnouncingGateway) -> Entity:
    """Describe what says that something is wrong with a gateway, which has a topic for that."""
    fields: dict[str, Any] = {
        "name": "Alerts",
        "unique_id": f"{gateway.unique_prefix}alerts",
        "state_topic": gateway.alerts_topic,
        **_of_gateway(gateway),
        "device_class": "problem",
        "value_template": "{{ value_json.problem }}",
        "json_attributes_topic": gateway.alerts_topic,
    }
    return Entity(BINARY_SENSOR, fields)


def _of_gateway(gateway: AnnouncingGateway) -> dict[str, Any]:
    return {
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
    }


def _check_class(where: str, chosen: object, component: str) -> None:
    known = DEVICE_CLASSES[component]
    if chosen in known:
        return
    if not known:
        why = f"{chosen!r}: Home Assistant's component {component!r} has none"
        raise SensorConfigError(where, why)
    meant = near(str(chosen), sorted(known))
    hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(sorted(known))}"
    why = f"{chosen!r} is none of Home Assistant's component {component!r}, {hint}"
    raise SensorConfigError(where, why)


def _component(each: ConfiguredSensor, kind: ValueKind, chosen: object) -> str:
    default, possible = _POSSIBLE[isinstance(each.sensor, Actuator), kind]
    if default == NUMBER and "switch" in each.sensor.resource_type.split():
        default = SWITCH
    if chosen is None:
        return default
    if chosen not in possible:
        why = f"{chosen!r} is none of {', '.join(map(repr, possible))}"
        raise SensorConfigError(f"{each.where}.home_assistant.component", why)
    return str(chosen)


_POSSIBLE: Mapping[tuple[bool, ValueKind], tuple[str, tuple[str, ...]]] = {
    (False, "number"): (SENSOR, (SENSOR, BINARY_SENSOR)),
    (False, "boolean"): (BINARY_SENSOR, (BINARY_SENSOR, SENSOR)),
    (False, "text"): (SENSOR, (SENSOR,)),
    (True, "number"): (NUMBER, (SWITCH, NUMBER)),
    (True, "boolean"): (SWITCH, (SWITCH,)),
    (True, "text"): (TEXT, (TEXT,)),
}
"""The component of an actuator, or a sensor, of a kind; and those that its table may choose."""
_LABELS: Mapping[ValueKind, str] = {"number": "v", "boolean": "vb", "text": "vs"}
"""The label of the value in SenML, by kind."""


def _shown(each: ConfiguredSensor, shown: ShownValue, component: str) -> dict[str, Any]:
    """Return the fields that depend on the component: unit, classes and template of the value."""
    is_json = each.form.format == mqtt_form.JSON
    value = f"value_json[0].{_LABELS[shown.kind]}" if is_json else "value"
    if shown.kind == "boolean":
        template = {"value_template": f"{{{{ {value} | lower }}}}"} if is_json else {}
        return template | ({} if component == SENSOR else _on_and_off(component, TRUE, FALSE))
    if shown.kind == "text":
        template = {"value_template": f"{{{{ {value} }}}}"} if is_json else {}
        return template | ({"max": LONGEST_TEXT} if component == TEXT else {})
    if component in (SWITCH, BINARY_SENSOR):
        template = {"value_template": f"{{{{ {value} | int }}}}"} if is_json else {}
        return template | _on_and_off(component, ON, OFF)
    as_shown, unit = shown_as(shown.unit), shown.unit
    told = {"unit_of_measurement": as_shown.unit, "device_class": as_shown.device_class}
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
    if as_shown.state_class is not None:
        is_counter = COUNTER in each.sensor.resource_type.split()
        found["state_class"] = "total_increasing" if is_counter else as_shown.state_class
    return found


def _on_and_off(component: str, on: str, off: str) -> dict[str, Any]:
    found: dict[str, Any] = {"payload_on": on, "payload_off": off}
    return found | ({"state_on": on, "state_off": off} if component == SWITCH else {})
