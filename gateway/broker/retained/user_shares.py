"""How much of what is retained each user has, so that none takes all the room (row A8).

What counts is what a user's clients here have retained since the start: a batch says nothing of
users, so what other gateways or an earlier process brought is nobody's.
"""

from __future__ import annotations

from collections import Counter

from gateway.broker.hooks import Owner
from gateway.broker.limits import Limits


class RetainedShares:
    """Who has retained what.

    Args:
        limits: of each user.

    """

    def __init__(self, limits: Limits) -> None:
        self._messages_max = limits.retained_messages_per_user
        self._bytes_max = limits.retained_bytes_per_user
        self._held: dict[str, tuple[Owner, int]] = {}
        """Whose a topic's message is, and its size."""
        self._messages: Counter[Owner] = Counter()
        self._bytes: Counter[Owner] = Counter()

    def why_full(self, owner: Owner, topic: str, size_bytes: int) -> str:
        """Why a user may not have one more message retained; empty if it may.

        Args:
            owner: who publishes it.
            topic: on which.
            size_bytes: of the message.

        """
        before = self._held.get(topic)
        is_own = before is not None and before[0] == owner
        if not is_own and self._messages[owner] >= self._messages_max:
            return "too many retained messages of this user"
        had = before[1] if before is not None and is_own else 0
        if size_bytes > had and self._bytes[owner] + size_bytes - had > self._bytes_max:
            return "too many bytes of retained messages of this user"
        return ""

    def keep(self, owner: Owner | None, topic: str, size_bytes: int) -> None:
        """A topic's message is this user's from now on; nobody's with None."""
        self.release(topic)
        if owner is not None:
            self._held[topic] = (owner, size_bytes)
            self._messages[owner] += 1
            self._bytes[owner] += size_bytes

    def release(self, topic: str) -> None:
        """A topic has no message any more."""
        held = self._held.pop(topic, None)
        if held is not None:
            owner, size = held
            self._messages[owner] -= 1
            self._bytes[owner] -= size
            if not self._messages[owner]:
                del self._messages[owner], self._bytes[owner]
