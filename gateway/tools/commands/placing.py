"""`hedgerow place`: writes another domain and group into a gateway's configuration."""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

from gateway.base import replaced_file
from gateway.base.lone_change import alone
from gateway.base.toml.toml_lines import KeyLines
from gateway.tools.commands.errors import WrongUseError
from tree_handler.errors import ProtocolError
from tree_handler.members.place import NONE, Place

KEYS = ("domain", "group")
_SECTION = "gateway"


def run(options: argparse.Namespace, file: Path) -> int:
    """Write it.

    Raises:
        WrongUseError: the place is none, or the file can't be read, understood or written.

    """
    place = parsed(options.place)
    try:
        with alone(file):
            before = file.read_bytes().decode()
            after = rewritten(before, place)
            if after != before:
                replaced_file.replace(
                    file.resolve(), after.encode(), is_durable=True, keeps_owner=True
                )
    except OSError as error:
        raise WrongUseError(f"{file}: {error.strerror}") from error
    except ValueError as error:  # UnicodeDecodeError and TOMLDecodeError are of this kind
        raise WrongUseError(f"{file}: {error}") from error
    then = "" if after == before else ", for a gateway that runs from its next reload on"
    sys.stdout.write(f"{file}: {place}{then}\n")
    return 0


def parsed(text: str) -> Place:
    """Read ``DOMAIN[/GROUP]``.

    Raises:
        WrongUseError: it is none.

    """
    domain, _, group = text.partition("/")
    try:
        return Place(*("" if part == NONE else part for part in (domain, group)))
    except ProtocolError as error:
        raise WrongUseError(f"{text!r} is no DOMAIN[/GROUP]: {error}") from error


def rewritten(text: str, place: Place) -> str:
    """Return a configuration with another place; all else stays as it is written.

    Args:
        text: a TOML document.
        place: the new one.

    Raises:
        ValueError: it is no TOML, has no section ``[gateway]``, or writes these keys in a way
            that can't be changed line by line.

    """
    wanted = tomllib.loads(text)
    match wanted:
        case {"gateway": dict(own)}:
            pass
        case _:
            raise ValueError(f"no section [{_SECTION}]")
    is_there = {key: key in own for key in KEYS}
    for key in KEYS:
        value = getattr(place, key)
        if is_there[key] or value:
            own[key] = value
            text = _with(text, key, value, is_there=is_there[key])
    if not _says(text, wanted):
        raise ValueError(f"{_SECTION}.domain and .group stand in no lines of their own: edit them")
    return text


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _with(text: str, key: str, value: str, *, is_there: bool) -> str:
    """With another value of a key, whose line keeps its comment, or with one more line."""
    lines, found = text.split("\n"), KeyLines(text)
    if is_there:
        number = found.first(f"{_SECTION}.{key}")
        old = lines[number - 1]
        _, hash_sign, comment = old.partition("#")
        ending = "\r" if old.endswith("\r") and not hash_sign else ""
        lines[number - 1] = f'{key} = "{value}"' + (f"  #{comment}" if hash_sign else ending)
    else:
        lines.insert(found.first(_SECTION), f'{key} = "{value}"')
    return "\n".join(lines)
