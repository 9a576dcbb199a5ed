"""Remote requests that came already, or come too late: a signed one counts once.

Whoever carries a request can keep a copy, or keep the request back. So a request names the lives of
both gateways, a number in the asker's, and when it was asked on the asker's own clock, and the one
that is to execute it refuses

- what was meant for an earlier life of it, of which it remembers nothing;
- what a gateway asked in an earlier life than its latest one;
- a number that came before, or that is too far behind to be sure of (the sliding window of
  RFC 4303, section 3.4.3);
- what was longer on its way than the quickest of that life, by more than its deadline. Nobody's
  wall clock is needed for that. How long the first one of a life was on its way it can't know.

The last of these is also true of every request of a gateway whose clock has stood still (it slept,
or its machine was paused). So its asker may show that a request is new: it repeats a word that only
this gateway could say, and not earlier (`admission`). What that tells of the asker's clock counts
from then on; what was asked before it was shown does not, for by that clock it would look new.
"""

from __future__ import annotations

from typing import Final

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError

WINDOW: Final = 1_024
"""So far a request may be overtaken by others."""
MAX_ASKERS: Final = 10_000
"""Gateways that are remembered; their number is bounded by that of certificates, too."""
SLACK_S: Final = 2.0
DRIFT: Final = 500e-6
"""By so much of the time that has passed two clocks may have come apart."""


NEVER_S: Final = float("-inf")
"""The time of a word that nobody said."""


class RepeatedError(ProtocolError):
    """A request came before, or too late."""


class StaleError(RepeatedError):
    """A request looks too old; its asker may show that it is new."""


@dataclass(frozen=True, slots=True)
class QueryMark:
    """The identity of a request, by which it is told from all others.

    Attributes:
        asker: who asks.
        epoch: the asker's life.
        number: of the request in it, from 1.
        asked_s: when, on a clock of the asker's that never goes back.
        target_epoch: the life of the gateway that it is meant for.
        deadline_s: how long it is waited for.
        shown_s: when this gateway said the word that it repeats, on this gateway's clock.

    """

    asker: str
    epoch: int
    number: int
    asked_s: float
    target_epoch: int
    deadline_s: float
    shown_s: float = NEVER_S

    def is_shown(self, now: float) -> bool:
        """Return whether it was asked so lately that it can't have been kept back."""
        return 0.0 <= now - self.shown_s <= self.deadline_s + SLACK_S


class _Life:
    """The queries of one life of an asker that are remembered."""

    __slots__ = ("epoch", "highest", "last_s", "not_before_s", "offset_s", "seen")

    def __init__(self, asked: QueryMark, now: float) -> None:
        self.epoch = asked.epoch
        self.highest = asked.number
        self.seen = 1
        """Bit 0 is the highest number, bit 1 the one before it."""
        self.offset_s = now - asked.asked_s
        """Of our clock to the asker's, with the least time on the way that was seen."""
        self.last_s = now
        self.not_before_s = NEVER_S
        """A time on the asker's clock: what was asked up to then does not count any more."""


class RequestMemory:
    """All that is remembered.

    Where there is no room for one more asker, the one that has asked nothing for longest is
    forgotten. From then on who is not known has to show that its request is new.

    Args:
        epoch: this gateway's life.
        max_askers: so many are remembered.

    """

    def __init__(self, epoch: int, max_askers: int = MAX_ASKERS) -> None:
        self._epoch = epoch
        self._max_askers = max_askers
        self._has_forgotten = False
        self._lives: dict[str, _Life] = {}
        """By asker; who has asked last stands last."""

    def __len__(self) -> int:
        """Return how many askers are remembered."""
        return len(self._lives)

    def take(self, asked: QueryMark, now: float) -> None:
        """Take note of a request whose signature is right.

        Args:
            asked: which.
            now: this gateway's clock, seconds.

        Raises:
            StaleError: it is not to be executed, unless it is shown to be new.
            RepeatedError: it is not to be executed.

        """
        if asked.target_epoch != self._epoch:
            raise RepeatedError("query for another life of this gateway", asked.target_epoch)
        life = self._lives.get(asked.asker)
        if life is None:
            self._make_room(asked, now)
        if life is None or asked.epoch > life.epoch:
            life = _Life(asked, now)
        elif asked.epoch < life.epoch:
            raise RepeatedError("query of an earlier life", asked.epoch)
        else:
            _check_number(life, asked.number)
            _follow_clock(life, asked, now)
            _mark(life, asked.number)
        self._lives.pop(asked.asker, None)
        self._lives[asked.asker] = life

    def _make_room(self, asked: QueryMark, now: float) -> None:
        if self._has_forgotten and not asked.is_shown(now):
            raise StaleError("query of a gateway that is not remembered", asked.asker)
        if len(self._lives) >= self._max_askers:
            del self._lives[next(iter(self._lives))]
            self._has_forgotten = True


def _follow_clock(life: _Life, asked: QueryMark, now: float) -> None:
    """Take what a request tells of its asker's clock.

    Raises:
        StaleError: it tells that the request was kept back, or that the clock stood still.

    """
    drifted_s = DRIFT * (now - life.last_s)
    offset_s = now - asked.asked_s
    late_s = offset_s - life.offset_s - drifted_s - asked.deadline_s - SLACK_S
    if late_s <= 0 and asked.asked_s > life.not_before_s:
        life.offset_s = min(offset_s, life.offset_s + drifted_s)
    elif asked.is_shown(now):
        life.offset_s = offset_s
        life.not_before_s = max(life.not_before_s, asked.asked_s)
    else:
        raise StaleError("query that was kept back, seconds", round(late_s, 1))
    life.last_s = now


def _check_number(life: _Life, number: int) -> None:
    """Check that a number did not come before.

    Raises:
        RepeatedError: it did, or may have.

    """
    behind = life.highest - number
    if behind >= WINDOW or (behind >= 0 and life.seen >> behind & 1):
        raise RepeatedError("query that came before, number", number)


def _mark(life: _Life, number: int) -> None:
    """Note a number that did not come before."""
    ahead = number - life.highest
    if ahead > 0:
        life.seen = (life.seen << min(ahead, WINDOW) | 1) & ((1 << WINDOW) - 1)
        life.highest = number
    else:
        life.seen |= 1 << -ahead
