"""Entrance to the dashboard, and rights there: log-in, and the policy of gateways."""

from __future__ import annotations

from typing import Final

from gateway.broker.access.passwords import Passwords
from gateway.trust.policy.action import CONSOLE, Action, ActionPlace
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import Principal
from gateway.web.log_in import WebLogIn

PATH: Final = "/dashboard"
"""Of the page, in a policy: ``console /dashboard``."""
ACKNOWLEDGEMENTS: Final = "/dashboard/acknowledgements"
"""``POST /dashboard/acknowledgements``, which operators may, as they may write everywhere."""
THE_INGEST: Final = ActionPlace("$ingest", "$ingest", "$ingest")
"""The place of the job and the collectors: no gateway, so rules for some do not hold there."""


class Entrance:
    """Decides who comes in.

    Args:
        policy: says who may read and who may acknowledge.
        passwords: of the users; None where whoever is on this machine may look, by the role that
            the policy gives ``local``.

    Attributes:
        door: logs visitors in and out, and knows them.

    """

    def __init__(self, policy: Policy, passwords: Passwords | None) -> None:
        self.door = WebLogIn(policy, passwords, _may_read)

    def may_read(self, visitor: Principal) -> bool:
        """Return whether it may see the dashboard."""
        return self.door.may_enter(visitor)

    def may_acknowledge(self, visitor: Principal, where: ActionPlace | None = None) -> bool:
        """Return whether it may acknowledge alerts.

        Args:
            visitor: who.
            where: of which gateway; None for any.

        """
        policy = self.door.policy
        if where is None:
            return bool(policy.may(visitor, Action("POST", ACKNOWLEDGEMENTS)))
        return bool(policy.may(visitor, Action("POST", ACKNOWLEDGEMENTS, where)))


def _may_read(policy: Policy, visitor: Principal) -> bool:
    return bool(policy.may(visitor, Action(CONSOLE, PATH)))
