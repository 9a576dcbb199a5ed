"""Administration of a gateway over the page: who may change its configuration and certificates."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from gateway.trust.policy.action import CONFIGURE, CONSOLE, Action
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError


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
            what: ``configuration`` or ``keys``.

        """
        policy = self._policies().others
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
