"""Repair by what neighbours have: what is asked for, and what none can send (rows B7, E2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import CONTROL_PREFIX, Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import SendRequest
from tree_handler.replication.epochs_over import is_over
from tree_handler.replication.neighbour_picture import NeighbourPicture
from tree_handler.replication.repair import Request, Summary

MAX_REQUEST_NUMBERS: Final = 100_000
"""Numbers asked for in one request; the next follows when it is answered. They come as fast as the
link takes them, so a request is not repeated while some still come."""

MAX_PUSHED_NUMBERS: Final = 1_000
"""Sent to a new neighbour in the tree without being asked; it asks for more."""

HELD_S: Final = 60.0
"""The longest time that only one neighbour is asked for a range: it may be slow, or silent."""

_NOTHING = Intervals()


@dataclass(slots=True)
class AntiEntropy:
    """The neighbours of one gateway; a neighbour has one request to answer at a time.

    Args:
        have: what this gateway covers, by stream; kept up to date by its owner.
        is_flooded: whether a stream is repaired between neighbours.
        timeout_s: when an unanswered request may be repeated.
        must_prove: whether batches are sealed: then what neighbours say that there is, and nobody
            sends, is nothing to wait for.

    """

    have: Mapping[Epoch, Intervals]
    is_flooded: Callable[[Epoch], bool]
    timeout_s: float
    must_prove: bool = False
    left_out: int = 0
    """Rows of what neighbours told that were over `MAX_TOLD_STREAMS` or `MAX_TOLD_RANGES`."""
    _neighbours: dict[int, NeighbourPicture] = field(default_factory=dict)

    def link_up(self, link: int) -> None:
        """A neighbour is there."""
        self._neighbours[link] = NeighbourPicture(self.have, self.must_prove)

    def link_down(self, link: int, now: float) -> list[SendRequest]:
        """Ask others for what a neighbour was asked for that is gone."""
        self._neighbours.pop(link, None)
        return self.ask_all(now)

    def told(self, link: int, summary: Summary) -> bool:
        """Take what a neighbour has, or a part of it; return whether it has told all with that.

        What is over for it, it can't send. But what it was known to have had, and is lacking
        here, is still waited for.
        """
        state = self._neighbours[link]
        picture = state.picture
        for name, epochs in summary.over.items():
            if state.told_over(name, epochs):
                self._is_over(state, name, epochs)
            else:
                self.left_out += 1
        for stream, numbers in summary.have.items():
            state.told_again(stream)
            if is_over(self.have, stream):
                continue
            if not state.told(stream, numbers):
                self.left_out += 1
                continue
            if (first := summary.kept_from.get(stream)) is not None:
                picture.kept_from[stream] = first
            else:
                picture.kept_from.pop(stream, None)
            state.may_have(stream)
        state.is_fresh = True
        state.rounds = max(1, state.rounds)
        ends = summary.completes and not state.is_complete
        state.is_complete |= summary.completes
        return ends

    def _is_over(self, state: NeighbourPicture, name: str, epochs: Intervals) -> None:
        picture = state.picture
        for stream in [row for row in picture.have if row[0] == name and row[1] in epochs]:
            last = picture.have[stream].last
            if self.have.get(stream, _NOTHING).contiguous_from(1) >= last:
                state.drop(stream)
            else:
                picture.kept_from[stream] = last + 1

    def forget(self, streams: Iterable[Epoch]) -> None:
        """Forget streams that are over here: nobody is asked for them."""
        for state in self._neighbours.values():
            for stream in streams:
                state.forget(stream)

    def lost(self, stream: Epoch) -> None:
        """There is less of a stream here than there was."""
        for state in self._neighbours.values():
            state.may_have(stream)

    @property
    def is_being_told(self) -> bool:
        """Return whether a neighbour has told a part of what it has, and the rest is on its way."""
        return any(state.is_telling for state in self._neighbours.values())

    @property
    def has_told_all(self) -> bool:
        """Return whether any neighbour has told all that it has."""
        return any(state.is_complete for state in self._neighbours.values())

    @property
    def is_asking(self) -> bool:
        """Return whether any neighbour has still to answer a request."""
        return any(state.asked is not None for state in self._neighbours.values())

    def came(self, link: int, header: Header) -> None:
        """A neighbour has sent a batch as repair, whether or not the log takes it."""
        state = self._neighbours.get(link)
        if state is None:
            return
        state.unanswered = 0
        if state.asked is not None:
            state.came.setdefault(header.stream, Intervals()).add(header.first, header.last)

    def refused(self, link: int, header: Header) -> None:
        """A neighbour has sent what is not proven to be its origin's: it has not the numbers."""
        if (state := self._neighbours.get(link)) is not None and header.numbered:
            state.is_false(header.stream, Intervals([(header.first, header.last)]))

    def offered(self, link: int, header: Header) -> None:
        """A neighbour has sent what can't be taken yet: it has it, and is to be asked again."""
        state = self._neighbours.get(link)
        if state is None or not header.numbered:
            return
        if state.told(header.stream, Intervals([(header.first, header.last)])):
            state.may_have(header.stream)
            if state.asked is not None:
                state.unproven.setdefault(header.stream, Intervals()).add(header.first, header.last)

    def ask_anew(self, now: float) -> list[SendRequest]:
        """Ask for all that is lacking, whether or not it was asked for and refused."""
        for state in self._neighbours.values():
            state.is_asked_anew()
        return self.ask_all(now)

    def has_sent(self, link: int, header: Header) -> None:
        """A neighbour has sent a batch that is logged here now: it has it, before it tells."""
        state = self._neighbours.get(link)
        if state is not None:
            state.has_sent(header.stream, header.first, header.last)

    def lacks(self, link: int, kept: Callable[[Epoch], Intervals]) -> Request | None:
        """Find what a neighbour lacks that has just told what it has.

        Nothing is returned where that is not known yet, or it lacks nothing.

        Args:
            link: the neighbour.
            kept: the numbers of a stream that this gateway can send.

        """
        state = self._neighbours[link]
        if not (state.is_complete and state.is_fresh):
            return None
        request = Request.of(self._lacking(state, kept), MAX_PUSHED_NUMBERS)
        return request if request.wanted else None

    def _lacking(
        self, state: NeighbourPicture, kept: Callable[[Epoch], Intervals]
    ) -> Iterator[tuple[Epoch, Intervals]]:
        for stream in sorted(self.have, key=_first_control):
            if self.is_flooded(stream) and (theirs := state.has(stream)) is not None:
                yield stream, kept(stream).without(theirs)

    def ask(self, link: int, now: float) -> list[SendRequest]:
        """Ask a neighbour for what is lacking here and was not asked of another."""
        state = self._neighbours[link]
        if not state.may_be_asked(now):
            return []
        if now >= state.put_off_until:
            state.put_off.clear()
        asked = [
            other.asked
            for other in self._neighbours.values()
            if other.asked is not None and now - other.begun_at < HELD_S and not other.is_left_alone
        ]
        lacking = sorted(state.askable(), key=lambda row: _first_control(row[0]))
        request = Request.of(
            (
                (key, _without(wanted, key, asked).without(state.put_off.get(key, _NOTHING)))
                for key, wanted in lacking
                if self.is_flooded(key)
            ),
            MAX_REQUEST_NUMBERS,
        )
        if not request.wanted:
            return []
        state.begins(request, now)
        return [SendRequest(link, request)]

    def ask_all(self, now: float) -> list[SendRequest]:
        """`ask` each neighbour."""
        return [action for link in self._neighbours for action in self.ask(link, now)]

    def progressed(self, link: int, now: float) -> None:
        """A part of what a neighbour was asked for has come: the rest is waited for anew."""
        if (state := self._neighbours.get(link)) is not None:
            state.asked_at = now

    def done(self, link: int, now: float) -> list[SendRequest]:
        """Go on when a neighbour has sent all that it had of a request, perhaps one given up
        before.

        It does not say which: of the last one nothing counts as not sent while others are open.
        """
        state = self._neighbours.get(link)
        if state is None:
            return []
        state.unanswered = 0
        if state.late and (state.asked is None or state.lacks_of_request()):
            state.late -= 1
            state.was_late = True
            state.asked_at = now
            return self.ask(link, now)
        return self._ended(link, state, now)

    def _ended(self, link: int, state: NeighbourPicture, now: float) -> list[SendRequest]:
        if state.asked is None:
            return []
        asked, state.asked = state.asked, None
        state.puts_off(2 * self.timeout_s, now)
        was_refused = has_come = False
        for stream, ranges in asked.wanted.items():
            left = ranges.without(self.have.get(stream, _NOTHING))
            has_come |= left != ranges
            came = state.came.get(stream, _NOTHING)
            was_refused |= len(left.common(came)) > 0
            unsent = left.without(came)
            if len(unsent):  # trimmed meanwhile, as its next summary will say, or damaged
                state.did_not_send(stream, unsent)
        state.has_answered(self.timeout_s, now, with_something=has_come or was_refused)
        # What this gateway's own log refused is asked for again by and by, not at once.
        return [] if was_refused else self.ask(link, now)

    def handle_timer(self, now: float) -> list[SendRequest]:
        """Repeat requests that were not answered, of others first."""
        for link, state in list(self._neighbours.items()):
            state.is_fresh = False
            state.rounds += state.rounds > 0
            if state.asked is not None and now - state.asked_at >= self.timeout_s:
                if state.was_late:  # that was the answer, and an earlier one will not come
                    state.late = 0
                    self._ended(link, state, now)
                    continue
                state.gives_up(self.timeout_s, now)
                self._neighbours[link] = self._neighbours.pop(link)
        return self.ask_all(now)

    # -- what neighbours know ------------------------------------------------------------------

    def last_known(self, stream: Epoch) -> int:
        """Return the last number of a stream that any neighbour has, or had before it was
        trimmed."""
        return max(
            (state.last_known(stream) for state in self._neighbours.values()),
            default=0,
        )

    def epochs(self, origin: str) -> Iterator[int]:
        """Yield the epochs of clients' messages of an origin that neighbours named."""
        for state in self._neighbours.values():
            for stream in state.picture.have:
                if stream[0] == origin and (not self.must_prove or state.last_known(stream)):
                    yield stream[1]

    def can_send(self, stream: Epoch) -> Iterator[Intervals]:
        """Yield what neighbours can send of a stream."""
        return (state.kept(stream) for state in self._neighbours.values())

    def can_another_send(self, link: int, stream: Epoch, first: int, last: int) -> bool:
        """Return whether a neighbour other than this one can send all of these numbers."""
        return any(
            state.kept(stream).covers(first, last)
            for other, state in self._neighbours.items()
            if other != link
        )

    def is_catching_up(self) -> bool:
        """Return whether neighbours said that they have what is lacking here."""
        return any(
            state.asked is not None or any(self.is_flooded(stream) for stream, _ in state.askable())
            for state in self._neighbours.values()
            if not state.is_left_alone
        )

    def lacking(self, link: int, kept: Callable[[Epoch], Intervals]) -> int | None:
        """Count the messages here that a neighbour lacked when it last told."""
        state = self._neighbours.get(link)
        if state is None or not state.is_complete:
            return None
        return sum(numbers.count() for _, numbers in self._lacking(state, kept))

    def out_of_reach(self, expected: Mapping[Epoch, int]) -> dict[Epoch, Intervals]:
        """Return what is missing here and no neighbour can send, as far as they have told.

        Where batches are sealed, what is behind the last proven number is not missing: that there
        is more, or was, is what somebody says.

        Args:
            expected: up to which number some streams must come, whoever has them.

        """
        found: dict[Epoch, Intervals] = {}
        for stream in self._streams(expected):
            have = self.have.get(stream, _NOTHING)
            last = max(have.last, expected.get(stream, 0))
            if not self.must_prove:
                last = max(last, self.last_known(stream))
            if have.contiguous_from(1) >= last:
                continue
            missing = Intervals(have.missing(1, last))
            for theirs in self.can_send(stream):
                missing = missing.without(theirs)
            if len(missing):
                found[stream] = missing
        return found

    def said_to_be_of(self) -> list[Epoch]:
        """Return the streams of which neighbours say that there was something behind all that
        came."""
        said = (stream for state in self._neighbours.values() for stream in state.says_more())
        return [
            stream
            for stream in dict.fromkeys(said)
            if self.is_flooded(stream) and not is_over(self.have, stream)
        ]

    def are_sought_no_more(self, streams: Iterable[Epoch]) -> None:
        """Stop asking for these streams, until a neighbour tells of them again."""
        for stream in streams:
            for state in self._neighbours.values():
                state.is_sought_no_more(stream)

    def said_to_be(self, streams: Iterable[Epoch], most: int) -> dict[Epoch, Intervals]:
        """Return what that is, and none of them can send: of each stream the first numbers."""
        found: dict[Epoch, Intervals] = {}
        for stream in streams:
            said = Intervals()
            for state in self._neighbours.values():
                said.update(state.says(stream))
            for theirs in self.can_send(stream):
                said = said.without(theirs)
            found |= Request.of([(stream, said)], most).wanted
        return found

    def _streams(self, expected: Iterable[Epoch]) -> list[Epoch]:
        streams = dict.fromkeys((*self.have, *expected))
        if not self.must_prove:
            for state in self._neighbours.values():
                streams |= dict.fromkeys(state.picture.have)
        return [stream for stream in streams if self.is_flooded(stream)]


def _without(wanted: Intervals, stream: Epoch, asked: list[Request]) -> Intervals:
    """Return what is left of what is wanted of a stream when others are asked for some."""
    for request in asked:
        if stream in request.wanted:
            wanted = wanted.without(request.wanted[stream])
    return wanted


def _first_control(stream: Epoch) -> bool:
    """Orders streams: control first, for clients' messages may wait for it."""
    return not stream[0].startswith(CONTROL_PREFIX)
