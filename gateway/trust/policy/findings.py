"""Oddities of a policy that is right: roles that nobody has, rules that never decide."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.trust.policy import built_in
from gateway.trust.policy.action import RIGHTS, TOPIC_VERBS
from gateway.trust.policy.policy import PolicyRules
from gateway.trust.policy.rule import ALLOW, EVERYBODY, Rule
from light_dataclasses import dataclass
from tree_handler.routing.topic_filters import covers


@dataclass(frozen=True, slots=True)
class Finding:
    """Something odd.

    Attributes:
        place: where, as ``FILE:LINE: KEY``.
        what: one sentence.

    """

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def findings(told: PolicyRules, file: str) -> list[Finding]:
    """Return all that is odd.

    Args:
        told: the policy.
        file: its name.

    """
    found = [*_without_version(told, file), *_roles_of_nobody(told, file)]
    for rules in _together(told):
        found += _never_reached(rules)
    return list(dict.fromkeys(found))


def _without_version(told: PolicyRules, file: str) -> Iterator[Finding]:
    if not told.is_versioned:
        yield Finding(file, "has no version: it says nothing of CoAP, keys and the console")


def _roles_of_nobody(told: PolicyRules, file: str) -> Iterator[Finding]:
    had = set(told.default_roles).union(*told.assigned.values(), *told.vouched.values())
    ahead = list(had)
    while ahead:
        role = told.roles.get(ahead.pop())
        for name in role.includes if role is not None else ():
            if name not in had:
                had.add(name)
                ahead.append(name)
    for name, role in told.roles.items():
        if role is not built_in.ROLES.get(name) and name not in had and told.is_versioned:
            what = "nobody has this role, but for certificates that name it"
            yield Finding(f"{file}: roles.{name}", what)
    named = {rule.who: rule for rule in told.rules if rule.who in told.roles}
    for name, rule in named.items():
        if name not in had:
            yield Finding(rule.place, f"nobody has the role {name}, but certificates that name it")


def _together(told: PolicyRules) -> Iterator[list[Rule]]:
    """Yield rules that are for the same ones at the same gateways, those for everybody among
    them."""
    every = [*told.rules, *(rule for role in told.roles.values() for rule in role.rules)]
    for who, at in dict.fromkeys((rule.who, rule.at) for rule in every):
        yield [rule for rule in every if rule.who in (who, EVERYBODY) and rule.at in (at, ())]


def _never_reached(rules: list[Rule]) -> Iterator[Finding]:
    for number, rule in enumerate(rules):
        if rule.effect != ALLOW or rule.place.startswith(built_in.PLACE):
            continue
        denying = (each for each in rules if each.effect != ALLOW)
        wider = (r for r in rules[:number] if r.effect == ALLOW and r.place != rule.place)
        for other in (*denying, *wider):
            if _is_within(rule, other):
                yield Finding(rule.place, f"{_text(rule)} is never reached: {other}")
                break


def _is_within(rule: Rule, other: Rule) -> bool:
    """Return whether all that a rule is about another one is about, too."""
    if other.at not in ((), rule.at):
        return False
    if rule.verb in RIGHTS:
        return other.verb == rule.verb
    is_read = rule.verb in TOPIC_VERBS[1:] and other.effect != ALLOW
    if other.verb != rule.verb and not (is_read and other.verb == TOPIC_VERBS[1]):
        return False
    return covers(other.target, rule.target)


def _text(rule: Rule) -> str:
    return f"{rule.verb} {rule.target}".rstrip()
