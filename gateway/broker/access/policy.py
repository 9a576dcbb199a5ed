"""Who may publish, subscribe and receive what, decided from a policy's rules.

A rule is a topic filter in a list: of ``publish``, of ``subscribe`` or of ``deliver``. Rules
only ever allow; what none allows is denied. A client has the rules of everyone (``default``),
of its roles and of its user together. The one exception is the list ``conceal``: what it matches
can't be read, whatever other rules say.

A subscription is allowed if one rule covers all of its filter, so nobody gets by a wildcard
what the rules do not give. Each delivery is checked by its topic besides. Where a section has
no ``deliver`` rules, its ``subscribe`` rules stand for them.

Topics that start with ``$`` are the broker's and the tree's own: no rule opens them, but that
``$SYS`` may be read where a rule names it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.broker.access.rules import RuleError, Rules, fill_in, is_readable
from gateway.mqtt import FilterError, check_topic_filter
from tree_handler.routing.topic_filters import covers, matches, proper

__all__ = [
    "AccessControl",
    "AccessPolicy",
    "ClientAccess",
    "Principal",
    "RuleError",
    "Rules",
]

PRINCIPALS_MAX = 1_000
DECISIONS_MAX = 256
"""Remembered decisions on what one principal may receive."""
_REMEMBERED_CHARACTERS = 256
"""Decisions on longer topics are made anew each time: a client chooses how long its topics are."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a client is, once it is authenticated.

    Attributes:
        client_id: as the client chose it or the broker assigned it; by itself it proves nothing.
        user: the user name that was authenticated, None for an anonymous client.
        roles: what its credential says it is.

    """

    client_id: str
    user: str | None = None
    roles: frozenset[str] = frozenset()


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

    def client_access(
        self, principal: Principal, decisions_max: int = DECISIONS_MAX
    ) -> ClientAccess:
        """What one client may do, placeholders filled in."""
        user, client_id = principal.user, principal.client_id
        sections = [self.default]
        sections += [self.roles[role] for role in sorted(principal.roles) if role in self.roles]
        if principal.user is not None and principal.user in self.users:
            sections.append(self.users[principal.user])
        return ClientAccess(
            fill_in((rule for rules in sections for rule in rules.publish), user, client_id),
            fill_in((rule for rules in sections for rule in rules.subscribe), user, client_id),
            fill_in((rule for rules in sections for rule in rules.received), user, client_id),
            decisions_max,
            tuple(rule for rules in sections for rule in rules.conceal),
        )


class AccessControl:
    """A policy in use: what each principal may do, kept for those that came last.

    Args:
        policy: the rules.
        principals_max: so many principals' decisions are remembered.

    """

    __slots__ = ("_policy", "_principals", "_principals_max")

    def __init__(self, policy: AccessPolicy, principals_max: int = PRINCIPALS_MAX) -> None:
        self._policy = policy
        self._principals_max = principals_max
        self._principals: OrderedDict[Principal, ClientAccess] = OrderedDict()

    def of(self, principal: Principal) -> ClientAccess:
        """What a principal may do."""
        access = self._principals.get(principal)
        if access is None:
            access = self._policy.client_access(principal)
            if len(self._principals) >= self._principals_max:
                self._principals.popitem(last=False)
            self._principals[principal] = access
        else:
            self._principals.move_to_end(principal)
        return access


class ClientAccess:
    """What one client may do, with decisions on what it may receive remembered.

    Args:
        publish: filters of topics that it may publish to.
        subscribe: filters that cover what it may subscribe to.
        deliver: filters of topics that it may receive.
        decisions_max: how many decisions on topics that it may receive are remembered.
        conceal: filters of topics that it can't read all the same.

    """

    __slots__ = (
        "_conceal",
        "_decisions_max",
        "_deliver",
        "_delivered",
        "_publish",
        "_subscribe",
    )

    def __init__(
        self,
        publish: tuple[str, ...],
        subscribe: tuple[str, ...],
        deliver: tuple[str, ...],
        decisions_max: int = DECISIONS_MAX,
        conceal: tuple[str, ...] = (),
    ) -> None:
        self._conceal = conceal
        self._publish = publish
        self._subscribe = subscribe
        self._deliver = deliver
        self._decisions_max = decisions_max
        self._delivered: dict[str, bool] = {}

    def may_publish(self, topic: str) -> bool:
        """Whether it may publish to a topic, its will's topic included.

        It is not remembered here, but for each connection (`inbound.publisher`).
        """
        return topic[:1] != "$" and _any_matches(self._publish, topic)

    def may_receive(self, topic: str) -> bool:
        """Whether a message of a topic, retained or not, may be delivered to it."""
        decision = self._delivered.get(topic)
        if decision is None:
            decision = (
                is_readable(topic)
                and _any_matches(self._deliver, topic)
                and not _any_matches(self._conceal, topic)
            )
            if len(topic) <= _REMEMBERED_CHARACTERS:
                if len(self._delivered) >= self._decisions_max:
                    self._delivered.clear()
                self._delivered[topic] = decision
        return decision

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether it may subscribe to a filter, shared or not; False for one that is malformed."""
        try:
            wanted = proper(check_topic_filter(topic_filter))
        except FilterError:
            return False
        return (
            is_readable(wanted)
            and any(covers(rule, wanted) for rule in self._subscribe)
            and not self.is_concealed(wanted)
        )

    def is_concealed(self, topic_filter: str) -> bool:
        """Whether all that a filter, which is not shared, matches is concealed from it.

        A wider filter may be subscribed to; what is concealed is then not delivered.
        """
        return any(covers(rule, topic_filter) for rule in self._conceal)


def _any_matches(rules: Iterable[str], topic: str) -> bool:
    return any(matches(rule, topic) for rule in rules)
