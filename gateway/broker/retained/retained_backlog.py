"""The retained messages of a SUBSCRIBE that was answered, as long as not all have been sent.

A client that was told that it is subscribed is due what is retained, however often its connection
or the gateway fails meanwhile. So a session that lasts keeps what it is owed, from the first turn
that was not enough to the last message.
"""

from __future__ import annotations

from typing import NamedTuple

from light_dataclasses import dataclass


class BacklogFilter(NamedTuple):
    """A filter, with the QoS and the subscription identifier (0 for none) of its subscription."""

    topic_filter: str
    qos: int
    identifier: int


@dataclass(frozen=True, slots=True)
class RetainedBacklog:
    """The retained messages that one session is still to be sent.

    Attributes:
        wanted: for which filters.
        given: topics that are settled: the session was given what is retained, or a newer message,
            which its subscription brought.

    """

    wanted: tuple[BacklogFilter, ...]
    given: set[str]
