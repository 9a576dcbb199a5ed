"""Limits on what clients and users have under way over topics; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from light_dataclasses import dataclass
from tree_handler.remote.resource import MAX_PAYLOAD_BYTES


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of what is under way; clients without a user name count as one user.

    Attributes:
        client_requests: requests of one client that are not answered.
        user_requests: of one user.
        user_bytes: of their bodies.
        client_observations: subscriptions of one client to what is observed, and to answers.
        user_observations: of one user.
        body_bytes: of one request.

    """

    client_requests: int = 16
    user_requests: int = 64
    user_bytes: int = 1 << 20
    client_observations: int = 64
    user_observations: int = 256
    body_bytes: int = MAX_PAYLOAD_BYTES


class TopicShares:
    """Counts what clients and their users have.

    Args:
        client_max: of one client.
        user_max: of one user.
        user_bytes_max: of one user, in bytes; None for any.

    """

    def __init__(self, client_max: int, user_max: int, user_bytes_max: int | None = None) -> None:
        self._client_max = client_max
        self._user_max = user_max
        self._user_bytes_max = user_bytes_max
        self._of_client: Counter[Hashable] = Counter()
        self._of_user: Counter[Hashable] = Counter()
        self._bytes_of_user: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        """Return how many there are of all."""
        return self._of_client.total()

    def take(self, client: Hashable, user: Hashable, size_bytes: int = 0) -> str:
        """Have one more, and return why that is too many; empty if it is not."""
        if self._of_client[client] >= self._client_max:
            return f"over {self._client_max} of this client"
        if self._of_user[user] >= self._user_max:
            return f"over {self._user_max} of this user"
        most = self._user_bytes_max
        if most is not None and self._bytes_of_user[user] + size_bytes > most:
            return f"over {most} bytes of this user"
        self._of_client[client] += 1
        self._of_user[user] += 1
        self._bytes_of_user[user] += size_bytes
        return ""

    def give_back(self, client: Hashable, user: Hashable, size_bytes: int = 0) -> None:
        """Have one less."""
        for counter, key, by in (
            (self._of_client, client, 1),
            (self._of_user, user, 1),
            (self._bytes_of_user, user, size_bytes),
        ):
            counter[key] -= by
            if counter[key] <= 0:
                del counter[key]
