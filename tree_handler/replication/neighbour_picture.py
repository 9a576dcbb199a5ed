"""One neighbour's word on what it has, and how far that is believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Request, Summary, kept_from

MAX_TELLING_ROUNDS: Final = 3
"""A neighbour that has begun to tell what it has is waited for so long."""
MAX_UNANSWERED: Final = 3
"""A neighbour that leaves so many requests unanswered counts as silent: what it says that it has
counts for nothing until any sign of an answer comes, and it is asked ever more seldom."""
MAX_FRUITLESS: Final = 3
"""So does a neighbour that says so many times in a row that this was all, and has sent nothing of
what it says that it has: who says that it has all numbers that there can be would be asked for some
after the others without an end, as fast as the link carries it."""
ASKED_AGAIN_MAX_S: Final = 600.0
"""A silent or fruitless neighbour is asked again after so long at most: it may have been slow, or
asleep."""
MAX_LATE: Final = 100
"""Answers that are known to be on their way when their requests have been given up."""
MAX_TOLD_STREAMS: Final = 100_000
"""Remembered of what one neighbour told; what it tells of more is not known here."""
MAX_TOLD_RANGES: Final = 200_000
"""Of all of them, some 15 MB: one that has gaps in everything is not heard of more."""
MAX_FALSE_STREAMS: Final = 1_000
"""Of one neighbour; beyond it the oldest is believed again."""
MAX_BEYOND: Final = 1_000
"""Streams of which one neighbour may say what it can neither send nor prove; of more the oldest is
not sought."""
PUT_OFF_MAX_S: Final = 60.0
"""For so long at most it is not asked again for what nobody could prove when it sent it."""

_NOTHING = Intervals()


@dataclass(slots=True)
class NeighbourPicture:
    """One neighbour.

    What it says that it has is believed as far as it sends it, where batches are sealed
    (``must_prove``): what it sent and did not prove, what it did not send though it said so again,
    and all of it while it answers nothing, counts as not there.

    Args:
        have: what this gateway covers, by stream; kept up to date by its owner.
        must_prove: see above.

    """

    have: Mapping[Epoch, Intervals]
    must_prove: bool
    picture: Summary = field(default_factory=Summary)
    """All that it has told."""
    told_ranges: int = 0
    """The number of ranges in that."""
    is_complete: bool = False
    """True once it has told all: what it has not named it does not have."""
    rounds: int = 0
    """So many rounds it has been telling."""
    is_fresh: bool = False
    """True if it told what it has since the last round."""
    asked: Request | None = None
    asked_at: float = 0.0
    begun_at: float = 0.0
    came: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers of the last request that it has sent."""
    unsent: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers that it says that it has and did not send when it was asked."""
    unlike: dict[Epoch, None] = field(default_factory=dict)
    """Streams of which it may be able to send what is lacking here: of all others it can't. So
    lives that are long over cost nothing each time it is looked for what is lacking."""

    beyond: dict[Epoch, None] = field(default_factory=dict)
    """Streams of which it may say that it has, or had, more than came here, where it must prove
    it."""

    doubted: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers that were once `unsent`, before it told of them again."""
    false: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers that it is not asked for any more."""
    unanswered: int = 0
    """Requests in a row of which nothing came."""
    ask_again_at: float = 0.0
    """The time when it is asked next, while it is silent or fruitless."""
    fruitless: int = 0
    """Requests in a row that it says to have answered, and that brought nothing."""
    late: int = 0
    """Requests that were given up and that it may still say to have answered."""
    was_late: bool = False
    """True if such an answer has ended since the present request was made."""
    unproven: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers that it has sent of gateways whose certificate is not known here."""
    put_off: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers that were `unproven` and are asked for again later."""
    put_off_until: float = 0.0
    put_off_s: float = 0.0

    @property
    def is_telling(self) -> bool:
        """Return whether it has begun to tell what it has and not ended."""
        return not self.is_complete and 0 < self.rounds <= MAX_TELLING_ROUNDS

    @property
    def is_silent(self) -> bool:
        """Return whether it has left too many requests unanswered."""
        return self.unanswered >= MAX_UNANSWERED

    @property
    def is_left_alone(self) -> bool:
        """Return whether it is asked ever more seldom. What it says that it has counts for nothing
        then: else nobody would seek that farther off, nor give it up, until it is asked again."""
        return self.is_silent or self.fruitless >= MAX_FRUITLESS

    def begins(self, request: Request, now: float) -> None:
        """It is asked for this."""
        self.asked = request
        self.asked_at = self.begun_at = now
        self.came.clear()
        self.was_late = False

    def gives_up(self, timeout_s: float, now: float) -> None:
        """The request is not waited for any more."""
        self.asked = None
        self.late = min(self.late + 1, MAX_LATE)
        if self.must_prove and not self.came:
            self.unanswered += 1
        if self.is_silent:
            self._ask_later(timeout_s, self.unanswered - MAX_UNANSWERED + 1, now)

    def has_answered(self, timeout_s: float, now: float, *, with_something: bool) -> None:
        """It says that this was all of the request."""
        self.fruitless = 0 if with_something else self.fruitless + 1
        if self.fruitless >= MAX_FRUITLESS:
            self._ask_later(timeout_s, self.fruitless - MAX_FRUITLESS, now)

    def may_be_asked(self, now: float) -> bool:
        """Return whether it has told all, has nothing to answer, and it is time."""
        is_time = not self.is_left_alone or now >= self.ask_again_at
        return self.asked is None and self.is_complete and is_time

    def _ask_later(self, timeout_s: float, doublings: int, now: float) -> None:
        self.ask_again_at = now + min(timeout_s * 2 ** min(doublings, 32), ASKED_AGAIN_MAX_S)

    def lacks_of_request(self) -> bool:
        """Return whether anything that it was asked for has not come, nor is among what is here."""
        return self.asked is not None and any(
            len(
                numbers.without(self.have.get(stream, _NOTHING)).without(
                    self.came.get(stream, _NOTHING)
                )
            )
            for stream, numbers in self.asked.wanted.items()
        )

    def askable(self) -> Iterator[tuple[Epoch, Intervals]]:
        """Yield all that is not among what is here and it can be asked for, by stream."""
        for stream in list(self.unlike):
            wanted = self._believed(stream).without(self.have.get(stream, _NOTHING))
            if len(wanted):
                yield stream, wanted
            else:
                del self.unlike[stream]

    def told(self, stream: Epoch, numbers: Intervals) -> bool:
        """Take that it has these; return whether there is room to know it."""
        have = self.picture.have
        known = have.get(stream)
        is_full = self.told_ranges + len(numbers) > MAX_TOLD_RANGES
        if is_full or (known is None and len(have) >= MAX_TOLD_STREAMS):
            return False
        if known is None:
            have[stream] = numbers
            self.told_ranges += len(numbers)
        else:
            before = len(known)
            known.update(numbers)
            self.told_ranges += len(known) - before
        return True

    def told_over(self, name: str, epochs: Intervals) -> bool:
        """Take that these epochs are over for it; return whether there is room to know it."""
        over = self.picture.over
        known = over.get(name)
        more = len(epochs) - (0 if known is None else len(known))
        is_full = self.told_ranges + more > MAX_TOLD_RANGES
        if is_full or (known is None and len(over) >= MAX_TOLD_STREAMS):
            return False
        over[name] = epochs
        self.told_ranges += more
        return True

    def has_sent(self, stream: Epoch, first: int, last: int) -> None:
        """It has sent these, of which it may have told: so it has them."""
        known = self.picture.have.get(stream)
        if known is not None:
            before = len(known)
            known.add(first, last)
            self.told_ranges += len(known) - before

    def drop(self, stream: Epoch) -> None:
        """Know no more of what it has of a stream."""
        known = self.picture.have.pop(stream, None)
        if known is not None:
            self.told_ranges -= len(known)
        self.picture.kept_from.pop(stream, None)

    def may_have(self, stream: Epoch) -> None:
        """It has told more of a stream, or there is less of it here."""
        if stream in self.picture.have:
            self.unlike[stream] = None
            if self.must_prove and self._is_beyond(stream):
                self.beyond[stream] = None
                if len(self.beyond) > MAX_BEYOND:
                    del self.beyond[next(iter(self.beyond))]

    def says_more(self) -> Iterator[Epoch]:
        """Yield the streams of which it says that it has or had something behind all that came
        here."""
        for stream in list(self.beyond):
            if self._is_beyond(stream):
                yield stream
            else:
                del self.beyond[stream]

    def _is_beyond(self, stream: Epoch) -> bool:
        told, last = self.picture.have.get(stream, _NOTHING), self.have.get(stream, _NOTHING).last
        return told.last > last and (stream not in self.false or len(self.says(stream)) > 0)

    def says(self, stream: Epoch) -> Intervals:
        """Return what that is, but for what it was found out not to have."""
        behind = self.have.get(stream, _NOTHING).last + 1
        said = kept_from(self.picture.have.get(stream, _NOTHING), behind)
        false = self.false.get(stream)
        return said if false is None else said.without(false)

    def is_sought_no_more(self, stream: Epoch) -> None:
        """Stop seeking what the neighbour says is behind all that came, until it tells it again."""
        self.beyond.pop(stream, None)

    def kept(self, stream: Epoch) -> Intervals:
        """Return what it can send of a stream."""
        return _NOTHING if self.is_left_alone else self._believed(stream)

    def _believed(self, stream: Epoch) -> Intervals:
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
        """Let everything be asked for at once that could not be proven: it may be proven now."""
        self.asked = None
        self.put_off.clear()
        self.put_off_s = 0.0

    def has(self, stream: Epoch) -> Intervals | None:
        """Return what it covers of a stream; None for all, since the epoch is over for it."""
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
            believed_again = next(iter(self.false))
            del self.false[believed_again]
            self.may_have(believed_again)

    def forget(self, stream: Epoch) -> None:
        """The stream is over here."""
        put_off = (self.unproven, self.put_off)
        for told in (self.unsent, self.doubted, self.false, *put_off):
            told.pop(stream, None)
        self.drop(stream)
        self.unlike.pop(stream, None)
        self.beyond.pop(stream, None)

    def last_known(self, stream: Epoch) -> int:
        """Return the last number of a stream that it has, or had: where it must prove it, can
        send."""
        told = self.kept(stream) if self.must_prove else self.picture.have.get(stream, _NOTHING)
        return told.last
