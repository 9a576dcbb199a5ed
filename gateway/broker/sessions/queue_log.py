"""The log, as the queues of sessions read it."""

from __future__ import annotations

from typing import Final, Protocol

from gateway.broker.outbound.message import Message
from gateway.broker.sessions.places import Places
from tree_handler.batch import Epoch, Ref

AT_ONCE: Final = 1_024
STREAMS_AT_ONCE: Final = 16
"""The most streams that are read for one session before the next may be."""


class QueueLog(Protocol):
    """The log, as a queue asks it."""

    def messages(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
        """Return messages of a stream, by their numbers, from one on.

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
        """Return whether the log has a message."""


def read_first(
    log: QueueLog | None, places: Places
) -> tuple[list[tuple[Message, int, tuple[int, ...]]], int]:
    """Read some of the first messages of places, in their order.

    Args:
        log: which; None for none, which has nothing.
        places: they stay as they are.

    Returns:
        What the log has of them, with the flags and the subscription identifiers of each; and how
        many they are with those that it has no longer.

    Raises:
        OSError: not even the first can be read now.

    """
    ahead, streams = places.ahead(AT_ONCE, STREAMS_AT_ONCE)
    read: dict[Epoch, tuple[dict[int, Message], int]] = {}
    for key, (first, last) in streams.items():
        try:
            read[key] = ({}, last) if log is None else log.messages(key, first, last)
        except OSError:
            if not read:
                raise
            break  # what stands before does not wait for it
    found: list[tuple[Message, int, tuple[int, ...]]] = []
    passed = 0
    for run in ahead:
        key, flags, identifiers = run.way
        if key not in read:
            break
        messages, until = read[key]
        last = min(run.last, until)
        for number in range(run.first, last + 1):
            message = messages.get(number)
            if message is not None:
                run.time(message)
                found.append((message, flags, identifiers))
        passed += max(0, last - run.first + 1)  # the next may be beyond what was read
        if last < run.last:
            break
    return found, passed
