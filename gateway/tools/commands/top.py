"""`hedgerow top`: its arguments, and what runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.tools.commands.clients import watch_seconds

TIMEOUT_S: Final = 5.0
"""So long a gateway has for an answer; then it is told that there is none."""


def add(commands: Any, add_gateway: Callable[..., None], command: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_gateway: adds the arguments that say which gateway is asked.
        command: what runs it.

    """
    top = commands.add_parser(
        "top",
        help="look at a gateway while it works: rates, delays, clients, sensors, alerts, log",
        description="Show in the terminal what a running gateway does, again and again: its "
        "neighbours, messages and bytes a second, how long clients wait for acknowledgements, "
        "queues, the busiest clients, sensors, alerts and, on its own machine, the end of its log. "
        "F1 shows the keys, q ends. docs/top.md says what each number is.",
    )
    add_gateway(top, timeout_s=TIMEOUT_S)
    top.add_argument(
        "--fleet", action="store_true", help="all gateways that this one knows, a row for each"
    )
    top.add_argument(
        "--once",
        action="store_true",
        help="look twice, an interval apart, print what there is and end",
    )
    top.add_argument(
        "--interval",
        type=watch_seconds,
        metavar="S",
        help="seconds between questions (default: 2; with --fleet 5, with --once 1)",
    )
    top.set_defaults(command=command)
