"""Delivers again what had been accepted before a crash."""

from __future__ import annotations

from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Receivers
from gateway.broker.sessions.session import Session
from tree_handler.batch import Ref
from tree_handler.holders import SharedGroup
from tree_handler.sharing.rule import SharedGroups


class ReplayedDelivery(Delivery):
    """Delivers what was accepted; who of a shared subscription got it, the journal tells later."""

    def __init__(self, groups: SharedGroups) -> None:
        super().__init__(groups)
        self._open: dict[tuple[tuple[str, str], Ref], tuple[Receivers, Message]] = {}

    def _is_ours(self, message: Message, group: SharedGroup) -> bool:
        # One that names nobody may have been given before its origin was known to name any: the
        # journal tells.
        return not message.sharing[1] or super()._is_ours(message, group)

    def _give_one(
        self, group: tuple[str, str], members: Receivers, message: Message, now_s: float
    ) -> None:
        assert message.ref is not None
        self._open[group, message.ref] = (members, message)

    def chosen(
        self, group: tuple[str, str], ref: Ref, session: Session | None, now_s: float
    ) -> None:
        """It went to this session; None: to one that is no more."""
        members, message = self._open.pop((group, ref), ([], None))
        for member, subscription in members:
            if member is session and message is not None:
                self.give_share(group, member, message, subscription, now_s)

    def choose_the_rest(self, now_s: float) -> None:
        """Choose receivers for what nobody had been sent when the broker was stopped."""
        for (group, _), (members, message) in self._open.items():
            if super()._is_ours(message, group):
                super()._give_one(group, members, message, now_s)
        self._open.clear()

    def ended(self, session: Session) -> None:
        """Drop what was chosen for a session that has ended."""
        for key, (members, message) in self._open.items():
            self._open[key] = ([m for m in members if m[0] is not session], message)
