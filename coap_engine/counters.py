"""Counters of what happened since the start."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(slots=True)
class EngineCounters:
    """Counts of an engine; what shares and Echo refused they count themselves.

    Attributes:
        received: datagrams, whatever became of them.
        dropped: datagrams that were not read: their host sends too many.
        malformed: datagrams that are no message.
        ignored: messages that fit nothing under way.
        requests: that were not repetitions.
        repeated: requests that came again.
        notifications: sent.
        retransmitted: messages of ours that were sent again.
        unacknowledged: messages of ours that nobody ever acknowledged.
        resets: of peers, to messages of ours.

    """

    received: int = 0
    dropped: int = 0
    malformed: int = 0
    ignored: int = 0
    requests: int = 0
    repeated: int = 0
    notifications: int = 0
    retransmitted: int = 0
    unacknowledged: int = 0
    resets: int = 0
