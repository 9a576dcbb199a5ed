"""`hedgerow init`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

FLEET_FOLDER = Path("hedgerow-fleet")
LOOPBACK = "127.0.0.1"
COLLECTOR = "collector"


def add(commands: Any, command: Callable[[argparse.Namespace], int]) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        command: what runs it.

    """
    init = commands.add_parser(
        "init",
        help="write what a new gateway needs, or a fleet of them",
        description="Write a configuration, an access policy, keys, passwords, certificates where "
        "other machines or gateways are reached, and a unit for systemd. On a terminal it asks "
        "for name, place and address, unless they are given; each question has a default, which "
        "is taken without a terminal. What is there is never written over: exit code 2 names it.",
    )
    init.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="folder to write to; stands before --fleet (default: where every command looks for a "
        f"configuration, /etc/hedgerow for root, else ~/.config/hedgerow; of a fleet "
        f"{FLEET_FOLDER})",
    )
    init.add_argument("--name", metavar="NAME", help="the gateway's id (default: the host's name)")
    init.add_argument(
        "--place",
        metavar="DOMAIN[/GROUP]",
        help="place in the hierarchy; of a fleet all gateways' (default: its top)",
    )
    init.add_argument(
        "--address",
        metavar="ADDRESS",
        help="address at which it listens and others reach it: any but this machine's own "
        "over TLS alone "
        f"(default: {LOOPBACK})",
    )
    init.add_argument(
        "--user",
        default="operator",
        metavar="USER",
        help="user who may write, over MQTT and over CoAP (default: operator)",
    )
    init.add_argument(
        "--port",
        type=port,
        metavar="N",
        help="the first of four in a row for each gateway: MQTT, MQTT over TLS, CoAP, CoAP over "
        "DTLS (default: 1883, 8883, 5683, 5684, and the next ones for a machine's further ones)",
    )
    _add_fleet(init)
    _add_collector(init)
    init.add_argument("-y", "--yes", action="store_true", help="ask nothing")
    init.set_defaults(command=command, goes_on="making keys")


def _add_fleet(init: argparse.ArgumentParser) -> None:
    init.add_argument(
        "--fleet",
        nargs="+",
        type=_member,
        metavar="NAME[=ADDRESS]",
        help="a folder for each of these gateways, linked in TLS, and their authority; without "
        "addresses they are all on this machine",
    )
    init.add_argument(
        "--add",
        type=_member,
        metavar="NAME[=ADDRESS]",
        help="one more gateway for the fleet in FOLDER, which --fleet has written: a folder beside "
        "the others, with their authority, tree key, users and policy",
    )


def _add_collector(init: argparse.ArgumentParser) -> None:
    init.add_argument(
        "--collector",
        action="store_true",
        help="a collector of the fleet in the folder --fleet DIR (default: "
        f"{FLEET_FOLDER}), named --name (default: {COLLECTOR}): certificate, policy, and units of "
        "the collector, of the job that reads its spool and of the dashboard (docs/cloud.md)",
    )


def _member(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if equals and not address:
        raise argparse.ArgumentTypeError(f"{text!r}: no address behind '='")
    return name, address


def port(text: str) -> int:
    """Read a port from an argument."""
    if not text.isdecimal() or not 0 < int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)
