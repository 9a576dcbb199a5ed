"""`hedgerow join`: its arguments."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    join = commands.add_parser(
        "join",
        help="make this machine a gateway of a fleet, with a token",
        description="Get from the service that the token names all that a new gateway needs: its "
        "certificate, for a key that is made here and stays here, its configuration, the tree's "
        "key, users and policy. They are checked and written; as root, where systemd runs, the "
        "gateway is started too. The token is of `hedgerow keys token --fleet`. What is there is "
        "never written over, and who did not hear the answer may repeat the command.",
    )
    join.add_argument(
        "token", metavar="TOKEN", help='or "-": from standard input, unseen by other users'
    )
    join.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="folder to write to (default: where every command looks for a configuration, "
        "/etc/hedgerow for root, else ~/.config/hedgerow)",
    )
    join.add_argument("--no-start", action="store_true", help="write only, and say how to start it")
    join.set_defaults(command=_run, goes_on="asking for a certificate")


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import joining  # noqa: PLC0415  # others need no certificates

    return joining.join(options)
