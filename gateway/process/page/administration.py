"""Administration of a gateway over the page: who may change its configuration and certificates."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from gateway.process.page.api_request import ApiRequest
from gateway.trust.policy.action import CONFIGURE, CONSOLE, RIGHTS, Action
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError

ADMINISTERED: Final = ("configuration", "keys", "users")
"""The parts of a page that are for administrators alone."""


class Administration:
    """Decides by the policy: it takes the right ``configure``, and the path of the page.

    Args:
        policies: decide; asked each time.

    """

    def __init__(self, policies: Callable[[], Policies]) -> None:
        self._policies = policies

    def may(self, visitor: Principal, what: str) -> bool:
        """Return whether a visitor may see and change something.

        Args:
            visitor: who asks.
            what: one of `ADMINISTERED`.

        """
        return self.may_by(self._policies().others, visitor, what)

    def may_by(self, policy: Policy, visitor: Principal, what: str) -> bool:
        """Return the same by a policy that was asked for before, for who asks about many."""
        return bool(
            visitor.name  # who is on a machine where nobody logs in has shown nothing
            and policy.may(visitor, Action(CONSOLE, f"/page/{what}", policy.here))
            and policy.may(visitor, Action(CONFIGURE, "", policy.here))
        )

    def check(self, visitor: Principal, what: str) -> None:
        """Check that a visitor has a right.

        Raises:
            ApiError: it may not.

        """
        if not self.may(visitor, what):
            why = f"this needs the right configure, and console /page/{what}"
            raise ApiError(HTTPStatus.FORBIDDEN, f"{visitor}: {why}")

    def check_again(self, asked: ApiRequest, what: str) -> None:
        """Check the same of a request that had to wait for its turn.

        Raises:
            ApiError: the visitor is logged out, has other roles, or may not any more.

        """
        asked.check_still_in()
        self.check(asked.visitor, what)


class GivenRoles:
    """The roles that a visitor may give and take: nobody makes itself more than it is.

    Who has all rights, as an admin does, gives and takes any; others what they have themselves.

    Args:
        policy: says so.
        visitor: who gives or takes.

    """

    def __init__(self, policy: Policy, visitor: Principal) -> None:
        has_all = (policy.may(visitor, Action(right, "", policy.here)) for right in RIGHTS)
        self._own = None if all(has_all) else policy.all_roles(visitor.roles)

    def beyond(self, roles: frozenset[str]) -> frozenset[str]:
        """Return those of somebody's roles that the visitor may neither give nor take.

        Args:
            roles: all that somebody has.

        """
        return frozenset() if self._own is None else roles - self._own
