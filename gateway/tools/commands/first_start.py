"""`hedgerow first-start`: its arguments."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gateway.tools.commands.init import port


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    first = commands.add_parser(
        "first-start",
        help="let a browser on the local link set up a gateway that has no owner",
        description="Serve a page to neighbours, and to nobody beyond a router, until the gateway "
        "has an owner. Who knows the setup code gives it a name, a place and a password, or a "
        "token of a fleet. The code is on the card, or is shown here. Where the gateway has an "
        "owner it ends at once, with exit code 0. docs/first-start.md tells it all.",
    )
    first.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="folder to write the gateway to (default: where every command looks for a "
        "configuration, "
        "/etc/hedgerow for root, else ~/.config/hedgerow)",
    )
    first.add_argument(
        "--card",
        type=Path,
        metavar="FILE",
        help="the file of the boot partition that has the code (default: what systemd hands over; "
        "without it a code is made, and printed)",
    )
    first.add_argument(
        "--write-card",
        type=Path,
        metavar="DIR",
        help="write such a file to a boot partition that is mounted at DIR, print its code and the "
        "fingerprint of the page's certificate, and serve nothing",
    )
    first.add_argument(
        "--page-port",
        type=port,
        metavar="N",
        help="port of the page (default: 9641, where the gateway's own does then)",
    )
    first.add_argument(
        "--port",
        type=port,
        metavar="N",
        help="the first of four in a row for the gateway: as of `hedgerow init`",
    )
    first.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import first_starting  # noqa: PLC0415  # others serve no page

    return first_starting.run(options)
