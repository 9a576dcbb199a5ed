"""Shared subscriptions of which another gateway has members, as a test says it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tree_handler.batch import Entry, Epoch
from tree_handler.holders import Holders, SharedGroup


class MembersElsewhere:
    """A rule by which another gateway has a member of each group, and no message goes there first.

    Who derives from it says in `leave` what becomes of a message that is left to that gateway.
    """

    is_settled = True

    def has_room_for(self, group: SharedGroup) -> bool:
        """Return True: there is room for all."""
        return True

    def changed(self, group: SharedGroup, presence: int) -> None:
        """Heed nothing."""

    def matching(self, topic: str) -> tuple[SharedGroup, ...]:
        """Return no group."""
        return ()

    def choose(self, topic: str, qos: int, here: Mapping[SharedGroup, int]) -> Holders:
        """Choose nobody."""
        return ()

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        """Return True: this gateway gives each message to its own members."""
        return True

    def hand_on(self, entry: Entry, holders: Holders, there: Collection[SharedGroup]) -> None:
        """Hand on nothing."""

    def is_elsewhere(self, group: SharedGroup) -> bool:
        """Return True."""
        return True

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        """Return True: no other gateway has been given the message."""
        return True
