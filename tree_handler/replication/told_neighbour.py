"""What one neighbour has told of what it has, and how far that is believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Request, Summary

MAX_TELLING_ROUNDS: Final = 3
"""A neighbour that has begun to tell what it has is waited for so long."""
MAX_UNANSWERED: Final = 3
"""A neighbour that leaves so many requests unanswered has nothing, until it answers one."""
MAX_FALSE_STREAMS: Final = 1_000
"""Of one neighbour; beyond it the oldest is believed again."""
PUT_OFF_MAX_S: Final = 60.0
"""For so long at most it is not asked again for what nobody could prove when it sent it."""

_NOTHING = Intervals()


@dataclass(slots=True)
class ToldNeighbour:
    """One neighbour.

    What it says that it has is believed as far as it sends it, where batches are sealed
    (``must_prove``): what it sent and did not prove, what it did not send though it said so again,
    and all of it while it answers nothing, counts as not there.
    """

    must_prove: bool
    picture: Summary = field(default_factory=Summary)
    """All that it has told."""
    is_complete: bool = False
    """Whether it has told all: what it has not named it does not have."""
    rounds: int = 0
    """So many rounds it has been telling."""
    is_fresh: bool = False
    """Whether it told what it has since the last round."""
    asked: Request | None = None
    asked_at: float = 0.0
    begun_at: float = 0.0
    came: dict[Epoch, Intervals] = field(default_factory=dict)
    """What it has sent of the last request."""
    unsent: dict[Epoch, Intervals] = field(default_factory=dict)
    """What it says that it has and did not send when it was asked."""

    doubted: dict[Epoch, Intervals] = field(default_factory=dict)
    """What was once `unsent`, before it told of it again."""
    false: dict[Epoch, Intervals] = field(default_factory=dict)
    """What it is not asked for any more."""
    unanswered: int = 0
    """Requests in a row of which nothing came."""
    unproven: dict[Epoch, Intervals] = field(default_factory=dict)
    """What it has sent of the last request, of gateways whose certificate is not known here."""
    put_off: dict[Epoch, Intervals] = field(default_factory=dict)
    """What was `unproven` and is asked for again later."""
    put_off_until: float = 0.0
    put_off_s: float = 0.0

    @property
    def is_telling(self) -> bool:
        """Whether it has begun to tell what it has and not ended."""
        return not self.is_complete and 0 < self.rounds <= MAX_TELLING_ROUNDS

    def askable(self) -> Iterator[tuple[Epoch, Intervals]]:
        """All that it can send, by stream."""
        for stream in self.picture.have:
            yield stream, self.kept(stream)

    def kept(self, stream: Epoch) -> Intervals:
        """What it can send of a stream."""
        if self.unanswered >= MAX_UNANSWERED:
            return _NOTHING
        kept = self.picture.kept(stream)
        unsent, false = self.unsent.get(stream), self.false.get(stream)
        if unsent is not None:
            kept = kept.without(unsent)
        return kept if false is None else kept.without(false)

    def puts_off(self, at_least_s: float, now: float) -> None:
        """Ask again for what came `unproven` after a while, twice as long each time."""
        if not self.unproven:
            return
        self.put_off_s = min(max(2 * self.put_off_s, at_least_s), PUT_OFF_MAX_S)
        self.put_off_until = now + self.put_off_s
        for stream, numbers in self.unproven.items():
            self.put_off.setdefault(stream, Intervals()).update(numbers)
        self.unproven.clear()

    def is_asked_anew(self) -> None:
        """What could not be proven may be now."""
        self.asked = None
        self.put_off.clear()
        self.put_off_s = 0.0

    def has(self, stream: Epoch) -> Intervals | None:
        """What it covers of a stream; None for all, since the epoch is over for it."""
        over = self.picture.over.get(stream[0])
        if over is not None and stream[1] in over:
            return None
        return self.picture.have.get(stream, _NOTHING)

    def told_again(self, stream: Epoch) -> None:
        """It has told of a stream anew: what it did not send it may send now, once."""
        unsent = self.unsent.pop(stream, None)
        if unsent is not None and self.must_prove:
            self.doubted.setdefault(stream, Intervals()).update(unsent)

    def did_not_send(self, stream: Epoch, numbers: Intervals) -> None:
        """It was asked for these, said that this was all, and they were not among it."""
        self.unsent.setdefault(stream, Intervals()).update(numbers)
        if (doubted := self.doubted.get(stream)) is not None:
            self.is_false(stream, numbers.common(doubted))

    def is_false(self, stream: Epoch, numbers: Intervals) -> None:
        """It has not these, whatever it says."""
        self.false.setdefault(stream, Intervals()).update(numbers)
        if len(self.false) > MAX_FALSE_STREAMS:
            del self.false[next(iter(self.false))]

    def forget(self, stream: Epoch) -> None:
        """The stream is over here."""
        put_off = (self.unproven, self.put_off)
        for told in (self.picture.have, self.unsent, self.doubted, self.false, *put_off):
            told.pop(stream, None)
        self.picture.kept_from.pop(stream, None)

    def last_known(self, stream: Epoch) -> int:
        """The last number of a stream that it has, or had: where it must prove it, can send."""
        told = self.kept(stream) if self.must_prove else self.picture.have.get(stream, _NOTHING)
        return told.last
