"""`hedgerow clients`: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.tools.commands.output import WAITING

_COLUMNS = (
    *("client", "user", "address", "protocol", "connected since"),
    *("subs", "queued", "in flight", "dropped"),
)
_OPTION_CHARACTERS = 60
"""Of an identifier in one option: 240 bytes at most, as UTF-8."""


def add(
    commands: Any, add_gateway: Callable[[argparse.ArgumentParser], None], command: Any
) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_gateway: adds the arguments that say which gateway is asked.
        command: what runs it.

    """
    clients = commands.add_parser(
        "clients",
        help="list a gateway's MQTT clients, show one, or disconnect one",
        description="List the MQTT clients of a running gateway, also those that are away and "
        "whose session is kept; show one, or disconnect one. From another machine that needs a key "
        "(--psk-file), and so does `kick` from anywhere.",
    )
    clients.add_argument(
        "words",
        nargs="*",
        metavar="list|show|kick|ID",
        help="`list` (the default), `show ID`: all about one client, or `kick ID`: close its "
        "connection; its session stays, and it may come back",
    )
    add_gateway(clients)
    which = clients.add_mutually_exclusive_group()
    which.add_argument("--id", metavar="ID", help="as `show ID`")
    which.add_argument("--kick", metavar="ID", help="as `kick ID`")
    clients.add_argument("--forget", action="store_true", help="with kick: end its session too")
    add_watch(clients)
    clients.set_defaults(command=command, goes_on=WAITING)


def add_watch(command: argparse.ArgumentParser) -> None:
    """Add ``--watch``: the seconds between two answers; None where it is not given."""
    command.add_argument(
        "--watch",
        type=watch_seconds,
        nargs="?",
        const=2.0,
        metavar="S",
        help="show it again and again, every S seconds (default 2), until Ctrl-C",
    )


def query(name: str, client_id: str) -> str:
    """Return a client identifier as the query of a URI, in as many options as it needs."""
    pieces = range(0, max(1, len(client_id)), _OPTION_CHARACTERS)
    return "&".join(f"{name}={quote(client_id[i : i + _OPTION_CHARACTERS], '')}" for i in pieces)


def as_table(clients: Sequence[Mapping[str, Any]]) -> str:
    """Return lines for a terminal, one for each client."""
    rows = [_COLUMNS, *(_row(one) for one in clients)]
    lines = columns(rows)
    connected = sum(one["is_connected"] for one in clients)
    return "\n".join([*lines, f"{connected} connected, {len(clients) - connected} away"])


def as_text(one: Mapping[str, Any]) -> str:
    """Return lines for a terminal about one client."""
    when = _time(one["since_s"])
    proof = " (by certificate)" if one["by_certificate"] else ""
    expiry = "never" if one["expiry_s"] is None else f"{one['expiry_s']} s after it left"
    rows = {
        "client": f"{printable(one['id'])}{', a bridge' if one['is_bridge'] else ''}",
        "user": f"{printable(one['user'] or '-')}{proof}",
        "roles": ", ".join(map(printable, one["roles"] or ())) or "-",
        "address": one["address"] or "-",
        "protocol": one["protocol"],
        "connected": f"since {when}" if one["is_connected"] else f"no, away since {when}",
        "session ends": expiry,
        "will": printable(one["will"] or "-"),
        "queued": f"{one['queued']} ({one['queued_bytes']} bytes in memory)",
        "in flight": f"{one['inflight']} ({one['inflight_bytes']} bytes)",
        "not released": f"{one['unreleased']} of its QoS 2 messages",
        "dropped": str(one["dropped"]),
        "socket": "-"
        if one["reads"] is None
        else f"{one['buffered_bytes']} bytes wait"
        + ("" if one["reads"] else ", the client does not read"),
        "subscriptions": str(one["subscriptions"]),
    }
    width = max(map(len, rows))
    return "\n".join(
        [
            *(f"{name.ljust(width)}  {value}" for name, value in rows.items()),
            *(f"  QoS {each['qos']}  {printable(each['filter'])}" for each in one["filters"]),
        ]
    )


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    since = _time(one["since_s"])
    return (
        printable(one["id"]),
        printable(one["user"] or "-"),
        one["address"] or "-",
        one["protocol"],
        since if one["is_connected"] else f"away since {since}",
        *(str(one[name]) for name in ("subscriptions", "queued", "inflight", "dropped")),
    )


def _time(since_s: float) -> str:
    local = datetime.datetime.fromtimestamp(since_s, datetime.UTC).astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}"


def watch_seconds(text: str) -> float:
    """Return how often to look again, from an argument: 0.1 to 3,600 s."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not 0.1 to 3600 seconds")
    return seconds
