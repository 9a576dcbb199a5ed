"""Roles of users by the policy of one moment: worked out once for all who have the same.

There may be a thousand users and a handful of roles. What only follows from somebody's roles is
worked out for the first who has them. The rights of users who do nothing are not worked out: they
would push those of clients that do something out of the policy's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.base.in_turns import in_turns
from gateway.process.page.administration import Administration, GivenRoles
from gateway.trust.policy.action import CONFIGURE
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import CONSOLE, USER, Principal
from gateway.trust.policy.rule import ANY_NAME
from light_dataclasses import dataclass

WHAT: Final = "users"
"""The part of the page."""


@dataclass(frozen=True, slots=True)
class UserRoles:
    """The roles of a user.

    Attributes:
        console: with what they include, in order.
        mqtt: likewise, of its clients.
        beyond: those that the visitor may neither give nor take.

    """

    console: Sequence[str]
    mqtt: Sequence[str]
    beyond: frozenset[str]


class UserRolesSeen:
    """The roles of all users, as one visitor sees them.

    Args:
        policies: of one moment.
        visitor: who looks.

    """

    def __init__(self, policies: Policies, visitor: Principal) -> None:
        self._policies = policies
        self._given = GivenRoles(policies.others, visitor)
        self._of_alike: dict[tuple[frozenset[str], frozenset[str]], UserRoles] = {}

    def of(self, name: str) -> UserRoles:
        """Return a user's roles for pages and for MQTT, and those that the visitor may neither
        give nor take."""
        console = self._policies.others.principal(CONSOLE, name).roles
        mqtt = self._policies.topics.principal(USER, name).roles
        found = self._of_alike.get((console, mqtt))
        if found is None:
            all_console = self._policies.others.all_roles(console)
            all_mqtt = self._policies.topics.all_roles(mqtt)
            beyond = self._given.beyond(all_console | all_mqtt)
            found = UserRoles(sorted(all_console), sorted(all_mqtt), beyond)
            self._of_alike[console, mqtt] = found
        return found


def named_by(policy: Policy) -> frozenset[str]:
    """Return the users whom a policy names."""
    found = (who.partition(":") for who in policy.told.assigned)
    return frozenset(
        name for kind, _, name in found if kind in (CONSOLE, USER) and name != ANY_NAME
    )


async def administrators(
    names: Sequence[str], policy: Policy, administration: Administration
) -> frozenset[str]:
    """Return who of some users may change users; others have turns meanwhile.

    Args:
        names: of users who have a password.
        policy: of one moment.
        administration: decides by that.

    """
    found: list[str] = []
    decided: dict[frozenset[str], bool] = {}
    async for name in in_turns(names):
        user = policy.principal(CONSOLE, name)
        may = None if policy.goes_by_name(user, CONSOLE, CONFIGURE) else decided.get(user.roles)
        if may is None:
            may = administration.may_by(policy, user, WHAT)
            if not policy.goes_by_name(user, CONSOLE, CONFIGURE):
                decided[user.roles] = may
        if may:
            found.append(name)
    return frozenset(found)
