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
from typing import Any, Final

from gateway.alerting.sensor_rules import SensorRuleError, SensorRules
from gateway.base.printable import said, told
from gateway.sensors import drivers, mqtt_form
from gateway.sensors.declared import DescribedDriver, SensorDriver, driver, of_class
from gateway.sensors.device_resource import ChildResources, check_served
from gateway.sensors.host import host_sensors
from gateway.sensors.link_texts import DescriptionError, checked_attributes
from gateway.sensors.mqtt_form import MqttForm
from gateway.sensors.options import SensorConfigError, SensorOptions
from gateway.sensors.parameters import (
    ALERTS,
    ATTRIBUTES,
    HOME_ASSISTANT,
    INTERVAL,
    NAME,
    RESOLUTION,
    RESOURCE_TYPE,
    RETAIN,
    DriverParameter,
)
from gateway.sensors.reading import names_of
from gateway.sensors.sensor import Sensor, check_sensor
from gateway.sensors.switch import Switch
from light_dataclasses import dataclass

FORMAT: Final = DriverParameter(
    "format",
    "choice",
    'of its readings on MQTT; else "msgpack", or "json" with home_assistant.discovery',
    choices=mqtt_form.FORMATS,
)
COMMON: Final = (
    NAME,
    INTERVAL,
    ATTRIBUTES,
    RESOURCE_TYPE,
    RESOLUTION,
    FORMAT,
    RETAIN,
    HOME_ASSISTANT,
    ALERTS,
)
"""The keys that the table of any sensor may have beside ``type``."""
DISK: Final = DriverParameter(
    "disk", "text", "a path on the file system whose use is read", "/", is_near=True
)
SERIES: Final = DriverParameter(
    "series", "text", "a recorded series, or the path of a .csv file", is_needed=True
)
SPEED: Final = DriverParameter("speed", "number", "so many times as fast as it was recorded", 1.0)
OFFSET: Final = DriverParameter(
    "offset_s", "number", "place in the series at which it begins", 0.0, unit="s"
)
PLAYED: Final = DriverParameter("name", "text", "of the sensor; else the series' own")


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

    def as_json(self, *, is_added: bool, state: str) -> dict[str, Any]:
        """Return what every list of sensors tells of one.

        Args:
            is_added: true if it was added, and can be changed and removed.
            state: as `gateway.sensors.sampler.Sampler.state_of` tells it.

        """
        return {
            "name": self.sensor.name,
            "type": self.table.get("type", ""),
            "kind": self.sensor.kind,
            "unit": self.sensor.unit,
            "interval_s": self.sensor.interval_s,
            "is_added": is_added,
            "state": state,
        }


