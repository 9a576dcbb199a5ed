"""`hedgerow alerts` asks a running gateway, and tells it what people do about its alerts."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from gateway.base import exit_codes
from gateway.tools.commands import alerts as form
from gateway.tools.commands.asking import ask_once, find_way, gateway_uri, json_in, show, told_in
from gateway.tools.commands.asking import run as run_asking
from gateway.tools.commands.errors import FailedError, WrongUseError, reading_an_answer
from gateway.tools.commands.output import print_json

_JSON: Final = 50
_NOT_FOUND: Final = "4.04"
_READS: Final = ("list", "show", "rules")


@reading_an_answer()
def run(options: argparse.Namespace) -> int:
    """Do it; return the exit code."""
    find_way(options, writes=options.action not in _READS)
    if options.action not in _READS:
        return _order(options)
    if options.what and options.action != "show":
        raise WrongUseError(f"{options.action}: takes no {options.what[0]!r}")
    if options.action == "show":
        alert = form.one_of(_document(options), options.what, "show")
        if options.json:
            print_json(alert)
        else:
            sys.stdout.write(form.as_text(alert) + "\n")
        return 0
    is_list, is_bad = options.action == "list", False

    async def ask() -> dict[str, Any]:
        nonlocal is_bad
        found = await _ask(options)
        is_bad = is_list and form.is_bad(found)
        return found

    def as_text(told: dict[str, Any]) -> str:
        if is_list:
            return form.as_table(told, with_cleared=options.cleared)
        return form.rules_table(told)

    show(options, ask, as_text, lambda told: told if is_list else told["rules"])
    return exit_codes.FAILED if is_bad else 0


def _order(options: argparse.Namespace) -> int:
    document = None
    if options.action in ("ack", "close"):
        document = _document(options)
    body = json.dumps(form.order(options, document)).encode()
    uri = gateway_uri(options) + "/alerts"
    asking = ask_once(options, "POST", uri, payload=body, content_format=_JSON)
    told = json_in(run_asking(asking, options))
    if options.json:
        print_json(told)
    else:
        sys.stdout.write(form.done(options.action, told) + "\n")
    return 0


def _document(options: argparse.Namespace) -> dict[str, Any]:
    return run_asking(_ask(options), options)


async def _ask(options: argparse.Namespace) -> dict[str, Any]:
    answer = await ask_once(options, "GET", gateway_uri(options) + "/alerts")
    if answer.code == _NOT_FOUND:
        raise FailedError("it raises no alerts: alerts.enabled is false, or it is of before 0.2")
    return told_in(answer)
