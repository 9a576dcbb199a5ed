"""`hedgerow pub` and `hedgerow sub`: their arguments; what they do is in `messaging`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add both commands to the parser.

    Args:
        commands: the parser's commands.

    """
    pub = commands.add_parser(
        "pub",
        help="publish a message over MQTT",
        description="Publish a message, or each line of standard input, and wait until the "
        "gateway has it. A refused message is an error; of QoS 0 a gateway tells one only where it "
        "ends the connection for it.",
    )
    pub.add_argument("-t", "--topic", required=True, metavar="TOPIC", help="topic to publish to")
    what = pub.add_mutually_exclusive_group(required=True)
    what.add_argument("-m", "--message", metavar="TEXT", help="the payload")
    what.add_argument("-f", "--file", type=Path, metavar="FILE", help="a file that is the payload")
    what.add_argument(
        "-l", "--lines", action="store_true", help="a message for each line of standard input"
    )
    what.add_argument("-n", "--null", action="store_true", help="an empty payload")
    pub.add_argument("-r", "--retain", action="store_true", help="let the gateway retain it")
    _add_broker(pub)
    pub.set_defaults(command=_does("publish"))
    sub = commands.add_parser(
        "sub",
        help="show messages as they come over MQTT",
        description="Subscribe, and show each message in a line: telemetry records and JSON are "
        "decoded, other bytes shown in hexadecimal. Ends with Ctrl-C.",
    )
    sub.add_argument(
        "-t",
        "--topic",
        action="append",
        required=True,
        metavar="FILTER",
        help="topic filter to subscribe to; may be given again",
    )
    sub.add_argument("-C", "--count", type=_positive, metavar="N", help="end after N messages")
    sub.add_argument("-R", "--no-retained", action="store_true", help="leave out what is retained")
    sub.add_argument("--json", action="store_true", help="a document of JSON for each message")
    _add_broker(sub)
    sub.set_defaults(command=_does("subscribe"))


def _add_broker(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument("--config", type=Path, metavar="FILE", help="this machine's gateway")
    which.add_argument("--host", metavar="HOST[:PORT]", help="default: this machine's gateway")
    command.add_argument(
        "--port", type=_port, metavar="N", help="default: 1883, or 8883 with --cafile"
    )
    command.add_argument("-q", "--qos", type=int, choices=[0, 1, 2], default=1, help="default: 1")
    command.add_argument("-i", "--id", default="", metavar="ID", help="the client identifier")
    command.add_argument("-u", "--user", metavar="NAME", help="asks for the password")
    command.add_argument(
        "--password-file", type=Path, metavar="FILE", help="its first line is the password"
    )
    command.add_argument("--cafile", type=Path, metavar="FILE", help="authorities; goes over TLS")
    command.add_argument("--cert", type=Path, metavar="FILE", help="the client's own certificate")
    command.add_argument("--key", type=Path, metavar="FILE", help="its key")


def _does(name: str) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        from gateway.tools.commands import messaging  # noqa: PLC0415  # the others speak no MQTT

        does: Callable[[argparse.Namespace], int] = getattr(messaging, name)
        return does(options)

    return command


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 < number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return number
