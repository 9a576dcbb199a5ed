"""Arguments that many commands share: the gateway to be asked, and the key for it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Final

from gateway.process.configuration import place as config_place
from gateway.tools.commands.errors import WrongUseError

ANSWER_S: Final = 15.0
"""A gateway says after 10 s that a driver, or another gateway, has not answered it; that is to
arrive here, and not be taken for the gateway's own silence."""


def add_config(command: argparse._ActionsContainer) -> None:
    """The option that names a configuration."""
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the gateway's TOML file (default: {config_place.IN_WORDS})",
    )


def add_gateway(command: argparse.ArgumentParser, *, timeout_s: float = ANSWER_S) -> None:
    """The gateway that is asked, and the key for it; its address may also stand alone."""
    which = _add_which(command)
    which.add_argument(
        "gateway",
        nargs="?",
        default=argparse.SUPPRESS,  # what --host has said stays
        metavar="HOST[:PORT]",
        help="as --host",
    )
    _add_client_options(command, timeout_s)


def add_own_gateway(command: argparse.ArgumentParser) -> None:
    """The gateway of a configuration, and the key for it."""
    add_config(command)
    command.set_defaults(gateway=None, at=None, way="")
    _add_client_options(command, 5.0)


def add_host(command: argparse.ArgumentParser) -> None:
    """The gateway that is asked, where a command has other arguments, and the key for it."""
    _add_which(command)
    _add_client_options(command)


def add_at(command: argparse.ArgumentParser) -> None:
    """The option that names another gateway of the fleet, which the one that is asked asks."""
    command.add_argument(
        "--at",
        metavar="GATEWAY",
        help="another gateway of the fleet, by its id, through the one that is asked",
    )


def _add_which(command: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the options that name a gateway: its address, or its configuration."""
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--host",
        dest="gateway",
        metavar="HOST[:PORT]",
        help="a gateway's CoAP address (default: that of --config, or 127.0.0.1)",
    )
    add_config(which)
    command.set_defaults(at=None, way="")
    return which


def _add_client_options(command: argparse.ArgumentParser, timeout_s: float = ANSWER_S) -> None:
    command.add_argument(
        "--psk-file",
        type=Path,
        metavar="FILE",
        help="IDENTITY:HEXKEY lines, for coaps (default: what writes to the gateway of a "
        "configuration, or asks another one by --at, takes its coap.psk_file, if this user may "
        "read it)",
    )
    command.add_argument(
        "--psk-identity", metavar="ID", help="identity in the file (default: the first)"
    )
    command.add_argument(
        "--timeout",
        type=_seconds,
        default=timeout_s,
        metavar="S",
        help=f"time to wait, in seconds (default: {timeout_s:g})",
    )
    command.add_argument("--json", action="store_true", help="for scripts")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time in seconds")
    return number


def config_file(options: argparse.Namespace) -> Path:
    """Return the configuration that `add_config` was given, or else the one that is found.

    Raises:
        WrongUseError: there is none.

    """
    given: Path | None = options.config
    try:
        return given or config_place.find()
    except config_place.NoConfigError as error:
        raise WrongUseError(
            f"--config: not given, and {error}: `hedgerow init` writes one"
        ) from error
