"""`hedgerow get`, `put`, `call`, `observe` and `discover`: their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from gateway.tools.commands.clients import watch_seconds
from gateway.tools.commands.output import WAITING

_WHAT = (
    "a URI (coap://HOST[:PORT]/PATH), a path (/sensors/valve), or a name: valve, "
    "GATEWAY/valve, DOMAIN/GROUP/GATEWAY/valve, GATEWAY:/PATH"
)
_NAMES = (
    "A name is a sensor's: of the gateway that is asked (valve), of another one "
    "(gw-south/valve), or with its place (campus/south/gw-south/valve); GATEWAY:/PATH is any "
    "other path there. Names are looked for at the nearest gateway, which passes the request on."
)

METHODS = {
    "post": "POST",
    "delete": "DELETE",
    "fetch": "FETCH",
    "patch": "PATCH",
    "ipatch": "iPATCH",
}
"""Those of `call`: as they are typed, and as CoAP names them."""

AddOptions = Callable[[argparse.ArgumentParser], None]


def add(commands: Any, add_host: AddOptions, command: Callable[[str], Any]) -> None:
    """Add the commands to the parser.

    Args:
        commands: the parser's commands.
        add_host: adds the options that say which gateway is asked.
        command: what runs a command, by its name.

    """
    get = commands.add_parser(
        "get",
        help="read a sensor or another resource over CoAP",
        description=f"Read a resource. {_NAMES} */valve is that sensor of all gateways, "
        "campus/*/*/valve of those of a domain; each is shown as it comes, with --json as a line.",
    )
    get.add_argument("target", metavar="WHAT", help=_WHAT)
    add_host(get)
    get.set_defaults(command=command("get"), goes_on=WAITING)

    put = commands.add_parser(
        "put",
        help="set an actuator over CoAP",
        description=f"Set a resource's value. {_NAMES} Needs the right to write (--psk-file).",
    )
    put.add_argument("target", metavar="WHAT", help=_WHAT)
    put.add_argument("value", metavar="VALUE", help="a number, or SenML JSON (RFC 8428)")
    add_host(put)
    put.set_defaults(command=command("put"), goes_on=WAITING)

    _add_call(commands, add_host, command)
    _add_observe(commands, add_host, command)
    _add_discover(commands, add_host, command)


def _add_call(commands: Any, add_host: AddOptions, command: Callable[[str], Any]) -> None:
    call = commands.add_parser(
        "call",
        help="have a device do something, over CoAP: POST, DELETE, FETCH, PATCH, iPATCH",
        description="Send a resource any request that is no GET and no PUT; what it does, the "
        f"device's class says. {_NAMES} All but fetch need the right to write (--psk-file), and "
        "are carried out once, however often they have to be asked.",
    )
    call.add_argument("method", choices=tuple(METHODS), help="the method")
    call.add_argument("target", metavar="WHAT", help=_WHAT)
    call.add_argument("body", metavar="BODY", nargs="?", default="", help="text, or JSON")
    call.add_argument(
        "--format",
        type=_content_format,
        metavar="N",
        help="the body's content format (default: 50 for JSON, 0 for other text)",
    )
    add_host(call)
    call.set_defaults(command=command("call"), goes_on=WAITING)


def _add_observe(commands: Any, add_host: AddOptions, command: Callable[[str], Any]) -> None:
    observe = commands.add_parser(
        "observe",
        help="show a sensor's values as they come, over CoAP",
        description="Show a resource whenever it changes, until Ctrl-C. What can't be observed "
        f"is read again and again. {_NAMES}",
    )
    observe.add_argument("target", metavar="WHAT", help=_WHAT)
    observe.add_argument(
        "--count", type=_count, metavar="N", help="end after so many values (default: never)"
    )
    observe.add_argument(
        "--every",
        type=watch_seconds,
        default=2.0,
        metavar="S",
        help="seconds between readings of what can't be observed (default: 2)",
    )
    add_host(observe)
    observe.set_defaults(command=command("observe"))


def _add_discover(commands: Any, add_host: AddOptions, command: Callable[[str], Any]) -> None:
    discover = commands.add_parser(
        "discover",
        help="find sensors and devices in the whole fleet",
        description="Find resources in the directories of all gateways, and print the names "
        "that `get`, `put` and `observe` take. NAME=VALUE leaves those that have this attribute, "
        "VALUE* those where it begins so; all must hold.",
    )
    discover.add_argument(
        "criteria", nargs="*", metavar="NAME=VALUE", help="if, ct, unit, ep or any other attribute"
    )
    discover.add_argument("--rt", metavar="TYPE", help="only resources of this type")
    discover.add_argument("--domain", metavar="NAME", help="only at gateways of this domain")
    discover.add_argument("--group", metavar="NAME", help="only at gateways of this group")
    discover.add_argument("--at", metavar="GATEWAY", help="only at this gateway")
    discover.add_argument(
        "--scope",
        choices=["own", "group", "domain", "all"],
        default="all",
        help="gateways to ask, as the one that is asked sees them (default: all)",
    )
    add_host(discover)
    discover.set_defaults(command=command("discover"), goes_on=WAITING)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 or more")
    return int(text)


def _content_format(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 0xFFFF):
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 to 65535")
    return int(text)
