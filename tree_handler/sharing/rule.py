"""The rule of shared subscriptions as a broker asks for it, and its form for a gateway alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from tree_handler.batch import Entry, Epoch
from tree_handler.holders import Holders, SharedGroup


class SharedGroups(Protocol):
    """Decides which gateway's members of a shared subscription get a message."""

    def has_room_for(self, group: SharedGroup) -> bool:
        """Return whether there may be members of this one, too."""

    def changed(self, group: SharedGroup, presence: int) -> None:
        """Take who is there of one (`claims`); 0 for nobody."""

    def matching(self, topic: str) -> Sequence[SharedGroup]:
        """Return those with members on other gateways that a topic matches."""

    def choose(self, topic: str, qos: int, here: Mapping[SharedGroup, int]) -> Holders:
        """Choose whose members get a message that is accepted here, where others' do.

        Args:
            topic: its topic.
            qos: as published.
            here: who is there of this gateway's members that may receive it.

        """

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        """Return whether a message is for this gateway's members.

        Args:
            origin: the gateway that accepted it; empty for this one.
            holders: what the message says.
            group: the shared subscription.

        """

    def hand_on(self, entry: Entry, holders: Holders, there: Collection[SharedGroup]) -> None:
        """Let others have what was for this gateway's members, and nobody is a member any more.

        Args:
            entry: a message of QoS 1 or 2.
            holders: what it says; no id stands for this gateway.
            there: the shared subscriptions that have members here.

        """

    @property
    def is_settled(self) -> bool:
        """Return whether who is in reach is known: not yet, right after a start."""

    def is_elsewhere(self, group: SharedGroup) -> bool:
        """Return whether another gateway has members of this one."""

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        """Return whether a message that a member here got can have reached no other member.

        Args:
            stream: the gateway that accepted it and its life; no id for this one and this life,
                and for what was handed on.
            holders: what the message says.
            group: the shared subscription.

        """

    def leave(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        """Let a member elsewhere have what one here leaves behind, and return whether one can.

        Args:
            entry: a message of QoS 1 or 2 that is solely for this gateway's members (`is_sole`).
            group: the shared subscription.
            hops: how often it is handed on with this time.

        """


class EachGateway:
    """The rule where each gateway gives to its own members, whatever others do."""

    def has_room_for(self, group: SharedGroup) -> bool:
        """Always: nobody else is told."""
        return True

    def changed(self, group: SharedGroup, presence: int) -> None:
        """Do nothing: no other gateway is told."""

    def matching(self, topic: str) -> tuple[SharedGroup, ...]:
        """None: nothing is known of others."""
        return ()

    def choose(self, topic: str, qos: int, here: Mapping[SharedGroup, int]) -> Holders:
        """Nobody."""
        return ()

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        """Always."""
        return True

    def hand_on(self, entry: Entry, holders: Holders, there: Collection[SharedGroup]) -> None:
        """Nobody has it."""

    @property
    def is_settled(self) -> bool:
        """Always: nobody is in reach."""
        return True

    def is_elsewhere(self, group: SharedGroup) -> bool:
        """Return False: nothing is known of others."""
        return False

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        """Never: each gateway's members have it."""
        return False

    def leave(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        """Nobody has it."""
        return False
