"""`hedgerow rd`: its arguments, and what it prints of a Resource Directory."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.tools.commands.clients import watch_seconds
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.output import WAITING
from resource_directory.link_format import WebLink

PAGE_LINKS = 100
"""So many are asked for at once."""

_ACTIONS = ("list", "search", "watch", "remove")
_ENDPOINT_COLUMNS = ("endpoint", "domain", "group", "base", "registration", "other")
_RESOURCE_COLUMNS = ("resource", "type", "interface", "other")


def add(
    commands: Any, add_gateway: Callable[[argparse.ArgumentParser], None], command: Any
) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_gateway: adds the options that say which gateway is asked.
        command: what runs it.

    """
    rd = commands.add_parser(
        "rd",
        help="see which devices are registered over CoAP, search their resources, remove one",
        description="Look into a gateway's Resource Directory (RFC 9176). `list` shows the "
        "endpoints that are registered, `search` their resources, `watch` endpoints as they "
        "come, change and go, until Ctrl-C; NAME=VALUE leaves those that have this attribute "
        "themselves or in one of their links, VALUE* those where it begins so. `remove` takes "
        "out the one endpoint that it finds; that needs the key that registered it (--psk-file).",
    )
    rd.add_argument("action", choices=_ACTIONS, help="what to do")
    rd.add_argument(
        "criteria",
        nargs="*",
        metavar="NAME=VALUE",
        help="ep, d (the sector), gp (the group), rt, if, href or any other; all must hold; with "
        "scope=all, other gateways are asked too",
    )
    rd.add_argument(
        "--every",
        type=watch_seconds,
        default=2.0,
        metavar="S",
        help="with watch: how often to ask, in seconds (default: 2)",
    )
    add_gateway(rd)
    rd.set_defaults(command=command, goes_on=WAITING)


def query(criteria: Sequence[str]) -> str:
    """Criteria as the query of a URI.

    Raises:
        WrongUseError: one is no NAME=VALUE.

    """
    for criterion in criteria:
        name, separator, _ = criterion.partition("=")
        if not name or not separator:
            raise WrongUseError(f"{criterion!r}: NAME=VALUE is needed, as in rt=temperature")
    return "&".join(quote(criterion, "=*/:") for criterion in criteria)


def as_json(link: WebLink) -> dict[str, Any]:
    """Return a link for scripts: its target as ``href``, flags as true, lists as they are
    written."""
    attributes = {name: True if value is None else value for name, value in link.attributes}
    return {"href": link.href, **attributes}


def endpoints_table(links: Sequence[WebLink]) -> str:
    """Return lines for a terminal, one for each endpoint."""
    return _table(
        _ENDPOINT_COLUMNS,
        [
            (
                *(_shown(link.get(name)) for name in ("ep", "d", "gp", "base")),
                printable(link.href),
                _others(link, {"ep", "d", "gp", "base", "rt"}),
            )
            for link in links
        ],
        "registered",
    )


def resources_table(links: Sequence[WebLink]) -> str:
    """Return lines for a terminal, one for each resource."""
    return _table(
        _RESOURCE_COLUMNS,
        [
            (
                printable(link.href),
                *(_shown(link.get(name)) for name in ("rt", "if")),
                _others(link, {"rt", "if"}),
            )
            for link in links
        ],
        "found",
    )


def differences(
    before: Mapping[str, WebLink], now: Mapping[str, WebLink]
) -> list[tuple[str, WebLink]]:
    """Return what has changed between two lists of endpoints, by their registrations.

    Returns:
        ``+`` for those that came, ``-`` for those that went and ``~`` for those that changed.

    """
    gone = [("-", link) for href, link in before.items() if href not in now]
    came = [("+", link) for href, link in now.items() if href not in before]
    other = [("~", link) for href, link in now.items() if before.get(href, link) != link]
    return [*gone, *other, *came]


def line(sign: str, link: WebLink) -> str:
    """Return a line about an endpoint that came, changed or went."""
    name = f"{_shown(link.get('ep'))}  {_shown(link.get('base'))}  {printable(link.href)}"
    return f"{sign} {name}  {_others(link, {'ep', 'base', 'rt'})}".rstrip()


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], what: str) -> str:
    cells = [head, *rows]
    return "\n".join([*columns(cells), f"{len(rows)} {what}"])


def _others(link: WebLink, shown: set[str]) -> str:
    return " ".join(
        name if value is None else f"{name}={printable(value)}"
        for name, value in link.attributes
        if name not in shown
    )


def _shown(value: str | None) -> str:
    return printable(value) if value else "-"
