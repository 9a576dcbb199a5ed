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
        """Its socket."""


class LogRoom:
    """The room for messages that wait for the log, and the senders that wait with them.

    Args:
        limit_bytes: with more, nobody who brings anything is read from until half of it is left.
        user_turns: where busy users wait before.

    Attributes:
        used_bytes: what is accepted and not delivered yet takes about so much.

    """

    def __init__(self, limit_bytes: int, user_turns: UserTurns) -> None:
        self._limit_bytes = limit_bytes
        self._user_turns = user_turns
        self._stalled: set[Sender] = set()
        self.used_bytes = 0

    def took(self, size_bytes: int) -> bool:
        """Messages of so many bytes begin to wait; the log has not been asked yet.

        Returns:
            Whether those who brought them are to be told to `hold`.

        """
        self.used_bytes += size_bytes
        is_crowded = self.used_bytes > SHARED_BYTES and self._user_turns.are_shared
        return is_crowded or self.used_bytes > self._limit_bytes

    def hold(self, senders: Iterable[Sender]) -> None:
        """Have those wait who brought what was taken last, as far as there is too much."""
        brought_by = set(senders)
        if self.used_bytes > SHARED_BYTES and self._user_turns.are_shared:
            self._user_turns.hold({one.owner for one in brought_by})
        if self.used_bytes > self._limit_bytes:
            for one in brought_by - self._stalled:
                self._stalled.add(one)
                one.channel.stall()

    def gave(self, size_bytes: int) -> None:
        """They have been dealt with."""
        self.used_bytes -= size_bytes
        if self._user_turns.held and self.used_bytes <= SHARED_BYTES // 2:
            self._user_turns.release()
        if self._stalled and self.used_bytes <= self._limit_bytes // 2:
            stalled, self._stalled = self._stalled, set()
            for one in stalled:
                one.channel.resume()
