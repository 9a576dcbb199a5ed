"""Turns of users: those of one user's connections that have much to do go one after the other.

A connection's packets are handled for some milliseconds before others have their turn. With many
connections a user would have many turns before the next of another. So a user has a part of each
round of the event loop, however many its connections are: when that is used up, they wait in a row,
and one of them goes on in each round (row A8). While others are there, it also waits until the log
has most of what it brought: else theirs would stand behind the work of many rounds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final

PART_S: Final = 0.01
"""Of a round, for a user who is alone."""
SMALL_PART_S: Final = 0.002
"""Of a round, where others have been there a moment ago."""
MOMENT_S: Final = 1.0
"""So long ago."""
LITTLE_BYTES: Final = 256
"""A read of so much goes on at once, whoever else of its user waits."""
COUNTED_S: Final = 0.0001
"""A turn that takes less is not counted: most reads do."""


class UserTurns:
    """A round in which users take turns.

    Attributes:
        part_s: how long packets of one user are handled in a round.
        held: those of whose messages much waits for the log.

    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._used_s: dict[Hashable, float] = {}
        """In this round, by user."""
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self.held: set[Hashable] = set()
        self._is_round_open = False
        self._last: Hashable = None
        self._several_until_s = 0.0
        """So long there are several users."""
        self.part_s = PART_S

    def heard(self, user: Hashable, size_bytes: int, now_s: float) -> bool:
        """Return whether what a user sent is to wait, for it has had its part of the round.

        Little is not worth the wait: whoever floods sends much.
        """
        last, self._last = self._last, user
        if last is None:
            return False
        if user != last:
            self._several_until_s = now_s + MOMENT_S
            self.part_s = SMALL_PART_S
        elif now_s > self._several_until_s:
            self.part_s = PART_S
        if size_bytes <= LITTLE_BYTES:
            return False
        return user in self.held or self._used_s.get(user, 0.0) >= self.part_s

    def took(self, user: Hashable, seconds: float) -> None:
        """Packets of a user have been handled for so long."""
        if seconds >= COUNTED_S:
            self._used_s[user] = self._used_s.get(user, 0.0) + seconds
            self._open_round()

    def turn(self, user: Hashable) -> asyncio.Future[None]:
        """Wait in the user's row; it is done when it is this one's turn."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        self._open_round()
        return turn

    @property
    def are_shared(self) -> bool:
        """Return whether several users have been there a moment ago."""
        return self.part_s == SMALL_PART_S

    def hold(self, users: Iterable[Hashable]) -> None:
        """Much of theirs waits for the log: their rows wait for `release`."""
        self.held.update(users)

    def release(self) -> None:
        """Little waits for the log: all rows go on."""
        if self.held:
            self.held.clear()
            if self._waiting:
                self._open_round()

    def _open_round(self) -> None:
        if not self._is_round_open:
            self._is_round_open = True
            self._loop.call_soon(self._round_ended)

    def _round_ended(self) -> None:
        self._is_round_open = False
        self._used_s.clear()
        if not self._waiting:
            return
        for user, row in [one for one in self._waiting.items() if one[0] not in self.held]:
            while row and row[0].done():  # its connection is gone
                row.popleft()
            if row:
                row.popleft().set_result(None)
            if not row:
                del self._waiting[user]
        if not self.held.issuperset(self._waiting):
            self._open_round()
