"""The gateways of the fleet as an operator is told of them, and one that is gone taken out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from gateway.node.links.node import TreeNode
from gateway.node.members.membership import Members
from tree_handler.members.absence import AbsenceNotice
from tree_handler.members.hierarchy import Membership
from tree_handler.members.listed import ListedMember
from tree_handler.members.place import NONE

_log = logging.getLogger(__name__)


class PresentMemberError(Exception):
    """A gateway is in the tree: it would tell its record anew at once."""


class MemberRoll:
    """The roll of all gateways, as one gateway knows them.

    Args:
        members: their records.
        node: this gateway's.

    """

    def __init__(self, members: Members, node: TreeNode) -> None:
        self._members = members
        self._node = node

    @property
    def known(self) -> Membership:
        """The newest record of each member."""
        return self._members.known

    def listed(self) -> Iterator[dict[str, Any]]:
        """Yield all that there are now, by id, ready for JSON; they may come and go meanwhile."""
        present = self._present()
        for record in tuple(self.known):
            yield ListedMember(
                record.id,
                record.domain or NONE,
                record.group or NONE,
                record.address,
                is_present=record.id in present,
                is_draining=record.draining,
            ).as_json()

    def forget(self, gateway_id: str, who: str) -> bool:
        """Have all know that a gateway will not come back: its record goes, and its alert ends.

        The root may have taken it out already. One that does come back is a member again.

        Args:
            gateway_id: its id.
            who: says so.

        Returns:
            False if there is nothing to forget.

        Raises:
            PresentMemberError: it is in the tree.

        """
        record = self.known.get(gateway_id)
        notice = self.known.absence(gateway_id) if record is None else AbsenceNotice.of(record)
        if notice is None or gateway_id in self.known.forgotten:
            return False
        if gateway_id in self._present():
            raise PresentMemberError(gateway_id)
        _log.warning("%s is taken out of the fleet's records by %s", gateway_id, who)
        self._members.forget(self._node, notice, who)
        return True

    def _present(self) -> set[str]:
        return {self._node.tree.identity.gateway_id, *self._node.locator.reached}
