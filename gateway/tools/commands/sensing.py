"""The part of `hedgerow sensors` that works here: drivers, trials, tables of a configuration."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway.base import exit_codes
from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.base.toml import edited
from gateway.base.toml.edited import EditError, KeyChange
from gateway.process.configuration import config
from gateway.sensors.catalogue import all_types, described
from gateway.sensors.declared import DescribedDriver
from gateway.sensors.drivers import DriverError
from gateway.sensors.options import SensorConfigError
from gateway.sensors.parameters import DriverParameter
from gateway.sensors.trying import SensorTrials, TrialFailedError, TriedSensor
from gateway.sensors.values import as_text
from gateway.tools.commands import configuring, sensors
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.output import print_json

_ARRAY = "sensors"


def here(options: argparse.Namespace, file: Path | None) -> int:
    """List drivers, or try a sensor.

    Args:
        options: of the command.
        file: the configuration, beside which own classes are; None if there is none.

    """
    folder = _folder(file)
    if options.action == "drivers":
        return _drivers(options, folder)
    kind, pairs = sensors.named(options.what, "try")
    given = sensors.table(pairs) if pairs else {}
    table = {"type": kind, **({"name": "try"} if _needs_name(kind, folder) else {}), **given}
    try:
        found = SensorTrials().tried(folder, table, limit_s=options.timeout)
    except SensorConfigError as error:
        raise WrongUseError(f"{error.key.partition('.')[2] or kind}: {error.why}") from error
    except TrialFailedError as error:
        raise FailedError(f"{kind}: {error}") from error
    if options.json:
        print_json([_as_json(one) for one in found])
    else:
        sys.stdout.write("".join(f"{line}\n" for line in columns([_row(one) for one in found])))
    has_read = all(one.value is not None for one in found)
    return exit_codes.DONE if has_read else exit_codes.FAILED


def in_file(options: argparse.Namespace, file: Path) -> int:
    """Add, change or remove the table of a sensor in the configuration, on trial."""
    match options.action:
        case "add":
            table = sensors.table(options.what)
            return configuring.change(
                options, file, lambda text: edited.with_item(text, _ARRAY, table)
            )
        case "change":
            name, pairs = sensors.named(options.what, "change")
            changes = [KeyChange((key,), value) for key, value in sensors.changes(pairs).items()]
            edit = partial(_changed, name=name, changes=changes)
            return configuring.change(options, file, edit)
        case "remove":
            if len(options.what) != 1:
                raise WrongUseError("remove: the name of one sensor is needed")
            return configuring.change(options, file, partial(_removed, name=options.what[0]))
        case _:
            raise WrongUseError("--in-file: it is for add, change and remove")


def _changed(text: str, name: str, changes: Sequence[KeyChange]) -> str:
    return edited.with_item_changed(text, _ARRAY, _number(text, name), changes)


def _removed(text: str, name: str) -> str:
    return edited.without_item(text, _ARRAY, _number(text, name))


def _number(text: str, name: str) -> int:
    """Return which table makes the sensor of a name; of one without a name its type is it."""
    tables = tomllib.loads(text).get(_ARRAY, [])
    if isinstance(tables, list):
        called = [_called(table) for table in tables]
        if called.count(name) == 1:
            return called.index(name)
    raise EditError(f"no table of {_ARRAY}, or more than one, has the name or type {name!r}")


def _called(table: Any) -> Any:
    return table.get("name", table.get("type")) if isinstance(table, dict) else None


def _folder(file: Path | None) -> Path | None:
    if file is None:
        return None
    try:
        return config.load(file, config.GatewaySettings).sensors_dir
    except config.ConfigError:  # what is wrong with the rest is not the question
        return file.absolute().parent


def _needs_name(kind: str, folder: Path | None) -> bool:
    try:
        driver = described(kind, folder)
    except DriverError as error:
        raise WrongUseError(f"try: {error}") from error
    return any(one.name == "name" and one.is_needed for one in driver.parameters)


def _drivers(options: argparse.Namespace, folder: Path | None) -> int:
    try:
        found = [described(kind, folder) for kind in options.what or all_types()]
    except DriverError as error:
        raise WrongUseError(f"drivers: {error}") from error
    if options.json:
        print_json([one.as_json() for one in found])
    elif options.what:
        sys.stdout.write("\n".join(map(_in_full, found)))
    else:
        rows = [("type", "is"), *((one.type, printable(one.text)) for one in found)]
        sys.stdout.write("".join(f"{line}\n" for line in columns(rows)))
    return exit_codes.DONE


def _in_full(driver: DescribedDriver) -> str:
    head = f"{driver.type}: {driver.text}" if driver.text else driver.type
    rows = [("key", "kind", "default", "is"), *map(_parameter, driver.parameters)]
    return "".join(f"{printable(line)}\n" for line in (head, *columns(rows)))


def _parameter(one: DriverParameter) -> tuple[str, str, str, str]:
    kind = "|".join(one.choices) if one.choices else one.kind
    if one.least is not None and one.most is not None:
        kind = f"{kind} {one.least:g} to {one.most:g}"
    default = "needed" if one.is_needed else "-" if one.default in (None, "", {}) else one.default
    unit = f", {one.unit}" if one.unit else ""
    near = "; only the configuration may say it" if one.is_near else ""
    return one.name, kind, str(default), f"{one.text}{unit}{near}"


def _row(one: TriedSensor) -> tuple[str, ...]:
    if one.value is None:
        return printable(one.name), "-", "", printable(one.why or one.quality)
    return printable(one.name), printable(as_text(one.value)), printable(one.unit), one.quality


def _as_json(one: TriedSensor) -> Mapping[str, Any]:
    value = as_text(one.value) if isinstance(one.value, bytes) else one.value
    told = {"name": one.name, "value": value, "unit": one.unit, "quality": one.quality}
    return told | {"why": one.why}