@dataclass(frozen=True, slots=True)
class Workshop:
    """A builder of sensors from tables of the configuration.

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

    def made(
        self, table: Mapping[str, Any], where: str, *, is_afar: bool = False
    ) -> list[ConfiguredSensor]:
        """Build the sensors of one table alone; arguments and errors as of `build`.

        Args:
            where: what to call it in an error, as ``sensors[1]``.

        """
        return self._made(table, SensorOptions(table, where, is_afar=is_afar))

    def _driven(self, kind: str, options: SensorOptions) -> Sequence[Sensor]:
        """Have the driver of a type build what it reads in the table."""
        try:
            if kind == "replay":
                return _replay(options, self.clock)
            if kind in KINDS:
                return driver_of(kind)(options)
            if ":" in kind or kind in drivers.installed():
                return [_own(kind, self.folder, options)]
        except (ValueError, OSError) as error:
            if isinstance(error, SensorConfigError):
                raise
            raise options.error("", told(error)) from error
        raise options.error("type", f"{kind!r} is none of {', '.join(all_types())}")

    def _made(self, table: Mapping[str, Any], options: SensorOptions) -> list[ConfiguredSensor]:
        kind = options.text("type")
        form = MqttForm(options.take(FORMAT) or self.default_format, options.take(RETAIN))
        shown = options.take(HOME_ASSISTANT)
        rules = _rules(options)
        sensors = self._driven(kind, options)
        if options.has("attributes"):
            more = _attributes(options)
            for sensor in sensors:
                sensor.attributes = more
        if (resource_type := options.take(RESOURCE_TYPE)) is not None:
            for sensor in sensors:
                sensor.resource_type = resource_type
        if (resolution := options.take(RESOLUTION)) is not None:
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
        return SensorRules.of(options.take(ALERTS))
    except SensorRuleError as error:
        raise options.error(f"alerts.{error.key}", error.why) from error


def _attributes(options: SensorOptions) -> Mapping[str, str]:
    try:
        return checked_attributes(options.take(ATTRIBUTES))
    except DescriptionError as error:
        raise options.error(error.name, error.why) from error


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


@driver("load, temperature, memory, disk and network of the machine", DISK, names_itself=True)
def _host(options: SensorOptions) -> Sequence[Sensor]:
    return host_sensors(options.take(INTERVAL), options.take(DISK))


def _replay(options: SensorOptions, clock: Callable[[], float]) -> Sequence[Sensor]:
    from gateway.sensors import recorded  # noqa: PLC0415  # few sensors are recordings
    from gateway.sensors.replay import Playback, Replay  # noqa: PLC0415  # as above

    series = options.take(SERIES)
    if options.is_afar and series not in recorded.names():
        raise options.error("series", "only the configuration may name a file")
    own_name = series.rpartition("/")[2].removesuffix(".csv")
    return [
        Replay(
            options.take(PLAYED) or own_name,
            Playback(
                recorded.load(series), speed=options.take(SPEED), offset_s=options.take(OFFSET)
            ),
            clock=clock,
            interval_s=options.take(INTERVAL),
            resource_type=options.take(RESOURCE_TYPE) or own_name,
            attributes=options.take(ATTRIBUTES),
        )
    ]


@driver("an actuator in memory, 1 or 0")
def _switch(options: SensorOptions) -> Sequence[Sensor]:
    return [
        Switch(
            options.take(NAME),
            interval_s=options.take(INTERVAL),
            attributes=options.take(ATTRIBUTES),
        )
    ]


def _own(kind: str, folder: Path | None, options: SensorOptions) -> Sensor:
    if ":" in kind and options.is_afar:
        raise options.error("type", "only the configuration may name a class")
    try:
        found = drivers.find(kind, folder) if ":" in kind else drivers.load(kind)
    except drivers.DriverError as error:
        raise options.error("type", str(error)) from error
    name = options.take(NAME)
    keywords: dict[str, Any] = {
        "interval_s": options.take(INTERVAL),
        "attributes": options.take(ATTRIBUTES),
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


@driver("a recorded series", SERIES, SPEED, OFFSET, PLAYED)
def _played(options: SensorOptions) -> Sequence[Sensor]:
    return _replay(options, time.monotonic)


KINDS: Final[Mapping[str, SensorDriver | tuple[str, str]]] = {
    "bme280": ("bme280", "build"),
    "coap": ("coap_device", "build"),
    "gpio-in": ("gpio", "build_input"),
    "gpio-out": ("gpio", "build_output"),
    "host": _host,
    "i2c": ("i2c", "build_register"),
    "mqtt": ("mqtt_device", "build"),
    "onewire": ("onewire", "build"),
    "replay": _played,
    "sht3x": ("i2c", "build_sht3x"),
    "switch": _switch,
}
"""By type: a driver, or the module and name of one that is loaded where a table needs it."""


def driver_of(kind: str) -> SensorDriver:
    """Return a driver that ships.

    Args:
        kind: its type, one of `KINDS`.

    """
    found = KINDS[kind]
    if isinstance(found, SensorDriver):
        return found
    module, name = found
    made: SensorDriver = getattr(importlib.import_module(f"gateway.sensors.{module}"), name)
    return made


def described(kind: str, folder: Path | None = None) -> DescribedDriver:
    """Return what a driver is, and all keys that its table may have.

    Args:
        kind: its type, as a table has it.
        folder: where a developer's own classes are looked for first.

    Raises:
        DriverError: there is no such type, or its class can't be had.

    """
    if kind in KINDS:
        shipped = driver_of(kind)
        text, own, names_itself = shipped.text, shipped.parameters, shipped.names_itself
    elif ":" in kind or kind in drivers.installed():
        found = drivers.find(kind, folder) if ":" in kind else drivers.load(kind)
        (text, own), names_itself = of_class(found), False
    else:
        raise drivers.DriverError(f"{kind!r} is none of {', '.join(all_types())}")
    said = {one.name for one in own} | ({NAME.name} if names_itself else set())
    return DescribedDriver(kind, text, [*own, *(one for one in COMMON if one.name not in said)])


def is_own_code(table: Mapping[str, Any]) -> bool:
    """Return whether a table's driver does not ship: to make it runs a developer's own code."""
    kind = table.get("type")
    if not isinstance(kind, str) or kind in KINDS:
        return False
    return ":" in kind or kind in drivers.installed()


def all_types() -> list[str]:
    """Return the types that ship or that installed packages have; a class of one's own is none."""
    return sorted({*KINDS, *drivers.installed()})
