"""The kinds of sensors that a configuration can name, and how each is built.

``{"type": "host"}`` is the machine's own readings, ``{"type": "replay", "series": ...}`` a recorded
series, ``{"type": "switch"}`` an actuator in memory. ``{"type": "package.module:Class"}`` is a
developer's own subclass of ``Sensor`` (`gateway.sensors.drivers` says where it is found); keys
beyond those of ``Sensor`` go to its constructor. ``format``, ``retain`` and ``home_assistant``,
which every kind has, say how its readings are published and shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.sensors import drivers, mqtt_form, recorded
from gateway.sensors.host import host_sensors
from gateway.sensors.mqtt_form import MqttForm
from gateway.sensors.options import SensorConfigError, SensorOptions
from gateway.sensors.reading import names_of
from gateway.sensors.replay import Playback, Replay
from gateway.sensors.sensor import Sensor
from gateway.sensors.switch import Switch

Build = Callable[[SensorOptions], Sequence[Sensor]]

DEFAULT_INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class ConfiguredSensor:
    """A sensor, and what its table says beside.

    Attributes:
        sensor: what is read.
        form: how its readings look on MQTT.
        where: what to call its table in an error, as ``sensors[1]``.
        home_assistant: what Home Assistant is told of it, beside what the gateway knows.

    """

    sensor: Sensor
    form: MqttForm = field(default_factory=MqttForm)
    where: str = "sensors"
    home_assistant: Mapping[str, Any] = field(default_factory=dict)


def build_sensors(
    tables: Sequence[Mapping[str, Any]],
    *,
    folder: Path | None = None,
    default_format: str = mqtt_form.MSGPACK,
    clock: Callable[[], float] = time.monotonic,
) -> list[ConfiguredSensor]:
    """Build the sensors of a configuration.

    Args:
        tables: the configuration's ``sensors``, one table each.
        folder: where a developer's own classes are looked for first.
        default_format: of sensors that do not say one.
        clock: seconds, rising steadily; what a replayed series plays by.

    Raises:
        SensorConfigError: a type or key is unknown, a value is wrong, or two sensors have one
            name. The message begins with the key, as ``sensors[1].speed``.

    """
    kinds: dict[str, Build] = {
        "host": _host,
        "replay": lambda options: _replay(options, clock),
        "switch": _switch,
    }
    built: dict[str, ConfiguredSensor] = {}
    taken: set[str] = set()
    for i, table in enumerate(tables):
        where = f"sensors[{i}]"
        options = SensorOptions(table, where)
        kind = options.text("type")
        form = MqttForm(
            options.choice("format", mqtt_form.FORMATS, default_format), options.flag("retain")
        )
        shown = options.table("home_assistant")
        try:
            if ":" in kind:
                sensors: Sequence[Sensor] = [_own(kind, folder, options)]
            elif kind in kinds:
                sensors = kinds[kind](options)
            else:
                raise options.error("type", f"{kind!r} is none of {', '.join(sorted(kinds))}")
        except (ValueError, OSError) as error:
            if isinstance(error, SensorConfigError):
                raise
            raise options.error("", str(error)) from error
        options.done()
        for sensor in sensors:
            for name in {sensor.name, *(name for name, _ in names_of(sensor))}:
                if name in taken:
                    raise options.error("name", f"a second sensor named {name!r}")
                taken.add(name)
            built[sensor.name] = ConfiguredSensor(sensor, form, where, shown)
    return list(built.values())


def _host(options: SensorOptions) -> Sequence[Sensor]:
    return host_sensors(options.number("interval_s", DEFAULT_INTERVAL_S), options.text("disk", "/"))


def _replay(options: SensorOptions, clock: Callable[[], float]) -> Sequence[Sensor]:
    series = options.text("series")
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
    try:
        found = drivers.find(kind, folder)
    except drivers.DriverError as error:
        raise options.error("type", str(error)) from error
    name = options.text("name")
    keywords: dict[str, Any] = {
        "interval_s": options.number("interval_s", DEFAULT_INTERVAL_S),
        "attributes": options.table("attributes"),
        **options.rest(),
    }
    try:
        return found(name, **keywords)
    except (ValueError, OSError):
        raise
    # TypeError: an unknown key, one that is missing, or a value of a wrong type; but the class is
    # a developer's own code, which may raise anything.
    except Exception as error:
        what = str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        raise options.error("", f"{kind}: {what}") from error
