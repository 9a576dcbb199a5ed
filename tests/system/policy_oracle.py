"""A policy as data, as the file that says the same, and what follows from it.

What follows is worked out here a second time, from what docs/access.md says, and not by asking
the product: in the plainest way, however long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ALLOW, DENY = "allow", "deny"
READS, WRITES = ("GET",), ("PUT", "POST")
NAMELESS = ("local", "stranger")
PLACES = {"gw-a": "campus/north/gw-a", "gw-b": "campus/south/gw-b"}
PUBLIC = ("/.well-known/core", "/q", "/sensors")
VOUCHED = {"gw-a": ("operator", "valves")}
INCLUDES = {
    "operator": ("reader",),
    "admin": ("operator",),
    "valves": ("reader",),
    "limited": ("admin",),
}
NAMES = ("nobody", "device", "reader", "operator", "admin", "valves", "limited")
"""Principals, each of every kind, and the one role that they have; ``nobody`` has none."""


@dataclass(frozen=True)
class Line:
    """A rule that stands in the file.

    Attributes:
        who: a role, a principal or ``*``.
        effect: `ALLOW` or `DENY`.
        verb: as in the file.
        target: as in the file.
        at: the place; empty for all.

    """

    who: str
    effect: str
    verb: str
    target: str = ""
    at: str = ""


OF_ROLES = (
    Line("valves", ALLOW, "PUT", "/sensors/valve"),
    Line("valves", ALLOW, "publish", "water/#"),
    Line("limited", DENY, "publish", "secret/#"),
    Line("limited", DENY, "subscribe", "secret/#"),
    Line("limited", DENY, "drain"),
    Line("limited", DENY, "console", "/#"),
)
OF_ALL = (
    Line("operator", DENY, "PUT", "/sensors/valve", "campus/south"),
    Line("psk:device", ALLOW, "PUT", "/sensors/valve", "campus/south/gw-b"),
    Line("oscore:reader", DENY, "GET", "/rd-lookup/#"),
    Line("valves", DENY, "publish", "water/#", "campus/south"),
    Line("cert:operator", DENY, "clients"),
    Line("cert:device", ALLOW, "GET", "/status", "campus/south"),
    Line("stranger", ALLOW, "GET", "/rd-lookup/ep"),
    Line("*", DENY, "GET", "/sensors/secret"),
    Line("*", DENY, "subscribe", "hidden/#"),
)


def file() -> str:
    """The policy as TOML; certificates name their roles themselves."""
    text = 'version = 1\n[principals]\n"cert:nobody" = []\n'
    for name in NAMES:
        roles = "[]" if name == "nobody" else f'["{name}"]'
        text += "".join(
            f'"{kind}:{name}" = {roles}\n' for kind in ("psk", "oscore", "user", "console")
        )
    for role in ("valves", "limited"):
        text += f"[roles.{role}]\nincludes = {list(INCLUDES[role])!r}\n"
        for effect in (ALLOW, DENY):
            rules = [
                f"{one.verb} {one.target}".strip()
                for one in OF_ROLES
                if (one.who, one.effect) == (role, effect)
            ]
            text += f"{effect} = {rules!r}\n"
    for one in OF_ALL:
        at = f"at = ['{one.at}']\n" if one.at else ""
        rule = f"{one.verb} {one.target}".strip()
        text += f"[[rules]]\nwho = ['{one.who}']\n{at}{one.effect} = ['{rule}']\n"
    vouched = "".join(f"{who} = {list(roles)!r}\n" for who, roles in VOUCHED.items())
    return f"{text}[vouch]\n{vouched}"


def may(kind: str, name: str, verb: str, target: str, gateway: str, via: str = "") -> bool:
    """Return whether somebody may do something.

    Args:
        kind: of proof.
        name: empty for `NAMELESS`.
        verb: as in the file.
        target: topic, filter or path.
        gateway: where it is done.
        via: the gateway that it comes through; empty for none.

    """
    own = {"local": {"on-site"}, "stranger": set[str]()}.get(kind, {name} - {"nobody"})
    if not via:
        return _allowed(kind, name, _with_included(own), verb, target, gateway, is_named=True)
    at_entry = _allowed(kind, name, _with_included(own), verb, target, gateway, is_named=True)
    opens_way = verb in READS and not _is_denied(
        kind, name, _with_included(own), verb, target, gateway
    )  # strangers may ask for anything behind /q; the other gateway decides
    had = _with_included(own) & _with_included(set(VOUCHED[via]))
    roles = {"gateway"} if kind == "local" else had
    is_so_there = _allowed(kind, name, roles, verb, target, gateway, is_named=kind in NAMELESS)
    return (at_entry or opens_way) and is_so_there


def _allowed(
    kind: str, name: str, roles: set[str], verb: str, target: str, gateway: str, *, is_named: bool
) -> bool:
    if _is_denied(kind, name, roles, verb, target, gateway):
        return False
    if verb in READS and any(target == p or target.startswith(f"{p}/") for p in PUBLIC):
        return True
    who = {"*", *roles, *(_texts(kind, name) if is_named else ())}
    by_line = any(
        _is_about(line, verb, target, gateway)
        for line in (*OF_ROLES, *OF_ALL)
        if line.effect == ALLOW and line.who in who
    )
    return by_line or any(_built_in(role, verb, target, name) for role in roles)


def _is_denied(kind: str, name: str, roles: set[str], verb: str, target: str, gateway: str) -> bool:
    who = {"*", *roles, *_texts(kind, name)}
    verbs = {verb, "subscribe"} if verb == "deliver" else {verb}
    return any(
        _is_about(line, one, target, gateway)
        for line in (*OF_ROLES, *OF_ALL)
        for one in verbs
        if line.effect == DENY and line.who in who
    )


def _texts(kind: str, name: str) -> set[str]:
    return {f"{kind}:{name}"} if name else {kind}


def _with_included(roles: set[str]) -> set[str]:
    found = set(roles)
    for role in roles:
        found |= _with_included(set(INCLUDES.get(role, ())))
    return found


def _is_about(line: Line, verb: str, target: str, gateway: str) -> bool:
    return (
        line.verb == verb
        and f"{PLACES[gateway]}/".startswith(f"{line.at}/" if line.at else "")
        and _covers(line.target, target)
    )


def _covers(rule: str, target: str) -> bool:
    """Return whether a rule's target covers a topic, a path or a filter."""
    if rule.endswith("#"):
        return target.startswith(rule[:-1]) or target == rule[:-2]
    return rule == target


def _built_in(role: str, verb: str, target: str, name: str) -> bool:
    """The table of roles in docs/access.md, without what is included."""
    match role:
        case "gateway":
            return verb in READS and target == "/status"
        case "device":
            if verb in ("publish", "subscribe", "deliver"):
                levels = target.split("/")
                return name in levels[:4] and len(levels) > levels.index(name)
            return (verb, target) in {
                ("GET", "/.well-known/core"),
                ("GET", "/rd-lookup/ep"),
                ("POST", "/rd"),
            }
        case "reader":
            return verb in (*READS, "subscribe", "deliver", "console")
        case "operator":
            return verb in (*WRITES, "publish", "clients")
        case "admin":
            return True
        case "on-site":
            return verb in (*READS, "console", "clients")
    return False


def everybody() -> Iterator[tuple[str, str]]:
    """Kinds and names of those who ask over CoAP."""
    for name in NAMES:
        yield "psk", name
        yield "oscore", name
        yield "cert", name
    yield "local", ""
    yield "stranger", ""
