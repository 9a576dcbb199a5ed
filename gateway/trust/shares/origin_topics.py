"""Retained messages by the gateway they came in by, so that none takes all the room.

All gateways count alike, their own messages too: so all decide alike, and whoever publishes hears
of it where it is connected.
"""

from __future__ import annotations

from collections import Counter


class OriginTopics:
    """An account of retained messages, by the gateway that accepted them.

    Args:
        most: messages of each gateway.
        bytes_max: bytes of each.

    """

    def __init__(self, most: int, bytes_max: int) -> None:
        self._messages_max = most
        self._bytes_max = bytes_max
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def why_full(self, origin: str, size_bytes: int, before: tuple[str, int] | None) -> str:
        """Say why one more message of a gateway may not be retained; return nothing if it may.

        Args:
            origin: the gateway.
            size_bytes: of the message.
            before: whose message is retained on the topic now, and its size; None without any.

        """
        is_own = before is not None and before[0] == origin
        had = before[1] if before is not None and is_own else 0
        if not is_own and self._messages[origin] >= self._messages_max:
            return "too many retained messages of this gateway"
        if size_bytes > had and self._bytes[origin] + size_bytes - had > self._bytes_max:
            return "too many bytes of retained messages of this gateway"
        return ""

    def keep(self, origin: str, size_bytes: int) -> None:
        """Count a message that is retained now."""
        self._messages[origin] += 1
        self._bytes[origin] += size_bytes

    def release(self, origin: str, size_bytes: int) -> None:
        """Count a message no more: it is retained no longer."""
        self._messages[origin] -= 1
        self._bytes[origin] -= size_bytes
        if not self._messages[origin]:
            del self._messages[origin], self._bytes[origin]
