"""Rates of users: who sends faster waits, and TCP slows its clients (row A8)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

MOST_USERS: Final = 10_000
"""That are remembered; of more, who has sent nothing for longest is forgotten."""


class UserRates:
    """A token bucket of one second for each user.

    Args:
        bytes_per_s: of all connections of one user together; 0 for any.

    Attributes:
        is_limited: whether there is anything to charge.

    """

    def __init__(self, bytes_per_s: int) -> None:
        self.is_limited = bytes_per_s > 0
        self._bytes_per_s = bytes_per_s
        self._full_at_s: dict[Hashable, float] = {}
        """The time when each user's bucket will be full again; who was last stands last."""

    def wait_s(self, user: Hashable, size_bytes: int, now_s: float) -> float:
        """Charge what a user has sent, and return for how many seconds it is to send no more.

        Args:
            user: whose.
            size_bytes: what came.
            now_s: on a clock that never goes back.

        """
        full_at_s = max(self._full_at_s.pop(user, now_s), now_s)
        full_at_s += size_bytes / self._bytes_per_s
        self._full_at_s[user] = full_at_s
        if len(self._full_at_s) > MOST_USERS:
            del self._full_at_s[next(iter(self._full_at_s))]
        return max(0.0, full_at_s - now_s - 1.0)
