"""Room for what waits for the log: with too much of it, those who brought it are not read from.

Messages are delivered and acknowledged in the order in which they came, so each waits for all
before it. While several users are there, those who have had their part of a round therefore go on
when the log has most of what was brought, and a message of another waits for little (row A8).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Protocol

from gateway.trust.shares.user_turns import UserTurns

SHARED_BYTES: Final = 128 * 1024
"""So much may wait before busy users do, where there are several."""


class Socket(Protocol):
    """The socket that a sender's bytes come from."""

    def stall(self) -> None:
        """Read no more."""

    def resume(self) -> None:
        """Read again."""


class Sender(Protocol):
    """The connection that brought a message."""

    @property
    def owner(self) -> Hashable:
        """Return the user whose client it is."""

    @property
    def channel(self) -> Socket:
        """The socket that is read no more while there is no room."""


class LogRoom:
    """The room for messages that wait for the log, and the senders that wait with them.

    Args:
        limit_bytes: with more, nobody who brings anything is read from until half of it is left.
        user_turns: where busy users wait before.

    Attributes:
        free_bytes: while no more waits, nobody is held.
        is_holding: somebody waits until less does.

    """

    def __init__(self, limit_bytes: int, user_turns: UserTurns) -> None:
        self._limit_bytes = limit_bytes
        self._user_turns = user_turns
        self._stalled: set[Sender] = set()
        self.free_bytes = min(SHARED_BYTES, limit_bytes)
        self.is_holding = False

    def hold(self, waiting_bytes: int, senders: Iterable[Sender]) -> None:
        """Have senders wait, as far as too much waits for the log.

        Args:
            waiting_bytes: so much does, with what they brought last.
            senders: those who brought it.

        """
        is_crowded = waiting_bytes > SHARED_BYTES and self._user_turns.are_shared
        is_over_limit = waiting_bytes > self._limit_bytes
        if not (is_crowded or is_over_limit):
            return
        self.is_holding = True
        brought_by = set(senders)
        if is_crowded:
            self._user_turns.hold({one.owner for one in brought_by})
        if is_over_limit:
            for one in brought_by - self._stalled:
                self._stalled.add(one)
                one.channel.stall()

    def let_go(self, waiting_bytes: int) -> None:
        """Have those go on for whom so much is little enough."""
        if self._user_turns.held and waiting_bytes <= SHARED_BYTES // 2:
            self._user_turns.release()
        if self._stalled and waiting_bytes <= self._limit_bytes // 2:
            stalled, self._stalled = self._stalled, set()
            for one in stalled:
                one.channel.resume()
        self.is_holding = bool(self._user_turns.held or self._stalled)
