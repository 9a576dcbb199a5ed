"""One rule of a policy, and what is decided by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.trust.policy.action import ActionPlace
from gateway.trust.policy.principal import NAMELESS, Principal
from light_dataclasses import dataclass

ALLOW: Final = "allow"
DENY: Final = "deny"
CONCEAL: Final = "conceal"
"""Denies reading, without saying so."""

EVERYBODY: Final = "*"
"""The principal of a rule that is for all, strangers too."""
ANY_NAME: Final = "*"
PUBLIC: Final = "coap.public"
"""The place of rules that the configuration makes, for what anybody may read."""
DIRECTLY: Final = "="
"""Before a role: for who has that one, and not for who has one that includes it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, for one verb and one target.

    Attributes:
        effect: `ALLOW`, `DENY` or `CONCEAL`.
        verb: of `gateway.trust.policy.action.VERBS`.
        target: filter of topics, or of paths, with ``%u`` and ``%c``; empty for rights.
        who: a role, a principal's text, ``KIND:*`` or ``*``; see `DIRECTLY`.
        at: gateways as ``DOMAIN``, ``DOMAIN/GROUP`` or ``DOMAIN/GROUP/GATEWAY``, with ``+`` for
            any; all of them if there are none.
        place: where it stands, for people.

    """

    effect: str
    verb: str
    target: str
    who: str
    at: tuple[str, ...] = ()
    place: str = ""

    def holds_at(self, where: ActionPlace) -> bool:
        """Return whether it is one of a gateway's."""
        return not self.at or any(_is_in(place, where) for place in self.at)

    def is_for(self, principal: Principal, roles: frozenset[str]) -> bool:
        """Return whether it is one of a principal's.

        Of somebody for whom another gateway vouches that gateway alone knows the name: a name
        gives nothing then, and takes away all the same.

        Args:
            principal: whose.
            roles: the principal's, with all that they include.

        """
        if self.who == EVERYBODY or self.who in roles:
            return True
        if self.who[:1] == DIRECTLY:
            return self.who[1:] in principal.roles
        if principal.via and self.effect == ALLOW and principal.kind not in NAMELESS:
            return False
        return self.who in (str(principal), f"{principal.kind}:{ANY_NAME}")

    def __str__(self) -> str:
        what = f"{self.verb} {self.target}" if self.target else self.verb
        at = f" at {', '.join(self.at)}" if self.at else ""
        return f"{self.effect} {self.who}: {what}{at} ({self.place})"


@dataclass(frozen=True, slots=True)
class Decision:
    """The policy's decision on an action.

    Attributes:
        is_allowed: whether it may be done.
        rule: the rule that decided; None if there is none that allows it.
        why: what decided, if it is no rule.

    """

    is_allowed: bool
    rule: Rule | None = None
    why: str = ""

    @property
    def is_public(self) -> bool:
        """Return whether it may be done because anybody may, and for no other reason."""
        return self.is_allowed and self.rule is not None and self.rule.place == PUBLIC

    def __bool__(self) -> bool:
        return self.is_allowed

    def __str__(self) -> str:
        verdict = "allowed" if self.is_allowed else "denied"
        return f"{verdict}: {self.rule or self.why or 'no rule allows it'}"


def rules_for(rules: Iterable[Rule], principal: Principal, roles: frozenset[str]) -> list[Rule]:
    """Return those of the rules that are a principal's; see `Rule.is_for`."""
    return [rule for rule in rules if rule.is_for(principal, roles)]


def _is_in(place: str, where: ActionPlace) -> bool:
    parts = (where.domain or "-", where.group or "-", where.gateway)
    return all(wanted in ("+", part) for wanted, part in zip(place.split("/"), parts, strict=False))
