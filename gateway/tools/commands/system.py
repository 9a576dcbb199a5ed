"""`hedgerow system`: its arguments."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

WITHIN_S = 600.0
ATTEMPTS = 2


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    system = commands.add_parser(
        "system",
        help="upgrade the whole system of a card with two slots, on trial until it is healthy",
        description="Show or change which of the two systems on this Pi's card is started. A new "
        "one is written to the slot that does not run, and tried: if its gateway is not healthy in "
        "time, or it does not come up at all, the one before is started again. "
        "docs/system-image.md tells it all.",
    )
    verbs = system.add_subparsers(metavar="VERB", required=True)
    status = _verb(
        verbs, "status", "show what runs, what is on trial, and how the last trial ended"
    )
    status.add_argument("--json", action="store_true", help="for scripts")
    install = _verb(verbs, "install", "write an image to the slot that does not run, and try it")
    install.add_argument("image", type=Path, metavar="IMAGE", help=".img, .img.xz or .img.gz")
    install.add_argument(
        "--keyring",
        type=Path,
        metavar="FILE",
        help="keyring for the signature IMAGE.sig (default: the keyring of the system that runs)",
    )
    install.add_argument(
        "--no-restart", action="store_true", help="do not try it now: `hedgerow system try` does"
    )
    install.add_argument("--json", action="store_true", help="for scripts")
    tried = _verb(verbs, "try", "restart into the system of the other slot, on trial")
    for one in (install, tried):
        _add_trial(one)
    _verb(verbs, "confirm", "have the system on trial stay, healthy or not")
    back = _verb(verbs, "back", "end the trial: the system before is started again")
    back.add_argument("--why", default="it was sent back", help="note on it")
    _verb(verbs, "watch", "do what the unit of this name does at each start")


def _verb(verbs: Any, name: str, about: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about)
    verb.add_argument("--data", type=Path, default=Path("/data/system"), help=argparse.SUPPRESS)
    verb.add_argument("--firmware", type=Path, help=argparse.SUPPRESS)
    verb.add_argument("--partitions", default="", help=argparse.SUPPRESS)
    verb.set_defaults(command=_run, verb=name)
    return verb


def _add_trial(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--within",
        type=float,
        default=WITHIN_S,
        metavar="S",
        help=f"time in which its gateway has to be healthy, in seconds (default: {WITHIN_S:g})",
    )
    verb.add_argument(
        "--attempts",
        type=int,
        default=ATTEMPTS,
        metavar="N",
        help=f"starts before it is given up (default: {ATTEMPTS})",
    )


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import system_slots  # noqa: PLC0415  # of use on a card with two slots

    return system_slots.run(options)
