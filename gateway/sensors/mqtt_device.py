"""A device that speaks MQTT, as a sensor or an actuator: it joins without code.

What it publishes on its topic, at any gateway of the tree, is a reading here: plain text, a place
in a JSON document, or a SenML pack. An actuator publishes what it is set to on a command topic;
until the device confirms it on its own topic, the new value is uncertain.
"""

from __future__ import annotations

import json
from typing import Any, Final

from gateway.mqtt.topic_rules import check_topic_name
from gateway.sensors import senml
from gateway.sensors.declared import driver
from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import NAME, DriverParameter
from gateway.sensors.sensor import Actuator, Sensor
from gateway.sensors.values import (
    BOOLEAN,
    KINDS,
    NUMBER,
    TEXT,
    Measured,
    Outcome,
    ValueKind,
    as_text,
    checked,
    fitting,
    from_text,
)
from light_dataclasses import dataclass
from record_formats.value import UNCERTAIN, Value

HOLDS_S: Final = 300.0
"""So long a message is the device's state unless its table says otherwise."""
MAX_MESSAGE_BYTES: Final = 64 * 1024
PAYLOADS: Final = ("text", "json", "senml")
TOPIC: Final = DriverParameter(
    "topic", "text", "topic to which the device publishes", is_needed=True
)
COMMAND_TOPIC: Final = DriverParameter(
    "command_topic", "text", "topic for its commands, if it is an actuator"
)
HOLDS: Final = DriverParameter(
    "interval_s", "number", "time for which a message is its state", HOLDS_S, unit="s"
)
PAYLOAD: Final = DriverParameter(
    "payload",
    "choice",
    'form of its messages; with a pointer "json", else "text"',
    choices=PAYLOADS,
)
POINTER: Final = DriverParameter(
    "pointer", "text", "place of the value: in JSON as /state (RFC 6901), in SenML its name", ""
)
KIND: Final = DriverParameter("kind", "choice", "of the value", NUMBER, choices=KINDS)
ON: Final = DriverParameter("on", "text", "text that says a boolean's true", "")
OFF: Final = DriverParameter("off", "text", "and its false", "")
UNIT: Final = DriverParameter("unit", "text", "of the value, of the SenML registry", "")


class MessageError(ValueError):
    """A message does not say the value that is looked for; the error says why."""


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The form of a device's messages.

    Attributes:
        payload: one of `PAYLOADS`.
        kind: of the value.
        pointer: in JSON, where the value stands (RFC 6901); in SenML, the name of the record.
        on: a boolean's true, where it is said as a text or a number.
        off: its false.

    """

    payload: str = "text"
    kind: ValueKind = NUMBER
    pointer: str = ""
    on: str = ""
    off: str = ""

    def value(self, message: bytes) -> Value:
        """Return the value that a message says.

        Raises:
            MessageError: none.

        """
        if len(message) > MAX_MESSAGE_BYTES:
            raise MessageError(f"a message of {len(message)} bytes, over {MAX_MESSAGE_BYTES}")
        try:
            if self.payload == "senml":
                return self._of_pack(message)
            if self.payload == "json":
                return self._of(pointed(json.loads(message), self.pointer))
            return self._of(message if self.kind == "bytes" else message.decode())
        except (ValueError, RecursionError) as error:
            raise MessageError(str(error)) from error

    def _of_pack(self, message: bytes) -> Value:
        for record in senml.decode(message):
            if not self.pointer or record.name == self.pointer:
                return fitting(record.value, self.kind)
        raise MessageError(f"no record {self.pointer!r}")

    def _of(self, found: object) -> Value:
        if self.kind == BOOLEAN and self.on:
            text = found if isinstance(found, str) else json.dumps(found)
            if text not in (self.on, self.off):
                raise MessageError(f"{text[:40]!r} is neither {self.on!r} nor {self.off!r}")
            return text == self.on
        if isinstance(found, str):
            return checked(from_text(found, self.kind))
        if self.kind == TEXT:
            return checked(json.dumps(found, ensure_ascii=False))
        return fitting(checked(found), self.kind)

    def command(self, value: Value) -> bytes:
        """Return what tells the device a value."""
        if self.kind == BOOLEAN and self.on:
            return (self.on if value else self.off).encode()
        return value if isinstance(value, bytes) else as_text(value).encode()


def pointed(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer points at (RFC 6901, section 4).

    Raises:
        MessageError: nothing is there.

    """
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and key.isascii() and key.isdecimal():
            if int(key) >= len(document) or (key != "0" and key.startswith("0")):
                raise MessageError(f"{pointer}: nothing there")
            document = document[int(key)]
        else:
            raise MessageError(f"{pointer}: nothing there")
    return document


