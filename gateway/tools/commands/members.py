"""`hedgerow members`: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gateway.base.columns import columns
from gateway.tools.commands.errors import FailedError
from gateway.tools.commands.output import WAITING, complain
from tree_handler.errors import ProtocolError
from tree_handler.members.listed import ListedMember

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
        "`forget` takes one out whose Pi is lost: all others drop its record at once. It needs a "
        "key with the right 'membership' (--psk-file). Its certificate is not revoked by that.",
    )
    members.add_argument(
        "words",
        nargs="*",
        metavar="list|forget|GATEWAY",
        help="`list` (the default), or `forget GATEWAY`: take this gateway out",
    )
    add_gateway(members)
    members.add_argument("--forget", metavar="GATEWAY", help="as `forget GATEWAY`")
    members.set_defaults(command=command, goes_on=WAITING)


def read(told: object) -> Iterator[ListedMember]:
    """Read what a gateway told; a member that is none is complained of, and left out.

    Raises:
        FailedError: it is no list of members.

    """
    members = told.get("members") if isinstance(told, dict) else None
    if not isinstance(members, list):
        raise FailedError("no list of members was told")
    for one in members:
        try:
            yield ListedMember.of(one)
        except ProtocolError as error:
            complain(f"hedgerow: a member is left out: {error}")


def as_table(members: Iterable[ListedMember]) -> str:
    """Return lines for a terminal, one for each gateway."""
    rows = [_COLUMNS, *map(_row, members)]
    return "\n".join(columns(rows))


def _row(one: ListedMember) -> tuple[str, ...]:
    state = "in the tree" if one.is_present else "away"
    if one.is_draining:
        state += ", draining"
    return one.id, f"{one.domain}/{one.group}", one.address, state
