"""Retained messages of each user, so that none takes all the room (row A8).

What counts is what a user's clients here have retained or deleted since the start: a batch says
nothing of users, so what other gateways or an earlier process brought is nobody's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class UserTopics:
    """An account of the topics on which each user has retained or deleted a message.

    Args:
        what: they are, for who is refused.
        most: topics of each user.
        bytes_max: bytes of each user; None where the topics alone count.

    """

    def __init__(self, what: str, most: int, bytes_max: int | None = None) -> None:
        self._what = what
        self._messages_max = most
        self._bytes_max = bytes_max
        self._held: dict[str, tuple[Hashable, int]] = {}
        """The owner of a topic's message, and its size."""
        self._messages: Counter[Hashable] = Counter()
        self._bytes: Counter[Hashable] = Counter()

    def why_full(self, owner: Hashable, topic: str, size_bytes: int) -> str:
        """Return why a user may not have one more; empty if it may.

        Args:
            owner: who publishes it.
            topic: on which.
            size_bytes: of the message; of a deletion 0.

        """
        before = self._held.get(topic)
        is_own = before is not None and before[0] == owner
        if not is_own and self._messages[owner] >= self._messages_max:
            return f"too many {self._what} of this user"
        had = before[1] if before is not None and is_own else 0
        most = self._bytes_max
        if most is not None and size_bytes > had and self._bytes[owner] + size_bytes - had > most:
            return f"too many bytes of {self._what} of this user"
        return ""

    def keep(self, owner: Hashable | None, topic: str, size_bytes: int) -> None:
        """Count the topic for this user from now on; for nobody with None."""
        self.release(topic)
        if owner is not None:
            self._held[topic] = (owner, size_bytes)
            self._messages[owner] += 1
            self._bytes[owner] += size_bytes

    def release(self, topic: str) -> None:
        """There is nothing on a topic any more."""
        held = self._held.pop(topic, None)
        if held is not None:
            owner, size = held
            self._messages[owner] -= 1
            self._bytes[owner] -= size
            if not self._messages[owner]:
                del self._messages[owner], self._bytes[owner]
