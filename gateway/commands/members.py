"""`hedgerow members`: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.columns import columns
from gateway.printable import printable

_COLUMNS = ("gateway", "place", "address", "state")


def add(
    commands: Any, add_gateway: Callable[[argparse.ArgumentParser], None], command: Any
) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_gateway: adds the arguments that say which gateway is asked.
        command: what runs it.

    """
    members = commands.add_parser(
        "members",
        help="list the gateways of the fleet, or take out one that will not come back",
        description="List the gateways that a running gateway knows, also those that are away. "
        "--forget takes one out whose Pi is lost: all others drop its record at once. It needs a "
        "key with the right 'membership' (--psk-file). Its certificate is not revoked by that.",
    )
    add_gateway(members)
    members.add_argument("--forget", metavar="ID", help="take this gateway out")
    members.set_defaults(command=command)


def as_table(members: Sequence[Mapping[str, Any]]) -> str:
    """Lines for a terminal, one for each gateway."""
    rows = [_COLUMNS, *map(_row, members)]
    return "\n".join(columns(rows))


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    state = "in the tree" if one["is_present"] else "away"
    if one["is_draining"]:
        state += ", draining"
    place = f"{one['domain']}/{one['group']}"
    return printable(one["id"]), printable(place), printable(one["address"]), state
