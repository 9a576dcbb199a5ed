"""Policies that many tests go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.coap.access import CoapAccess
from gateway.trust.policy.action import ActionPlace
from gateway.trust.policy.open_policy import OPEN
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.rule import Rule

ADMIN = frozenset({"admin"})
NORTH = ActionPlace("gw", "campus", "north")


def write(path: Path, **roles: str) -> None:
    """Write a policy file.

    Args:
        path: of the file.
        roles: by the name of a key or a user, whom it is given to over CoAP and MQTT.

    """
    rows = (
        f'"{kind}:{name}" = ["{role}"]\n'
        for name, role in roles.items()
        for kind in ("psk", "user")
    )
    path.write_text(f"version = 1\n[principals]\n{''.join(rows)}")


def open_access() -> CoapAccess:
    """Everybody may do everything."""
    return CoapAccess(Policy(OPEN))


def keys_may_all(public: Sequence[str] = ("/",)) -> CoapAccess:
    """Return rules by which holders of keys may do all, and strangers read what is public."""
    return CoapAccess(admins(public))


def admins(public: Sequence[str] = ("/",)) -> Policy:
    """The policy of `keys_may_all`."""
    return Policy(PolicyRules(default_roles=ADMIN, public=public), NORTH)


def access_of(
    assigned: Mapping[str, str] | None = None,
    rules: Sequence[Rule] = (),
    public: Sequence[str] = ("/",),
    here: ActionPlace = NORTH,
) -> CoapAccess:
    """Return rules by which each named principal has one role; all others read what is public.

    Args:
        assigned: a role by principal.
        rules: further ones.
        public: paths.
        here: the gateway.

    """
    roles = {who: frozenset({role}) for who, role in (assigned or {}).items()}
    return CoapAccess(Policy(PolicyRules(rules=rules, assigned=roles, public=public), here))
