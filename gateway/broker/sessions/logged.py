"""The log, as the queues of sessions read it."""

from __future__ import annotations

from typing import Protocol

from gateway.broker.outbound.message import Message
from tree_handler.batch import Epoch, Ref


class Logged(Protocol):
    """What a queue asks of the log."""

    def messages(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
        """Messages of a stream, by their numbers, from one on.

        Args:
            key: the stream.
            first: the number to begin with.
            last: no higher one is wanted.

        Returns:
            What the log has of them, as many as are read at once, and perhaps more; and the
            number up to which that is all.

        Raises:
            OSError: not even the first can be read now; it may be there all the same.

        """

    def has(self, ref: Ref) -> bool:
        """Whether the log has a message."""
