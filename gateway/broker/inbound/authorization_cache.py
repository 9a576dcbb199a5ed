"""Decisions on the topics that one connection publishes to, kept so that each is asked once."""

from __future__ import annotations

from typing import Final

BYTES_MAX: Final = 1 << 20
"""Memory of one connection's decisions, about: what `Limits.decided_topics` of 40 bytes take."""
_ENTRY_BYTES: Final = 60


class AuthorizationCache:
    """Remembers; forgets all when it is full, and then it is asked again.

    Args:
        topics_max: how many are remembered.

    Attributes:
        kept: whether the client may publish, by topic; to be read only.

    """

    __slots__ = ("_bytes", "_topics_max", "kept")

    def __init__(self, topics_max: int) -> None:
        self.kept: dict[str, bool] = {}
        self._topics_max = topics_max
        self._bytes = 0

    def note(self, topic: str, allowed: bool) -> None:  # it is the decision
        """Remember what was decided."""
        cost = len(topic.encode()) + _ENTRY_BYTES
        if len(self.kept) >= self._topics_max or self._bytes + cost > BYTES_MAX:
            self.forget()
        self.kept[topic] = allowed
        self._bytes += cost

    def forget(self) -> None:
        """Forget all: who decides does so by other rules now."""
        self.kept.clear()
        self._bytes = 0
