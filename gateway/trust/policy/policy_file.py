"""The policy as a TOML file; every error names file, line and key.

::

    version = 1

    [principals]                      # who has which roles
    "psk:thermometer" = ["device"]
    "user:*" = ["reader"]             # users that are not named

    [roles.irrigation]                # a role of one's own
    includes = ["reader"]
    allow = ["PUT /sensors/valve", "publish campus/water/#"]

    [[rules]]                         # for several roles or principals, or some gateways alone
    who = ["irrigation", "user:bob"]
    at = ["campus/north"]
    deny = ["write /sensors/pump"]

    [vouch]                           # what other gateways may say that their peers are
    "*" = ["operator"]

A file without a version is one of `gateway.trust.policy.older_file`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gateway.base.toml.toml_lines import KeyLines
from gateway.trust.policy import built_in
from gateway.trust.policy.action import DELIVER, READS, RIGHTS, SUBSCRIBE, VERBS, WRITES
from gateway.trust.policy.built_in import PolicyRole
from gateway.trust.policy.document import parse_toml
from gateway.trust.policy.faults import AccessFileError, hold
from gateway.trust.policy.policy import PolicyRules
from gateway.trust.policy.principal import (
    GATEWAY,
    NAMED,
    NAMELESS,
    NO_ROLES,
    Principal,
    PrincipalError,
)
from gateway.trust.policy.rule import ALLOW, CONCEAL, DENY, EVERYBODY, Rule
from gateway.trust.policy.targets import RuleError, check_target

VERSION = 1
_KEYS = ("version", "principals", "roles", "rules", "vouch")
_EFFECTS = (ALLOW, DENY, CONCEAL)
_GROUPS: Mapping[str, tuple[str, ...]] = {"read": READS, "write": WRITES}
"""Words for several methods."""
_ROLE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PLACE = re.compile(r"(?:[a-z0-9-]+|\+)(?:/(?:[a-z0-9-]+|\+)){0,2}")


def parse(text: str, file: str, default_roles: frozenset[str] = NO_ROLES) -> PolicyRules:
    """Read a policy.

    Args:
        text: a TOML document.
        file: its name, for errors.
        default_roles: of who has proof and is given no role.

    Raises:
        AccessFileError: no TOML, an unknown key or version, or a rule that is wrong; it holds
            them all.

    """
    table = parse_toml(text, file)
    if "version" in table:
        reader = _Reader(text, file)
        told = reader.policy(table, default_roles)
        hold(sorted(reader.faults, key=lambda fault: fault.line))
        return told
    for key in _KEYS:
        if key in table and key != "roles":
            line = KeyLines(text).first(key)
            raise AccessFileError(file, line, f"version: missing, and {key!r} needs version = 1")
    from gateway.trust.policy.older_file import parse_policy  # noqa: PLC0415  # few have such a file

    return parse_policy(text, file).told(file, default_roles)


class _Reader:
    """Builds the policy, without what is wrong; knows the text, to find a fault's line in it."""

    def __init__(self, text: str, file: str) -> None:
        self.faults: list[AccessFileError] = []
        self._lines = KeyLines(text)
        self._file = file

    def policy(self, table: Mapping[str, Any], default_roles: frozenset[str]) -> PolicyRules:
        """Return what a document says."""
        if table["version"] != VERSION or isinstance(table["version"], bool):
            self._note("version", f"{table['version']!r} is not {VERSION}, the one that is known")
        for key in table:
            if key not in _KEYS:
                self._note(key, f"is none of {', '.join(_KEYS)}")
        roles = {**built_in.ROLES, **dict(self._roles(table.get("roles", {})))}
        rules = table.get("rules", [])
        told = PolicyRules(
            roles,
            tuple(self._rules(rules, roles)),
            dict(self._assigned("principals", table.get("principals", {}), _is_subject)),
            dict(self._assigned("vouch", table.get("vouch", {}), _is_gateway)),
            default_roles,
        )
        self._check_names(table, roles)
        return told

    def _roles(self, table: object) -> Iterator[tuple[str, PolicyRole]]:
        for name, inner in self._tables("roles", table):
            where = f"roles.{name}"
            if _ROLE.fullmatch(name) is None or name in NAMELESS:
                self._note(where, "is no name of a role: lower-case letters, digits and hyphens")
            for key in inner:
                if key not in ("includes", *_EFFECTS):
                    self._note(f"{where}.{key}", f"is none of includes, {', '.join(_EFFECTS)}")
            includes = tuple(self._texts(f"{where}.includes", inner.get("includes", [])))
            rules = [rule for effect in _EFFECTS for rule in self._list(where, inner, effect, name)]
            yield name, PolicyRole(includes, tuple(rules))

    def _rules(self, tables: object, roles: Mapping[str, PolicyRole]) -> Iterator[Rule]:
        if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            self._note("rules", "is no array of tables: [[rules]]")
            return
        for number, table in enumerate(tables):
            where = f"rules[{number}]"
            for key in table:
                if key not in ("who", "at", *_EFFECTS):
                    self._note(f"{where}.{key}", f"is none of who, at, {', '.join(_EFFECTS)}")
            if not table.get("who"):
                self._note(f"{where}.who", "missing: roles, principals, or '*'")
            at = tuple(self._texts(f"{where}.at", table.get("at", [])))
            for place in at:
                if _PLACE.fullmatch(place) is None:
                    why = "is not DOMAIN, DOMAIN/GROUP or DOMAIN/GROUP/GATEWAY"
                    self._note(f"{where}.at", f"{place!r} {why}", place)
            for who in self._texts(f"{where}.who", table.get("who", [])):
                if who not in roles and not _is_subject(who):
                    self._note(f"{where}.who", f"{who!r} is no role here, and no principal", who)
                for effect in _EFFECTS:
                    yield from self._list(where, table, effect, who, at)

    def _list(
        self, where: str, table: Mapping[str, Any], effect: str, who: str, at: tuple[str, ...] = ()
    ) -> Iterator[Rule]:
        """Yield the rules of one list; what may be subscribed to may be received unless it says
        what."""
        key = f"{where}.{effect}"
        texts = list(self._texts(key, table.get(effect, [])))
        delivers = any(text.startswith(f"{DELIVER} ") for text in texts)
        for number, text in enumerate(texts):
            line = self._lines.first(f"{key}[{number}]")
            place = f"{self._file}:{line}: {key}"
            for verb, target in self._parts(key, effect, text):
                yield Rule(effect, verb, target, who, at, place)
                if verb == SUBSCRIBE and effect == ALLOW and not delivers:
                    yield Rule(effect, DELIVER, target, who, at, place)

    def _parts(self, key: str, effect: str, text: str) -> Iterator[tuple[str, str]]:
        word, _, target = (SUBSCRIBE, "", text) if effect == CONCEAL else text.partition(" ")
        target = target.strip()
        verbs = _GROUPS.get(word, (word,))
        if verbs[0] not in VERBS:
            known = ", ".join((*VERBS, *_GROUPS))
            self._note(key, f"{text!r} begins with none of {known}", text)
            return
        if verbs[0] not in RIGHTS and not target:
            self._note(key, f"{text!r} has no topic or path", text)
            return
        try:
            check_target(verbs[0], target, takes_away=effect != ALLOW)
        except RuleError as error:
            self._note(key, f"{text!r} {error.why}", text)
            return
        for verb in verbs:
            yield verb, target

    def _assigned(
        self, key: str, table: object, is_right: Callable[[str], bool]
    ) -> Iterator[tuple[str, frozenset[str]]]:
        if not isinstance(table, dict):
            self._note(key, "is no table")
            return
        for name, roles in table.items():
            where = f"{key}.{name}"
            if is_right is _is_subject and name.startswith(f"{GATEWAY}:"):
                self._note(where, "gateways have the roles that [vouch] gives them")
            if not is_right(name):
                wanted = _SUBJECTS if is_right is _is_subject else "a gateway's id or '*'"
                self._note(where, f"is none of {wanted}")
            yield name, frozenset(self._texts(where, roles))

    def _check_names(self, table: Mapping[str, Any], roles: Mapping[str, PolicyRole]) -> None:
        """Refuse roles that there are not; one that only certificates have needs a table, too."""
        lists = [
            *((f"principals.{name}", given) for name, given in _items(table.get("principals"))),
            *((f"vouch.{name}", given) for name, given in _items(table.get("vouch"))),
            *(
                (f"roles.{n}.includes", dict(_items(r)).get("includes"))
                for n, r in _items(table.get("roles"))
            ),
        ]
        for where, names in lists:
            for name in names if isinstance(names, list) else ():
                if isinstance(name, str) and name not in roles:
                    self._note(where, f"there is no role {name!r}", name)

    def _tables(self, key: str, table: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if not isinstance(table, dict):
            self._note(key, "is no table")
            return
        for name, inner in table.items():
            if isinstance(inner, dict):
                yield name, inner
            else:
                self._note(f"{key}.{name}", "is no table")

    def _texts(self, where: str, value: object) -> Iterator[str]:
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            yield from value
        else:
            self._note(where, "is no list of texts")

    def _note(self, where: str, why: str, value: str = "") -> None:
        self.faults.append(
            AccessFileError(self._file, self._lines.first(where, value), f"{where}: {why}")
        )


_SUBJECTS = f"{', '.join(f'{kind}:NAME' for kind in NAMED)}, {', '.join(NAMELESS)}, KIND:* and *"


def _is_subject(text: str) -> bool:
    if text == EVERYBODY:
        return True
    try:
        Principal.parse(text)
    except PrincipalError:
        return False
    return True


def _is_gateway(text: str) -> bool:
    return text == EVERYBODY or _ROLE.fullmatch(text) is not None


def _items(table: object) -> Iterator[tuple[str, Any]]:
    yield from table.items() if isinstance(table, dict) else ()
