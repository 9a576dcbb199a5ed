"""Which remote requests came already, and which come too late: a signed one counts once.

Whoever carries a request can keep a copy, or keep the request back. So a request names the lives of
both gateways, a number in the asker's, and when it was asked on the asker's own clock, and the one
that is to execute it refuses

- what was meant for an earlier life of it, of which it remembers nothing;
- what a gateway asked in an earlier life than its latest one;
- a number that came before, or that is too far behind to be sure of (the sliding window of
  RFC 4303, section 3.4.3);
- what was longer on its way than the quickest of that life, by more than its deadline. Nobody's
  wall clock is needed for that. How long the first one of a life was on its way it can't know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tree_handler.errors import ProtocolError

WINDOW: Final = 1_024
"""So far a request may be overtaken by others."""
MAX_ASKERS: Final = 10_000
"""Gateways that are remembered; their number is bounded by that of certificates, too."""
SLACK_S: Final = 2.0
DRIFT: Final = 500e-6
"""By so much of the time that has passed two clocks may have come apart."""


class RepeatedError(ProtocolError):
    """A request came before, or too late."""


@dataclass(frozen=True, slots=True)
class QueryMark:
    """What tells a request from all others.

    Attributes:
        asker: who asks.
        epoch: the asker's life.
        number: of the request in it, from 1.
        asked_s: when, on a clock of the asker's that never goes back.
        target_epoch: the life of the gateway that it is meant for.
        deadline_s: how long it is waited for.

    """

    asker: str
    epoch: int
    number: int
    asked_s: float
    target_epoch: int
    deadline_s: float


class _Life:
    """What is remembered of one life of an asker."""

    __slots__ = ("epoch", "highest", "last_s", "offset_s", "seen")

    def __init__(self, asked: QueryMark, now: float) -> None:
        self.epoch = asked.epoch
        self.highest = asked.number
        self.seen = 1
        """Bit 0 is the highest number, bit 1 the one before it."""
        self.offset_s = now - asked.asked_s
        """Of our clock to the asker's, with the least time on the way that was seen."""
        self.last_s = now


class AskedBefore:
    """All that is remembered.

    Args:
        epoch: this gateway's life.

    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._lives: dict[str, _Life] = {}

    def __len__(self) -> int:
        """How many askers are remembered."""
        return len(self._lives)

    def take(self, asked: QueryMark, now: float) -> None:
        """Take note of a request whose signature is right.

        Args:
            asked: which.
            now: this gateway's clock, seconds.

        Raises:
            RepeatedError: it is not to be executed.

        """
        if asked.target_epoch != self._epoch:
            raise RepeatedError("query for another life of this gateway", asked.target_epoch)
        life = self._lives.get(asked.asker)
        if life is None or asked.epoch > life.epoch:
            if life is None and len(self._lives) >= MAX_ASKERS:
                raise RepeatedError("query of one gateway too many", asked.asker)
            self._lives[asked.asker] = _Life(asked, now)
            return
        if asked.epoch < life.epoch:
            raise RepeatedError("query of an earlier life", asked.epoch)
        offset_s, most_s = _offset(life, asked, now)
        if offset_s > most_s:
            raise RepeatedError("query that was kept back, seconds", round(offset_s - most_s, 1))
        _mark(life, asked.number)
        life.offset_s = min(offset_s, life.offset_s + DRIFT * (now - life.last_s))
        life.last_s = now


def _offset(life: _Life, asked: QueryMark, now: float) -> tuple[float, float]:
    """Of our clock to the asker's as this request has it, and how much it may be."""
    drifted_s = DRIFT * (now - life.last_s)
    return now - asked.asked_s, life.offset_s + drifted_s + asked.deadline_s + SLACK_S


def _mark(life: _Life, number: int) -> None:
    """Note a number.

    Raises:
        RepeatedError: it came before, or may have.

    """
    ahead = number - life.highest
    if ahead > 0:
        life.seen = (life.seen << min(ahead, WINDOW) | 1) & ((1 << WINDOW) - 1)
        life.highest = number
    elif -ahead >= WINDOW or life.seen >> -ahead & 1:
        raise RepeatedError("query that came before, number", number)
    else:
        life.seen |= 1 << -ahead
