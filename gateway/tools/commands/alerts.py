"""`hedgerow alerts`: its arguments, what it sends, and what it prints."""

from __future__ import annotations

import argparse
import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.tools.commands.clients import add_watch
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.output import WAITING

ACTIONS: Final = ("list", "show", "ack", "close", "silence", "unsilence", "test", "rules")
_COLUMNS = ("severity", "rule", "gateway", "part", "since", "state", "alert")
_RULE_COLUMNS = ("rule", "severity", "after", "clears after", "what to do")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)")


def add(commands: Any, add_host: Callable[[argparse.ArgumentParser], None], command: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_host: adds the options that say which gateway is asked.
        command: what runs it.

    """
    alerts = commands.add_parser(
        "alerts",
        help="show what is wrong with a gateway and its neighbours, and say who sees to it",
        description="List the alerts of a running gateway; show one; acknowledge one (`ack`: it "
        "is not reminded of any more); end one of a gateway that will not come back (`close`); "
        "let nobody be told of some for a time (`silence`, "
        "`unsilence`); send a trial alert on the ways out (`test`); list the rules. All but "
        "`list`, `show` and `rules` need the operator's right (--psk-file). Exits with 1 where "
        "`list` finds a critical alert that nobody has acknowledged.",
    )
    alerts.add_argument("action", choices=ACTIONS, nargs="?", default="list", help="what to do")
    alerts.add_argument(
        "what",
        nargs="*",
        metavar="ALERT|FIELD=PATTERN|NUMBER|WAY",
        help="with show, ack and close: the alert, or the beginning of its name; with silence: as "
        "in rule=disk-* domain=campus; with unsilence: its number; with test: ways out (default: "
        "all)",
    )
    alerts.add_argument(
        "--for",
        dest="for_s",
        type=duration,
        metavar="TIME",
        help="with silence: for how long, as in 90m, 2h or 3d (default 1h)",
    )
    alerts.add_argument(
        "--from",
        dest="begins",
        type=moment,
        metavar="WHEN",
        help="with silence: when it begins, as in 2026-12-01T22:00 (local time; default: now)",
    )
    alerts.add_argument("--note", default="", metavar="TEXT", help="why; for those who look later")
    alerts.add_argument("--cleared", action="store_true", help="with list: also what is over")
    add_host(alerts)
    add_watch(alerts)
    alerts.set_defaults(command=command, goes_on=WAITING)


def duration(text: str) -> float:
    """Read seconds from an argument such as ``90m``."""
    found = _DURATION.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found is not None else 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90m, 2h or 3d")
    return seconds


def moment(text: str) -> int:
    """Read a time from an argument: microseconds since 1970."""
    try:
        at = datetime.datetime.fromisoformat(text)
        return round(at.astimezone().timestamp() * 1e6)
    except (ValueError, OverflowError, OSError) as error:
        why = f"{text!r} is no time such as 2026-12-01T22:00"
        raise argparse.ArgumentTypeError(why) from error


def order(options: argparse.Namespace, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is to be sent to the gateway.

    Args:
        options: of the command line.
        document: its alerts, of which one is acknowledged.

    Raises:
        WrongUseError: an argument is wrong.
        FailedError: there is no such alert.

    """
    what: list[str] = options.what
    if options.action == "ack":
        alert = one_of(document or {}, what, options.action)["alert"]
        return {"do": "ack", "alert": alert, "note": options.note}
    if options.action == "close":
        return {"do": "close", "alert": one_of(document or {}, what, options.action)["alert"]}
    if options.action == "silence":
        if not what:
            raise WrongUseError("silence: which alerts, as in rule=hot gateway=gw-*, is needed")
        return {
            "do": "silence",
            "match": dict(_patterns(what)),
            "for_s": options.for_s or _UNITS["h"],
            "begins_us": options.begins or 0,
            "note": options.note,
        }
    if options.action == "unsilence":
        if len(what) != 1 or not what[0].isdecimal():
            raise WrongUseError("unsilence: the number of one silence is needed")
        return {"do": "unsilence", "number": int(what[0])}
    return {"do": "test", "ways": what}


def one_of(document: Mapping[str, Any], what: Sequence[str], action: str) -> Mapping[str, Any]:
    """Return the alert that is named, by its name or the beginning of one.

    Raises:
        WrongUseError: not one is named.
        FailedError: none has that name, or several begin so.

    """
    if len(what) != 1:
        raise WrongUseError(f"{action}: the name of one alert is needed")
    found: list[Mapping[str, Any]] = [
        one for one in document.get("alerts", ()) if one["alert"].startswith(what[0])
    ]
    exact = [one for one in found if one["alert"] == what[0]]
    if len(exact or found) != 1:
        raise FailedError(f"{what[0]!r}: {len(found)} alerts begin so, not one")
    return (exact or found)[0]


def is_bad(document: Mapping[str, Any]) -> bool:
    """Return whether a critical alert stands that nobody has taken on."""
    return any(
        one["severity"] == "critical" and one["taken_on"] is None and one["is_told"]
        for one in document["alerts"]
    )


def as_table(document: Mapping[str, Any], *, with_cleared: bool) -> str:
    """Return lines for a terminal: alerts, silences, and ways out in trouble."""
    shown = [(one, _state(one)) for one in document["alerts"]]
    if with_cleared:
        shown += [(one, f"over at {_time(one['at_us'])}") for one in document["cleared"]]
    lines = columns([_COLUMNS, *(_row(one, state) for one, state in shown)]) if shown else []
    if not document["alerts"]:
        lines.append("nothing is wrong")
    lines += [_silence(one) for one in document["silences"]]
    for way, one in document["ways"].items():
        trouble = f": {one['trouble']}" if one["trouble"] else ""
        if one["waiting"] or one["dropped"] or trouble:
            lines.append(f"{way}: {one['waiting']} wait, {one['dropped']} dropped{trouble}")
    if document["left_out"]:
        lines.append(f"{document['left_out']} more were not raised: too many stood")
    return "\n".join(map(printable, lines))


def as_text(one: Mapping[str, Any]) -> str:
    """Return lines for a terminal about one alert."""
    taken = one["taken_on"]
    by = "nobody" if taken is None else f"{taken['who']} at {_time(taken['at_us'])}"
    note = f": {taken['note']}" if taken is not None and taken["note"] else ""
    rows = {
        "alert": one["alert"],
        "rule": f"{one['rule']} ({one['severity']})",
        "gateway": f"{one['gateway']} ({one['site'] or '-'})",
        "part": one["part"] or "-",
        "since": _time(one["since_us"]),
        "state": _state(one),
        "seen": one["message"],
        "what to do": one["what_to_do"],
        "taken on by": f"{by}{note}",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name.ljust(width)}  {printable(value)}" for name, value in rows.items())


def rules_table(document: Mapping[str, Any]) -> str:
    """Return lines for a terminal, one for each rule."""
    rows = [
        (
            name,
            one["severity"],
            f"{one['after_s']:g} s",
            f"{one['clears_after_s']:g} s",
            one["what_to_do"],
        )
        for name, one in document["rules"].items()
    ]
    return "\n".join(columns([_RULE_COLUMNS, *rows]))


def done(action: str, told: Mapping[str, Any]) -> str:
    """Return what an order has come to, for a terminal."""
    match action:
        case "ack":
            return f"{told['alert']} is acknowledged"
        case "close":
            return f"{told['alert']} is closed"
        case "silence":
            until = _time(told["ends_us"])
            return f"silence {told['number']}: {told['match']}, until {until}"
        case "unsilence":
            return f"silence {told['number']} has ended"
    ways = ", ".join(told["ways"])
    return f"a trial alert waits for {ways}; `hedgerow alerts` says what comes of it"


def _patterns(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, is_pair, pattern = word.partition("=")
        if not is_pair or not name or not pattern:
            raise WrongUseError(f"silence: {word!r} is not FIELD=PATTERN")
        yield name, pattern


def _row(one: Mapping[str, Any], state: str) -> tuple[str, ...]:
    return (
        one["severity"],
        one["rule"],
        one["gateway"],
        one["part"] or "-",
        _time(one["since_us"]),
        state,
        one["alert"],
    )


def _state(one: Mapping[str, Any]) -> str:
    if one["taken_on"] is not None:
        return f"taken on by {one['taken_on']['who']}"
    if one["silence"] is not None:
        return f"silence {one['silence']}"
    return "told" if one["is_told"] else "hidden by another"


def _silence(one: Mapping[str, Any]) -> str:
    patterns = " ".join(f"{name}={value}" for name, value in sorted(one["matcher"].items()))
    begins = f"from {_time(one['begins_us'])} " if one["begins_us"] else ""
    note = f": {one['note']}" if one["note"] else ""
    until = _time(one["ends_us"])
    what = patterns or "all alerts"
    return f"silence {one['number']}: {what}, {begins}until {until} ({one['who']}){note}"


def _time(at_us: int) -> str:
    try:
        local = datetime.datetime.fromtimestamp(at_us / 1e6, datetime.UTC).astimezone()
    except (ValueError, OverflowError, OSError):  # of a clock beyond the calendar
        return "?"
    return f"{local:%Y-%m-%d %H:%M:%S}"
