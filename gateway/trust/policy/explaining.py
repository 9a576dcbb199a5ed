"""Explanation of a decision: which roles somebody has, and which rule decides. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.trust.policy.action import TOPIC_VERBS, Action, ActionPlace
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import GATEWAY, Principal
from gateway.trust.policy.rule import ANY_NAME, EVERYBODY, Decision
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a gateway.

    Attributes:
        topics: over MQTT.
        others: for all else.

    """

    topics: Policy
    others: Policy

    def of(self, action: Action) -> Policy:
        """Return the one that decides on an action."""
        return self.topics if action.verb in TOPIC_VERBS else self.others


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer.

    Attributes:
        principal: who it is about, with its roles.
        why_roles: what gives it those.
        action: what it would do.
        decision: whether it may.

    """

    principal: Principal
    why_roles: str
    action: Action
    decision: Decision

    @property
    def why(self) -> str:
        """The rule that decides, or why there is none."""
        return str(self.decision.rule or self.decision.why or "no rule allows it")

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "principal": str(self.principal),
            "roles": sorted(self.principal.roles),
            "action": str(self.action),
            "allowed": self.decision.is_allowed,
            "why": self.why,
        }


def explain(
    policies: Policies,
    who: str,
    action: str,
    where: ActionPlace,
    *,
    client_id: str = "",
    roles: Sequence[str] = (),
    via: str = "",
) -> Explanation:
    """Say whether somebody may do something, and why.

    Args:
        policies: decide.
        who: the text of a principal.
        action: as `Action.parse` reads it.
        where: at which gateway.
        client_id: over MQTT, how the client calls itself.
        roles: of its certificate.
        via: the gateway that vouches for it; empty for none.

    Raises:
        PrincipalError: ``who`` is none.
        ActionError: ``action`` is none.

    """
    named = Principal.parse(who)
    wanted = Action.parse(action, where, client_id)
    policy = policies.of(wanted)
    principal = policy.principal(named.kind, named.name, frozenset(roles))
    why = _why_roles(policy.told, principal, roles)
    if via:
        principal = policy.vouched(principal, via)
        why = f"what {via} may vouch for"
    return Explanation(principal, why, wanted, policy.may(principal, wanted))


def _why_roles(told: PolicyRules, principal: Principal, claimed: Sequence[str]) -> str:
    if principal.kind == GATEWAY:
        return "what it may vouch for"
    found = ["of its certificate"] if claimed else []
    if str(principal) in told.assigned:
        found.append(f'principals."{principal}"')
    if found:
        return " and ".join(found)
    if not principal.name:
        return "built in" if principal.roles else "nobody gives it any"
    for text in (f"{principal.kind}:{ANY_NAME}", EVERYBODY):
        if text in told.assigned:
            return f'principals."{text}"'
    return "access.default_roles"
