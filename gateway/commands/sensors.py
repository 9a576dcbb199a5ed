"""`hedgerow sensors`: its arguments, what it sends, and what it prints."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gateway.columns import columns
from gateway.commands.errors import WrongUseError
from gateway.printable import printable

WHY = {"4.01": "this needs --psk-file", "4.04": "no such sensor"}
"""What an answer's code means that says no more."""

_ACTIONS = ("list", "add", "remove")
_COLUMNS = ("sensor", "type", "kind", "unit", "every", "from", "state")


def add(
    commands: Any, add_gateway: Callable[[argparse.ArgumentParser], None], command: Any
) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_gateway: adds the options that say which gateway is asked.
        command: what runs it.

    """
    sensors = commands.add_parser(
        "sensors",
        help="list a gateway's sensors, add one, or remove one that was added",
        description="List the sensors of a running gateway, add one, or remove one that was "
        "added. `add` takes the keys of a [[sensors]] table as KEY=VALUE, `remove` the sensor's "
        "name; both need the operator's right (--psk-file), hold at once, and survive a restart. "
        "What stands in the configuration is changed there, and read again at a reload.",
    )
    sensors.add_argument("action", choices=_ACTIONS, help="what to do")
    sensors.add_argument(
        "what",
        nargs="*",
        metavar="KEY=VALUE|NAME",
        help='with add: as in type=switch name=pump interval_s=5 attributes.position="roof"; '
        "with remove: the sensor's name",
    )
    add_gateway(sensors)
    sensors.set_defaults(command=command)


def table(pairs: Sequence[str]) -> dict[str, Any]:
    """A sensor's table from ``KEY=VALUE``; a value that is none of TOML is a text.

    Raises:
        WrongUseError: one is not of this form.

    """
    made: dict[str, Any] = {}
    for pair in pairs:
        name, is_pair, text = pair.partition("=")
        if not is_pair or not name:
            raise WrongUseError(f"add: {pair!r} is not KEY=VALUE")
        outer, _, inner = name.partition(".")
        within = made.setdefault(outer, {}) if inner else made
        if not isinstance(within, dict):
            raise WrongUseError(f"add: {outer} is given as a value and as a table")
        within[inner or outer] = _value(text)
    if not made:
        raise WrongUseError("add: which sensor, as in type=switch name=pump, is needed")
    return made


def path(names: Sequence[str]) -> str:
    """The path of the one sensor that is to be removed.

    Raises:
        WrongUseError: it is not one.

    """
    if len(names) != 1 or not names[0]:
        raise WrongUseError("remove: the name of one sensor is needed")
    return f"/sensors/{quote(names[0], safe='/')}"


def as_table(sensors: Sequence[Mapping[str, Any]]) -> str:
    """Lines for a terminal, one for each sensor."""
    rows = [_COLUMNS, *(_row(one) for one in sensors)]
    return "\n".join(columns(rows))


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        printable(one["name"]),
        printable(one["type"]) or "-",
        one["kind"],
        printable(one["unit"]) or "-",
        f"{one['interval_s']:g} s",
        "added" if one["is_added"] else "configuration",
        one["state"],
    )


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text
