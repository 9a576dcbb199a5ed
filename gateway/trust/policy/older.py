"""A policy without a version: sections of topic filters, for MQTT alone.

A rule is a topic filter in a list: of ``publish``, of ``subscribe`` or of ``deliver``. Rules only
ever allow; what none allows is denied. A client has the rules of everyone (``default``), of its
certificate's roles and of its user together. The one exception is the list ``conceal``: what it
matches can't be read, whatever other rules say. Where a section has no ``deliver`` rules, its
``subscribe`` rules stand for them.

Of CoAP and the console it says nothing: there the built-in roles hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from gateway.trust.policy import built_in
from gateway.trust.policy.action import DELIVER, PUBLISH, SUBSCRIBE, TOPIC_VERBS
from gateway.trust.policy.built_in import PolicyRole
from gateway.trust.policy.policy import PolicyRules
from gateway.trust.policy.principal import CERTIFICATE, NO_ROLES, USER
from gateway.trust.policy.rule import ALLOW, CONCEAL, DIRECTLY, EVERYBODY, Rule
from gateway.trust.policy.targets import check_target
from light_dataclasses import dataclass

LISTS = (PUBLISH, SUBSCRIBE, DELIVER, CONCEAL)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one section: topic filters, in which %u is the user and %c the client id.

    Attributes:
        publish: topics that may be published to.
        subscribe: filters that may be subscribed to, and all that they cover.
        deliver: topics that may be received; None for those of ``subscribe``.
        conceal: topics that may not be read whatever other rules say; without placeholders.

    Raises:
        RuleError: a rule is no topic filter, has an unknown placeholder or opens a ``$`` topic.

    """

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    deliver: tuple[str, ...] | None = None
    conceal: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in LISTS:
            for rule in getattr(self, name) or ():
                check_target(name, rule, takes_away=name == CONCEAL)

    @property
    def received(self) -> tuple[str, ...]:
        """The rules that a delivery is checked against."""
        return self.subscribe if self.deliver is None else self.deliver

    def rules(self, who: str, place: str) -> Iterator[Rule]:
        """Give the rules one by one.

        Args:
            who: they are for; see `Rule`.
            place: of the section.

        """
        for verb, targets in (
            (PUBLISH, self.publish),
            (SUBSCRIBE, self.subscribe),
            (DELIVER, self.received),
        ):
            for target in targets:
                yield Rule(ALLOW, verb, target, who, (), place)
        for target in self.conceal:
            yield Rule(CONCEAL, SUBSCRIBE, target, who, (), place)


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The rules of a gateway's broker.

    Attributes:
        default: rules of everyone.
        roles: further rules by role.
        users: further rules by user name.

    """

    default: Rules = field(default_factory=Rules)
    roles: Mapping[str, Rules] = field(default_factory=dict)
    users: Mapping[str, Rules] = field(default_factory=dict)

    def told(self, file: str = "", default_roles: frozenset[str] = NO_ROLES) -> PolicyRules:
        """Return the policy as rules of principals and roles.

        Args:
            file: where it stands.
            default_roles: of who has proof and is given no role; over CoAP and at the console.

        """
        rules = [*self.default.rules(EVERYBODY, f"{file}: default")]
        for name, section in self.users.items():
            for kind in (USER, CERTIFICATE):
                rules += section.rules(f"{kind}:{name}", f"{file}: users.{name}")
        for name, section in self.roles.items():
            rules += section.rules(f"{DIRECTLY}{name}", f"{file}: roles.{name}")
        roles = {
            name: PolicyRole(
                role.includes, tuple(r for r in role.rules if r.verb not in TOPIC_VERBS)
            )
            for name, role in built_in.ROLES.items()
        }
        return PolicyRules(roles, rules, default_roles=default_roles, is_versioned=False)