class MqttSensor(Sensor):
    """A sensor whose readings are messages that a device publishes.

    Args:
        name: the sensor's name.
        topic: the device's.
        form: of its messages.
        interval_s: how long a message is its state, seconds.
        unit: of the value.

    """

    is_pushed = True
    is_quick = True

    def __init__(
        self, name: str, topic: str, form: MessageForm, *, interval_s: float, unit: str = ""
    ) -> None:
        super().__init__(name, interval_s=interval_s, unit=unit)
        self.topics = (topic,)
        self.kind = form.kind
        self._form = form

    def hear(self, topic: str, payload: bytes) -> None:
        """A message of the device's; an empty one only ends a retained one."""
        if payload:
            try:
                self.push(self._form.value(payload))
            except MessageError as error:
                self.push(error)

    def read(self) -> Outcome:
        """Raises OSError always: its readings come by themselves."""
        raise OSError(f"nothing of late on {self.topics[0]}")


class MqttActuator(MqttSensor, Actuator):
    """A device that can be told what to do."""

    interface = Actuator.interface
    command_topic = ""
    """The topic on which it is told its value."""
    _told: Value | None = None

    def write(self, value: Value) -> None:
        """Tell the device."""
        self.publish(self.command_topic, self._form.command(value))
        self._told = value

    def hear(self, topic: str, payload: bytes) -> None:
        """A message of the device's: what it was told counts no more."""
        self._told = None
        super().hear(topic, payload)

    def read(self) -> Outcome:
        """Return what it was told and has not confirmed yet; raises OSError if that is nothing."""
        if self._told is None:
            return super().read()
        return Measured(self._told, quality=UNCERTAIN, tags={"why": "not confirmed"})


@driver(
    "a device that publishes over MQTT; an actuator with command_topic",
    TOPIC,
    COMMAND_TOPIC,
    PAYLOAD,
    POINTER,
    KIND,
    ON,
    OFF,
    UNIT,
    HOLDS,
)
def build(options: SensorOptions) -> list[Sensor]:
    """Return the sensor of a table with a ``topic``, or the actuator, if it has a
    ``command_topic``.

    Raises:
        SensorConfigError: a key is wrong.

    """
    name, topic = options.take(NAME), _topic(options, TOPIC)
    form = message_form(options)
    interval_s, unit = options.take(HOLDS), options.take(UNIT)
    command_topic = _topic(options, COMMAND_TOPIC)
    if command_topic is None:
        return [MqttSensor(name, topic, form, interval_s=interval_s, unit=unit)]
    actuator = MqttActuator(name, topic, form, interval_s=interval_s, unit=unit)
    actuator.command_topic = command_topic
    if actuator.command_topic == topic:
        raise options.error("command_topic", "is the device's own topic")
    return [actuator]


def message_form(options: SensorOptions) -> MessageForm:
    """Return what messages look like, by ``payload``, ``kind``, ``pointer``, ``on`` and ``off``.

    Raises:
        SensorConfigError: a key is wrong.

    """
    pointer = options.take(POINTER)
    payload = options.take(PAYLOAD) or ("json" if pointer else "text")
    if payload == "text" and pointer:
        raise options.error("pointer", "text has no places")
    if payload == "json" and pointer and not pointer.startswith("/"):
        raise options.error("pointer", f"{pointer!r} does not begin with '/' (RFC 6901)")
    kind: ValueKind = options.take(KIND)
    on, off = options.take(ON), options.take(OFF)
    if bool(on) != bool(off) or (on and (kind != BOOLEAN or on == off)):
        raise options.error("on", 'needs another `off`, and kind = "boolean"')
    return MessageForm(payload, kind, pointer, on, off)


def _topic(options: SensorOptions, parameter: DriverParameter) -> Any:
    key, topic = parameter.name, options.take(parameter)
    if topic is None:
        return None
    try:
        check_topic_name(topic)
    except ValueError as error:
        raise options.error(key, str(error)) from error
    if topic.startswith("$"):
        raise options.error(key, f"{topic!r} is no topic of clients")
    return topic
