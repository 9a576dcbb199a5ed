"""`hedgerow policy`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.tools.commands.parser import word_or_file
from gateway.trust.policy.action import ActionError, ActionPlace

_ACTIONS = ("check", "explain")


def add(commands: Any, add_config: Callable[[argparse._ActionsContainer], None]) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_config: adds the option that names a configuration.

    """
    policy = commands.add_parser(
        "policy",
        help="check who may do what, and explain why somebody may or may not",
        description="`policy check [FILE]` prints all that is wrong with a policy (exits with 2) "
        "or odd about it: roles that nobody has, rules that are never reached. `policy explain "
        "PRINCIPAL ACTION` tells whether somebody may do something, and which rule says so: "
        "exits with 0 if it may, with 1 if not. A principal is psk:NAME, oscore:NAME, user:NAME, "
        "cert:NAME, console:NAME, local or stranger; an action is VERB and topic or path, as in "
        "PUT /sensors/valve or publish a/b, or one of drain, membership, clients, disconnect, "
        "configure.",
    )
    policy.add_argument("action", choices=_ACTIONS, help="what to do")
    policy.add_argument(
        "what",
        nargs="*",
        type=word_or_file,
        metavar="FILE | PRINCIPAL ACTION",
        help="files to check, or a principal and an action to explain",
    )
    which = policy.add_mutually_exclusive_group()
    which.add_argument("--file", type=Path, metavar="FILE", help="with explain: the policy")
    add_config(which)
    policy.add_argument(
        "--at",
        type=_where,
        metavar="DOMAIN/GROUP/GATEWAY",
        help="with explain: where it is done, with - for no domain or group "
        "(default: at the gateway of --config)",
    )
    policy.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help="with explain: a role that the certificate names; may be given several times",
    )
    policy.add_argument(
        "--via", default="", metavar="GATEWAY", help="with explain: the gateway it comes through"
    )
    policy.add_argument(
        "--client-id",
        default="",
        metavar="ID",
        help="with explain: how an MQTT client calls itself",
    )
    policy.add_argument("--json", action="store_true", help="for scripts")
    policy.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import policy  # noqa: PLC0415  # it loads all that reads a configuration

    return policy.run(options)


def _where(text: str) -> ActionPlace:
    try:
        return ActionPlace.parse(text)
    except ActionError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
