"""`hedgerow place`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def add(commands: Any, add_config: Callable[[argparse.ArgumentParser], None], command: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_config: adds the option that names the configuration.
        command: what runs it.

    """
    place = commands.add_parser(
        "place",
        help="give a gateway another domain and group",
        description="Write another domain and group into a gateway's configuration. A gateway "
        "that runs takes them at its next reload (systemctl reload hedgerow, or SIGHUP): its "
        "record, topics, links and rules follow, and no client is disconnected.",
    )
    place.add_argument(
        "place",
        metavar="DOMAIN[/GROUP]",
        help="place at which it is to stand; / for the root level",
    )
    add_config(place)
    place.set_defaults(command=command)
