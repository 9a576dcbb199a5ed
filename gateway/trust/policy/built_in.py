"""The roles that every gateway knows, whatever its policy file says.

A file may give a role of the same name other rules; those here do not hold then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.trust.policy.action import (
    CLIENTS,
    CONSOLE,
    PATH_VERBS,
    PUBLISH,
    READS,
    RIGHTS,
    SUBSCRIBE,
    TOPIC_VERBS,
    WRITES,
)
from gateway.trust.policy.principal import GATEWAY as GATEWAY_KIND
from gateway.trust.policy.principal import LOCAL
from gateway.trust.policy.rule import ALLOW, ANY_NAME, Rule
from light_dataclasses import dataclass

GATEWAY: Final = "gateway"
COLLECTOR: Final = "collector"
DEVICE: Final = "device"
READER: Final = "reader"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"
ON_SITE: Final = "on-site"
"""The role of somebody on the gateway's own machine who shows nothing else."""

PLACE: Final = "built-in role"
"""The place of their rules."""
OWN_DEPTH: Final = 3
"""So many levels a device's own topics may have above its name: domain, group and gateway."""
_OWN = tuple("+/" * depth + "%u/#" for depth in range(OWN_DEPTH + 1))
_Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PolicyRole:
    """A role.

    Attributes:
        includes: roles whose rights it has besides.
        rules: its own.

    """

    includes: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


def _role(name: str, rows: _Rows, *includes: str) -> PolicyRole:
    place = f"{PLACE} {name}"
    return PolicyRole(includes, tuple(Rule(ALLOW, verb, to, name, (), place) for verb, to in rows))


def _all(verbs: tuple[str, ...], *targets: str) -> _Rows:
    return tuple((verb, target) for verb in verbs for target in targets)


_READING = (SUBSCRIBE, "deliver")
_STATUS = _all(READS, "/status")

ROLES: Final[Mapping[str, PolicyRole]] = {
    GATEWAY: _role(GATEWAY, _STATUS),
    COLLECTOR: _role(COLLECTOR, _STATUS),
    DEVICE: _role(
        DEVICE,
        _all((PUBLISH, *_READING), *_OWN)
        + _all(READS, "/.well-known/core", "/rd-lookup/#")
        + _all(("POST",), "/rd", "/rd/+", "/.well-known/rd")
        + _all(("PUT", "DELETE", *READS), "/rd/+"),
    ),
    READER: _role(READER, _all(_READING, "#", "$SYS/#") + _all(READS, "/#") + ((CONSOLE, "/#"),)),
    OPERATOR: _role(OPERATOR, ((PUBLISH, "#"), (CLIENTS, ""), *_all(WRITES, "/#")), READER),
    ADMIN: _role(
        ADMIN,
        _all(TOPIC_VERBS, "#") + _all(PATH_VERBS, "/#") + tuple((right, "") for right in RIGHTS),
        OPERATOR,
    ),
    ON_SITE: _role(ON_SITE, (*_all(READS, "/#"), (CONSOLE, "/#"), (CLIENTS, ""))),
}
"""By name."""

ASSIGNED: Final[Mapping[str, frozenset[str]]] = {LOCAL: frozenset({ON_SITE})}
"""The roles of all principals of a kind, where the file does not say otherwise."""
OF_GATEWAYS: Final = Rule(
    ALLOW, PUBLISH, "+/+/%u/#", f"{GATEWAY_KIND}:{ANY_NAME}", (), "its own topics"
)
"""The topics of its own that each gateway may publish."""
VOUCHED: Final = frozenset({READER})
"""The roles that any gateway may vouch for, where the file does not say otherwise."""
