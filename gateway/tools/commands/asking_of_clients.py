"""`hedgerow clients` and `hedgerow members` ask a running gateway who is there, or take one out."""

from __future__ import annotations

import argparse
import sys
from typing import Any
from urllib.parse import quote

from gateway.base.printable import printable
from gateway.tools.commands.action_words import do_words
from gateway.tools.commands.asking import (
    ask_once,
    client_for,
    find_way,
    gateway_uri,
    good,
    json_in,
    run,
    show,
)
from gateway.tools.commands.errors import FailedError, WrongUseError, reading_an_answer
from gateway.tools.commands.output import print_json


def clients(options: argparse.Namespace) -> int:
    """List the clients of a gateway, show one, or close its connection."""
    from gateway.tools.commands import clients as form  # noqa: PLC0415  # `hedgerow get` shows no table

    do_words(options, {"show": "id", "kick": "kick"})
    if options.forget and options.kick is None:
        raise WrongUseError("--forget: needs kick")
    find_way(options, writes=options.kick is not None)
    if options.kick is not None:
        return _kick(options, form.query("id", options.kick))

    async def one() -> dict[str, Any]:
        uri = f"{gateway_uri(options)}/clients?{form.query('id', options.id)}"
        told: dict[str, Any] = json_in(await ask_once(options, "GET", uri))
        return told

    async def everyone() -> list[dict[str, Any]]:
        uri, found, after = f"{gateway_uri(options)}/clients", list[dict[str, Any]](), ""
        async with client_for(options, uri) as asker:
            while True:
                page = f"{uri}?{form.query('after', after)}"
                told = json_in(await asker.request("GET", page, timeout_s=options.timeout))
                found += told["clients"]
                if not told["has_more"]:
                    return found
                after = found[-1]["id"]

    if options.id is not None:
        return show(options, one, form.as_text, lambda told: told)
    return show(options, everyone, form.as_table, lambda told: told)


@reading_an_answer()
def _kick(options: argparse.Namespace, query: str) -> int:
    forget = "&forget=1" if options.forget else ""
    uri = f"{gateway_uri(options)}/clients?{query}{forget}"
    told = json_in(run(ask_once(options, "POST", uri), options))
    if options.json:
        print_json({"id": options.kick, **told})
    if not told["was_connected"] and not told["is_forgotten"]:
        raise FailedError(f"{options.kick!r} is not connected")
    if not options.json:
        done = ["disconnected"] * told["was_connected"] + ["forgotten"] * told["is_forgotten"]
        sys.stdout.write(f"{options.kick!r} is {' and '.join(done)}\n")
    return 0


def members(options: argparse.Namespace) -> int:
    """List the gateways of the fleet, or take one out."""
    from gateway.tools.commands import members as form  # noqa: PLC0415  # `hedgerow get` shows no table

    do_words(options, {"forget": "forget"})
    gone = options.forget
    find_way(options, writes=gone is not None)
    uri = f"{gateway_uri(options)}/members"
    if gone is None:
        found = list(form.read(json_in(run(ask_once(options, "GET", uri), options))))
        if options.json:
            print_json([one.as_json() for one in found])
        else:
            sys.stdout.write(form.as_table(found) + "\n")
        return 0
    good(run(ask_once(options, "DELETE", f"{uri}?id={quote(gone, '')}"), options))
    if options.json:
        print_json({"forgotten": gone})
    else:
        sys.stdout.write(f"{printable(gone)} is taken out of the fleet's records\n")
    return 0
