"""`hedgerow logs`: the log of this machine's gateway, by level and by part."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gateway.base.event_log.read_lines import LEVELS

LAST: Final = 100
"""So many records are shown unless the command says otherwise."""


def add(commands: Any, add_config: Callable[[argparse._ActionsContainer], None]) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_config: adds the option that names a configuration.

    """
    logs = commands.add_parser(
        "logs",
        help="show what this machine's gateway has logged",
        description="Show the last records of the log of this machine's gateway, from systemd's "
        "journal, or from the file that `hedgerow run --log-file` writes. Only records of a level "
        "and above, or of a part of the gateway, are shown where that is asked for; a traceback "
        "belongs to its record.",
    )
    logs.add_argument(
        "-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C"
    )
    logs.add_argument(
        "-n",
        "--lines",
        type=_count,
        default=LAST,
        metavar="N|all",
        help=f"so many of the last records (default: {LAST})",
    )
    logs.add_argument("--level", choices=LEVELS, default="", help="the least that is shown")
    logs.add_argument(
        "--part",
        default="",
        metavar="NAME",
        help="only what this part of the gateway says, as in links, broker or links.node",
    )
    where = logs.add_mutually_exclusive_group()
    where.add_argument("--unit", metavar="NAME", help="of systemd, where it is not the gateway's")
    where.add_argument("--file", type=Path, metavar="FILE", help="that a gateway has written")
    add_config(where)
    logs.add_argument("--json", action="store_true", help="a document of JSON for each record")
    logs.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import shown_log  # noqa: PLC0415  # others read no log

    return shown_log.run(options)


def _count(text: str) -> int | None:
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 7):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of records, and not all")
    return int(text)
