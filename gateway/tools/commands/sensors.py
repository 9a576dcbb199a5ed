"""`hedgerow sensors`: its arguments, what it sends, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.tools.commands.configuration import add_trial
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.output import WAITING

WHY = {"4.01": "this needs --psk-file", "4.04": "no such sensor"}
"""The meaning of an answer's code that says no more."""

HERE = ("drivers", "try")
"""Actions that ask no gateway."""
_ACTIONS = ("list", "add", "change", "remove", *HERE)
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
        help="list a gateway's sensors, add, change, remove or try one",
        description="List the sensors of a running gateway, add one, and change or remove one that "
        "was added. `add` takes the keys of a [[sensors]] table as KEY=VALUE, `change` the "
        "sensor's name and keys, `remove` its name; all need the operator's right (--psk-file), "
        "hold at once, and survive a restart. With --in-file they change the configuration "
        "itself, on trial. `drivers` says which types there are, or all keys of those that are "
        "named; `try` takes a type and keys, and reads once here, before anything is saved.",
    )
    sensors.add_argument("action", choices=_ACTIONS, help="what to do")
    sensors.add_argument(
        "what",
        nargs="*",
        metavar="KEY=VALUE|NAME|TYPE",
        help='with add: as in type=switch name=pump interval_s=5 attributes.position="roof"; '
        "with change: the sensor's name, and keys (KEY= takes one out); with remove: its name; "
        "with drivers: types; with try: a type, and keys",
    )
    sensors.add_argument(
        "--in-file",
        action="store_true",
        help="add, change or remove the table of the configuration, as `config set` does",
    )
    add_trial(sensors)
    add_gateway(sensors)
    sensors.set_defaults(command=command, goes_on=WAITING)


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that would have no effect.

    Raises:
        WrongUseError: an option is of changes of a configuration, which none is.

    """
    given = {
        "--dry-run": options.dry_run,
        "--no-apply": options.no_apply,
        "--if-unchanged": options.if_unchanged is not None,
    }
    for name, is_given in given.items():
        if is_given and not options.in_file:
            raise WrongUseError(f"{name}: it is for --in-file")


def named(words: Sequence[str], action: str) -> tuple[str, Sequence[str]]:
    """Return the first of an action's words, and the others.

    Raises:
        WrongUseError: there is none, or it is KEY=VALUE.

    """
    what = {"try": "a type, as in switch", "change": "the name of one sensor"}[action]
    if not words or "=" in words[0] or not words[0]:
        raise WrongUseError(f"{action}: {what}, is needed first, then KEY=VALUE")
    return words[0], words[1:]


def changes(pairs: Sequence[str]) -> dict[str, Any]:
    """Return what changes in a sensor's table: as `table`, and None for ``KEY=``."""
    if not pairs:
        raise WrongUseError("change: which key, as in interval_s=5, is needed")
    taken_out = [pair[:-1] for pair in pairs if pair.endswith("=") and len(pair) > 1]
    given = [pair for pair in pairs if not (pair.endswith("=") and len(pair) > 1)]
    return (table(given) if given else {}) | dict.fromkeys(taken_out)


def table(pairs: Sequence[str]) -> dict[str, Any]:
    """Return a sensor's table from ``KEY=VALUE``; a value that is none of TOML is a text.

    Raises:
        WrongUseError: one is not of this form.

    """
    from gateway.base.toml import written_value  # noqa: PLC0415  # others read no TOML

    made: dict[str, Any] = {}
    for pair in pairs:
        name, is_pair, text = pair.partition("=")
        if not is_pair or not name:
            raise WrongUseError(f"add: {pair!r} is not KEY=VALUE")
        outer, _, inner = name.partition(".")
        within = made.setdefault(outer, {}) if inner else made
        if not isinstance(within, dict):
            raise WrongUseError(f"add: {outer} is given as a value and as a table")
        within[inner or outer] = written_value.value(text)
    if not made:
        raise WrongUseError("add: which sensor, as in type=switch name=pump, is needed")
    return made


def path(names: Sequence[str]) -> str:
    """Return the path of the one sensor that is to be removed.

    Raises:
        WrongUseError: it is not one.

    """
    if len(names) != 1 or not names[0]:
        raise WrongUseError("remove: the name of one sensor is needed")
    return f"/sensors/{quote(names[0], safe='/')}"


def as_table(sensors: Sequence[Mapping[str, Any]]) -> str:
    """Return lines for a terminal, one for each sensor."""
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
