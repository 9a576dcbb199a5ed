"""Admission of queries: none is carried out twice, none too late, none for want of a clock.

Sans-I/O. What looks too old (`request_memory`) is answered with a challenge, the time on this
gateway's clock, signed as all that it answers. Its asker, if it still waits, asks again under the
same number and repeats the challenge. So what is carried out was asked after this gateway said so,
and a copy that somebody kept is not.
"""

from __future__ import annotations

from typing import Final

from tree_handler.rate_limit import RateLimit
from tree_handler.remote.message import Query
from tree_handler.remote.request_memory import (
    NEVER_S,
    QueryMark,
    RepeatedError,
    RequestMemory,
    StaleError,
)

CHALLENGES_PER_S: Final = 1.0
CHALLENGES_AT_ONCE: Final = 16
"""Of one asker: each is signed, and who replays its queries must not cost more than that."""


class QueryAdmission:
    """One gateway's memory of queries, by which the next one is admitted or refused.

    Args:
        own_id: this gateway.
        epoch: its boot epoch.

    """

    def __init__(self, own_id: str, epoch: int) -> None:
        self._own_id = own_id
        self._before = RequestMemory(epoch)
        self._challenges = RateLimit(CHALLENGES_PER_S, CHALLENGES_AT_ONCE)

    def take(self, query: Query, target_epoch: int, now: float) -> int:
        """Take note of a query whose signature is right, where there is one.

        Returns:
            0 if it may be executed; else the challenge that its asker has to repeat.

        Raises:
            RepeatedError: it is not to be executed.
            ProtocolError: its correlation is malformed.

        """
        if query.target != self._own_id:
            raise RepeatedError("query for another gateway", query.target)
        epoch, number = query.numbers
        asked = QueryMark(
            query.asker,
            epoch,
            number,
            query.asked_ms / 1000,
            target_epoch,
            query.deadline_ms / 1000,
            _said_s(query.challenge),
        )
        try:
            self._before.take(asked, now)
        except StaleError:
            if not self._challenges.allow(query.asker, now):
                raise
            return _word_of(now)
        return 0


def _word_of(now: float) -> int:
    return int(now * 1000) + 1


def _said_s(challenge: int) -> float:
    return (challenge - 1) / 1000 if challenge else NEVER_S
