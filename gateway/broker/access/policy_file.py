"""The access policy as a TOML file, or as a section of one; every error names file and line.

::

    [default]
    subscribe = ["public/#", "$SYS/#"]

    [roles.sensor]
    publish = ["campus/north/%c/#"]

    [users.alice]
    publish = ["#"]
    subscribe = ["#"]
    deliver = ["campus/#"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.broker.access.policy import AccessPolicy, RuleError, Rules
from gateway.toml_lines import KeyLines

_ACTIONS = ("publish", "subscribe", "deliver", "conceal")
_ERROR_LINE = re.compile(r" \(at line (\d+), column \d+\)")

Keys = tuple[str, ...]


class AccessFileError(ValueError):
    """A file about access is wrong: ``str(error)`` is one line that names file and line.

    Args:
        file: its name.
        line: the line, from 1; 0 if it is none in particular.
        why: what is wrong. It never holds a hash or a password.

    """

    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"{file}:{line}: {why}" if line else f"{file}: {why}")
        self.file = file
        self.line = line
        self.why = why


def read_access_file(path: Path) -> str:
    """The text of a policy or password file.

    Raises:
        AccessFileError: it can't be read or is not UTF-8.

    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AccessFileError(str(path), 0, error.strerror or "can't be read") from error
    try:
        return data.decode()
    except UnicodeDecodeError as undecodable:
        line = data.count(b"\n", 0, undecodable.start) + 1
        raise AccessFileError(str(path), line, "not UTF-8") from undecodable


def parse_policy(text: str, file: str, section: Keys = ()) -> AccessPolicy:
    """Read a policy.

    Args:
        text: a TOML document.
        file: its name, for errors.
        section: where in the document the policy is, such as ``("access", "policy")``.

    Raises:
        AccessFileError: no TOML, no such section, an unknown key, a value that is no list of
            texts, or a rule that is wrong.

    """
    try:
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The message ends with its place; "end of document" is the last line.
        place = _ERROR_LINE.search(str(error))
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        raise AccessFileError(file, line, f"not TOML: {_ERROR_LINE.sub('', str(error))}") from error
    for depth, key in enumerate(section, 1):
        table = table.get(key)
        if not isinstance(table, dict):
            line = 0 if table is None else KeyLines(text).first(".".join(section[:depth]))
            raise AccessFileError(file, line, f"no section [{'.'.join(section)}]")
    return _Reader(text, file, section).policy(table)


class _Reader:
    """Builds the policy; knows the text, to find an error's line in it."""

    def __init__(self, text: str, file: str, section: Keys) -> None:
        self._text = text
        self._file = file
        self._section = section

    def policy(self, table: Mapping[str, Any]) -> AccessPolicy:
        for key in table:
            if key not in ("default", "roles", "users"):
                raise self._error((key,), "is none of default, roles and users")
        return AccessPolicy(
            self._rules(("default",), table.get("default", {})),
            self._named_rules("roles", table.get("roles", {})),
            self._named_rules("users", table.get("users", {})),
        )

    def _named_rules(self, kind: str, table: object) -> dict[str, Rules]:
        if not isinstance(table, dict):
            raise self._error((kind,), "is no table")
        return {name: self._rules((kind, name), rules) for name, rules in table.items()}

    def _rules(self, keys: Keys, table: object) -> Rules:
        if not isinstance(table, dict):
            raise self._error(keys, "is no table")
        for key, rules in table.items():
            if key not in _ACTIONS:
                raise self._error((*keys, key), f"is none of {', '.join(_ACTIONS)}")
            if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
                raise self._error((*keys, key), "is no list of texts")
        try:
            return Rules(**{key: tuple(rules) for key, rules in table.items()})
        except RuleError as error:
            why = f"{error.value!r} {error.why}"
            raise self._error((*keys, error.action), why, error.value) from error

    def _error(self, keys: Keys, why: str, value: str | None = None) -> AccessFileError:
        line = KeyLines(self._text).first(".".join((*self._section, *keys)), value or "")
        return AccessFileError(self._file, line, f"{'.'.join(keys)}: {why}")
