"""A policy without a version as a TOML file, or as a section of one; errors name file and line.

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

from collections.abc import Mapping
from typing import Any

from gateway.base.toml.toml_lines import KeyLines
from gateway.trust.policy.document import parse_toml
from gateway.trust.policy.faults import AccessFileError, hold
from gateway.trust.policy.older import LISTS, AccessPolicy, Rules
from gateway.trust.policy.targets import RuleError

Keys = tuple[str, ...]


def parse_policy(text: str, file: str, section: Keys = ()) -> AccessPolicy:
    """Read a policy.

    Args:
        text: a TOML document.
        file: its name, for errors.
        section: where in the document the policy is, such as ``("access", "policy")``.

    Raises:
        AccessFileError: no TOML, no such section, an unknown key, a value that is no list of
            texts, or a rule that is wrong; it holds them all.

    """
    table: Any = parse_toml(text, file)
    for depth, key in enumerate(section, 1):
        table = table.get(key)
        if not isinstance(table, dict):
            line = 0 if table is None else KeyLines(text).first(".".join(section[:depth]))
            raise AccessFileError(file, line, f"no section [{'.'.join(section)}]")
    reader = _Reader(text, file, section)
    policy = reader.policy(table)
    hold(sorted(reader.faults, key=lambda fault: fault.line))
    return policy


class _Reader:
    """Builds the policy, without what is wrong; knows the text, to find a fault's line in it."""

    def __init__(self, text: str, file: str, section: Keys) -> None:
        self.faults: list[AccessFileError] = []
        self._text = text
        self._found: KeyLines | None = None
        self._file = file
        self._section = section

    def policy(self, table: Mapping[str, Any]) -> AccessPolicy:
        for key in table:
            if key not in ("default", "roles", "users"):
                self._note((key,), "is none of default, roles and users")
        return AccessPolicy(
            self._rules(("default",), table.get("default", {})),
            self._named_rules("roles", table.get("roles", {})),
            self._named_rules("users", table.get("users", {})),
        )

    def _named_rules(self, kind: str, table: object) -> dict[str, Rules]:
        if not isinstance(table, dict):
            self._note((kind,), "is no table")
            return {}
        return {name: self._rules((kind, name), rules) for name, rules in table.items()}

    def _rules(self, keys: Keys, table: object) -> Rules:
        if not isinstance(table, dict):
            self._note(keys, "is no table")
            return Rules()
        right: dict[str, tuple[str, ...]] = {}
        for key, rules in table.items():
            if key not in LISTS:
                self._note((*keys, key), f"is none of {', '.join(LISTS)}")
            elif not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
                self._note((*keys, key), "is no list of texts")
            else:
                right[key] = tuple(rule for rule in rules if self._is_right(keys, key, rule))
        return Rules(**right)

    def _is_right(self, keys: Keys, action: str, rule: str) -> bool:
        try:
            Rules(**{action: (rule,)})
        except RuleError as error:
            self._note((*keys, action), f"{rule!r} {error.why}", rule)
            return False
        return True

    def _lines(self) -> KeyLines:
        if self._found is None:  # of a policy that is right nobody asks
            self._found = KeyLines(self._text)
        return self._found

    def _note(self, keys: Keys, why: str, value: str = "") -> None:
        line = self._lines().first(".".join((*self._section, *keys)), value)
        self.faults.append(AccessFileError(self._file, line, f"{'.'.join(keys)}: {why}"))
