"""`hedgerow config`: its arguments."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from gateway.process.config_trials import LEAST_WITHIN_S, MOST_WITHIN_S, WITHIN_S


def add(
    commands: Any,
    add_config: Callable[[argparse.ArgumentParser], None],
    runs: Callable[[str], Callable[[argparse.Namespace], int]],
) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_config: adds the option that names the configuration.
        runs: gives what runs an action.

    """
    config = commands.add_parser(
        "config",
        help="show a gateway's configuration, and change it on trial",
        description="Show each key of a configuration with its value, where that comes from and "
        "what it is for; change keys on trial.",
    )
    actions = config.add_subparsers(title="actions", metavar="ACTION", required=True)
    _show(actions, add_config, runs("show"))
    _set(actions, add_config, runs("set_keys"))


def add_trial(action: argparse.ArgumentParser) -> None:
    """Add the options of whatever changes a configuration."""
    action.add_argument("--dry-run", action="store_true", help="show what would change, and end")
    action.add_argument(
        "--no-apply",
        action="store_true",
        help="leave a gateway that runs as it is: it is on trial from its next start on",
    )
    action.add_argument(
        "--within",
        type=_seconds,
        default=WITHIN_S,
        metavar="S",
        help=f"time in which it has to come up, in seconds (default: {WITHIN_S:g})",
    )
    action.add_argument(
        "--if-unchanged",
        metavar="DIGEST",
        help="only if the file has this SHA-256, as `config show --json` tells it",
    )


def _show(actions: Any, add_config: Callable[[argparse.ArgumentParser], None], run: Any) -> None:
    show = actions.add_parser(
        "show",
        help="show keys, their values, and where those come from",
        description="Show all keys, or one with its type, default, range and documentation. A "
        "value comes from the file (with its line), is the default, or comes from the environment "
        "(a file that systemd hands to the service).",
    )
    show.add_argument(
        "key", nargs="?", metavar="KEY", help="such as tree.hello_s, or a table (default: all)"
    )
    add_config(show)
    show.add_argument("--json", action="store_true", help="for scripts")
    show.set_defaults(command=run)


def _set(actions: Any, add_config: Callable[[argparse.ArgumentParser], None], run: Any) -> None:
    change = actions.add_parser(
        "set",
        help="change keys on trial",
        description="Check a change, show it, and write it; comments and order of the file stay, "
        "and the older one is kept beside it (.before). A gateway that runs takes it over at once, "
        "or starts anew in its process where a key takes that. If it is not up in time, the older "
        "configuration counts again, whatever happens meanwhile.",
    )
    change.add_argument(
        "changes",
        nargs="*",
        metavar="KEY=VALUE",
        help="such as tree.hello_s=1.0, gateway.domain=campus or 'tree.neighbours=[\"a:8883\"]'",
    )
    change.add_argument(
        "--unset",
        action="append",
        default=[],
        metavar="KEY",
        help="take a key out, so that its default counts; again for more",
    )
    add_config(change)
    add_trial(change)
    change.add_argument("--json", action="store_true", help="for scripts")
    change.set_defaults(command=run)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not LEAST_WITHIN_S <= number <= MOST_WITHIN_S:
        span = f"{LEAST_WITHIN_S:g} to {MOST_WITHIN_S:g}"
        raise argparse.ArgumentTypeError(f"{text!r} is not {span} seconds")
    return number
