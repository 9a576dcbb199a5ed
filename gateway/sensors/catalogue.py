"""The kinds of sensors that a configuration can name, and how each is built.

``{"type": "host"}`` is the machine's own readings, ``{"type": "replay", "series": ...}`` a recorded
series, ``{"type": "switch"}`` an actuator in memory. ``{"type": "package.module:Class"}`` is a
developer's own subclass of ``Sensor``, and so is any other word that an installed package has as an
entry point (`gateway.sensors.drivers` says where they are found); keys beyond those of ``Sensor``
go to its constructor. ``format``, ``retain`` and ``home_assistant``, which every kind has, say how
its readings are published and shown, ``alerts`` when they are wrong.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from gateway.alerting.sensor_rules import SensorRuleError, SensorRules
from gateway.printable import said, told
from gateway.sensors import drivers, mqtt_form
from gateway.sensors.device_resource import ChildResources, check_served
from gateway.sensors.host import host_sensors
from gateway.sensors.link_texts import DescriptionError, checked_attributes
from gateway.sensors.mqtt_form import MqttForm
from gateway.sensors.options import SensorConfigError, SensorOptions
from gateway.sensors.reading import names_of
from gateway.sensors.sensor import Sensor, check_sensor
from gateway.sensors.switch import Switch
from light_dataclasses import dataclass

BuildSensors = Callable[[SensorOptions], Sequence[Sensor]]

DEFAULT_INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class ConfiguredSensor:
    """A sensor, and what its table says beside.

    Attributes:
        sensor: what is read.
        form: how its readings look on MQTT.
        where: what to call its table in an error, as ``sensors[1]``.
        home_assistant: what Home Assistant is told of it, beside what the gateway knows.
        rules: when it is wrong.
        table: all of its table.

    """

    sensor: Sensor
    form: MqttForm = field(default_factory=MqttForm)
    where: str = "sensors"
    home_assistant: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    rules: SensorRules = field(default_factory=SensorRules)


@dataclass(frozen=True, slots=True)
class Workshop:
    """What sensors are built with.

    Attributes:
        folder: where a developer's own classes are looked for first.
        default_format: of sensors that do not say one.
        clock: seconds, rising steadily; what a replayed series plays by.

    """

    folder: Path | None = None
    default_format: str = mqtt_form.MSGPACK
    clock: Callable[[], float] = time.monotonic

    def build(
        self,
        tables: Sequence[Mapping[str, Any]],
        *,
        known: Sequence[ConfiguredSensor] = (),
        is_afar: bool = False,
    ) -> list[ConfiguredSensor]:
        """Build the sensors of tables.

        Args:
            tables: the configuration's ``sensors``, or one that was sent here.
            known: those whose table is the same are taken as they are.
            is_afar: the tables were sent here, and may not name files or code of this machine.

        Raises:
            SensorConfigError: a type or key is unknown, a value is wrong, or two sensors have one
                name. The message begins with the key, as ``sensors[1].speed``.

        """
        built: list[ConfiguredSensor] = []
        taken: set[str] = set()
        for i, table in enumerate(tables):
            options = SensorOptions(table, f"sensors[{i}]", is_afar=is_afar)
            kept = [replace(each, where=options.where) for each in known if each.table == table]
            made = kept or self._made(table, options)
            for each in made:
                for name in {each.sensor.name, *(name for name, _ in names_of(each.sensor))}:
                    if name in taken:
                        raise options.error("name", f"a second sensor named {name!r}")
                    taken.add(name)
            built += made
        return built

    def _made(self, table: Mapping[str, Any], options: SensorOptions) -> list[ConfiguredSensor]:
        kind = options.text("type")
        form = MqttForm(
            options.choice("format", mqtt_form.FORMATS, self.default_format), options.flag("retain")
        )
        shown = options.table("home_assistant")
        rules = _rules(options)
        kinds: Mapping[str, BuildSensors] = {
            **KINDS,
            "replay": lambda options: _replay(options, self.clock),
        }
        try:
            if kind in kinds:
                sensors = kinds[kind](options)
            elif ":" in kind or kind in drivers.installed():
                sensors = [_own(kind, self.folder, options)]
            else:
                known = sorted({*kinds, *drivers.installed()})
                raise options.error("type", f"{kind!r} is none of {', '.join(known)}")
        except (ValueError, OSError) as error:
            if isinstance(error, SensorConfigError):
                raise
            raise options.error("", told(error)) from error
        if options.has("attributes"):
            more = checked_attributes(options.table("attributes"))
            for sensor in sensors:
                sensor.attributes = more
        if options.has("resource_type"):
            resource_type = options.text("resource_type")
            for sensor in sensors:
                sensor.resource_type = resource_type
        if options.has("resolution"):
            resolution = options.number("resolution", 0.0)
            if resolution <= 0:
                raise options.error("resolution", f"{resolution:g} is not greater than 0")
            for sensor in sensors:
                sensor.resolution = resolution
        options.done()
        return [
            ConfiguredSensor(_checked(one, kind, options), form, options.where, shown, table, rules)
            for one in sensors
        ]


def _rules(options: SensorOptions) -> SensorRules:
    try:
        return SensorRules.of(options.table("alerts"))
    except SensorRuleError as error:
        raise options.error(f"alerts.{error.key}", error.why) from error


def _checked(sensor: Sensor, kind: str, options: SensorOptions) -> Sensor:
    try:
        check_sensor(sensor)
        check_served(sensor)
    except Exception as error:  # its class is a developer's own code
        what = told(error) if isinstance(error, DescriptionError) else said(error)
        raise options.error("", f"{kind}: {what}") from error
    return sensor


def build_sensors(
    tables: Sequence[Mapping[str, Any]],
    *,
    folder: Path | None = None,
    default_format: str = mqtt_form.MSGPACK,
    clock: Callable[[], float] = time.monotonic,
) -> list[ConfiguredSensor]:
    """Build the sensors of a configuration; arguments and errors as `Workshop` has them."""
    return Workshop(folder, default_format, clock).build(tables)


def _host(options: SensorOptions) -> Sequence[Sensor]:
    return host_sensors(options.number("interval_s", DEFAULT_INTERVAL_S), options.near("disk", "/"))


def _replay(options: SensorOptions, clock: Callable[[], float]) -> Sequence[Sensor]:
    from gateway.sensors import recorded  # noqa: PLC0415  # few sensors are recordings
    from gateway.sensors.replay import Playback, Replay  # noqa: PLC0415  # as above

    series = options.text("series")
    if options.is_afar and series not in recorded.names():
        raise options.error("series", "only the configuration may name a file")
    own_name = series.rpartition("/")[2].removesuffix(".csv")
    return [
        Replay(
            options.text("name", own_name),
            Playback(
                recorded.load(series),
                speed=options.number("speed", 1.0),
                offset_s=options.number("offset_s", 0.0),
            ),
            clock=clock,
            interval_s=options.number("interval_s", DEFAULT_INTERVAL_S),
            resource_type=options.text("resource_type", own_name),
            attributes=options.table("attributes"),
        )
    ]


def _switch(options: SensorOptions) -> Sequence[Sensor]:
    return [
        Switch(
            options.text("name"),
            interval_s=options.number("interval_s", DEFAULT_INTERVAL_S),
            attributes=options.table("attributes"),
        )
    ]


def _own(kind: str, folder: Path | None, options: SensorOptions) -> Sensor:
    if ":" in kind and options.is_afar:
        raise options.error("type", "only the configuration may name a class")
    try:
        found = drivers.find(kind, folder) if ":" in kind else drivers.load(kind)
    except drivers.DriverError as error:
        raise options.error("type", str(error)) from error
    name = options.text("name")
    keywords: dict[str, Any] = {
        "interval_s": options.number("interval_s", DEFAULT_INTERVAL_S),
        "attributes": options.table("attributes"),
        **options.rest(),
    }
    try:
        made = found(name, **keywords)
    except (ValueError, OSError):
        raise
    # TypeError: an unknown key, one that is missing, or a value of a wrong type; but the class is
    # a developer's own code, which may raise anything.
    except Exception as error:
        what = told(error) if isinstance(error, TypeError) else said(error)
        raise options.error("", f"{kind}: {what}") from error
    if not isinstance(getattr(made, "children", None), ChildResources):
        why = "its 'children' are the gateway's: give what it keeps there another name, and call "
        raise options.error("", f"{kind}: {why}super().__init__")
    return made


def _later(module: str, name: str = "build") -> BuildSensors:
    """Builds with a driver that is loaded only where a table needs it."""

    def build(options: SensorOptions) -> Sequence[Sensor]:
        found: BuildSensors = getattr(importlib.import_module(f"gateway.sensors.{module}"), name)
        return found(options)

    return build


KINDS: Mapping[str, BuildSensors] = {
    "bme280": _later("bme280"),
    "coap": _later("coap_device"),
    "gpio-in": _later("gpio", "build_input"),
    "gpio-out": _later("gpio", "build_output"),
    "host": _host,
    "i2c": _later("i2c", "build_register"),
    "mqtt": _later("mqtt_device"),
    "onewire": _later("onewire"),
    "sht3x": _later("i2c", "build_sht3x"),
    "switch": _switch,
}
"""By type, but for those that need more than their table."""
