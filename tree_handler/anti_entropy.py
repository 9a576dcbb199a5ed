"""What neighbours have, what of it is asked for, and what none of them can send (rows B7, E2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tree_handler.batch import CONTROL_PREFIX, Epoch
from tree_handler.intervals import Intervals
from tree_handler.repair import Request, Summary
from tree_handler.replication_actions import SendRequest

MAX_REQUEST_NUMBERS = 100_000
"""Numbers asked for in one request; the next follows when it is answered. They come as fast as the
link takes them, so a request is not repeated while some still come."""

_NOTHING = Intervals()


@dataclass(slots=True)
class _Neighbour:
    summary: Summary | None = None
    asked: Request | None = None
    asked_at: float = 0.0
    unsent: dict[Epoch, Intervals] = field(default_factory=dict)
    """What it says that it has and did not send when it was asked."""

    def askable(self) -> Iterator[tuple[Epoch, Intervals]]:
        """All that it can send, by stream."""
        if self.summary is not None:
            for stream in self.summary.have:
                yield stream, self.kept(stream)

    def kept(self, stream: Epoch) -> Intervals:
        """What it can send of a stream."""
        if self.summary is None:
            return _NOTHING
        kept = self.summary.kept(stream)
        unsent = self.unsent.get(stream)
        return kept if unsent is None else kept.without(unsent)


@dataclass(slots=True)
class AntiEntropy:
    """The neighbours of one gateway; a neighbour has one request to answer at a time.

    Args:
        have: what this gateway covers, by stream; kept up to date by its owner.
        is_flooded: whether a stream is repaired between neighbours.
        timeout_s: when an unanswered request may be repeated.

    """

    have: Mapping[Epoch, Intervals]
    is_flooded: Callable[[Epoch], bool]
    timeout_s: float
    _neighbours: dict[int, _Neighbour] = field(default_factory=dict)

    def link_up(self, link: int) -> None:
        """A neighbour is there."""
        self._neighbours[link] = _Neighbour()

    def link_down(self, link: int, now: float) -> list[SendRequest]:
        """The neighbour is gone; what it was asked for may be asked of others."""
        self._neighbours.pop(link, None)
        return self.ask_all(now)

    def told(self, link: int, summary: Summary) -> None:
        """A neighbour says what it has."""
        self._neighbours[link].summary = summary
        self._neighbours[link].unsent.clear()

    def ask(self, link: int, now: float) -> list[SendRequest]:
        """Ask a neighbour for what is lacking here and was not asked of another."""
        state = self._neighbours[link]
        if state.asked is not None or state.summary is None:
            return []
        # What gateways tell each other first: clients' messages may wait for it.
        for control in (True, False):
            for key, theirs in state.askable():
                if key[0].startswith(CONTROL_PREFIX) is not control or not self.is_flooded(key):
                    continue
                wanted = theirs.without(self.have.get(key, _NOTHING))
                for other in self._neighbours.values():
                    if other.asked is not None and other.asked.epoch == key:
                        wanted = wanted.without(other.asked.ranges)
                if len(wanted):
                    state.asked = Request.of(key, wanted, MAX_REQUEST_NUMBERS)
                    state.asked_at = now
                    return [SendRequest(link, state.asked)]
        return []

    def ask_all(self, now: float) -> list[SendRequest]:
        """`ask` each neighbour."""
        return [action for link in self._neighbours for action in self.ask(link, now)]

    def progressed(self, link: int, now: float) -> None:
        """A part of what a neighbour was asked for has come: the rest is waited for anew."""
        if (state := self._neighbours.get(link)) is not None:
            state.asked_at = now

    def done(self, link: int, now: float) -> list[SendRequest]:
        """A neighbour has sent all of the last request that it had: go on with the next."""
        state = self._neighbours.get(link)
        if state is None or state.asked is None:
            return []
        asked, state.asked = state.asked, None
        left = asked.ranges.without(self.have.get(asked.epoch, _NOTHING))
        if left == asked.ranges:  # trimmed meanwhile, as its next summary will say, or damaged
            state.unsent.setdefault(asked.epoch, Intervals()).update(left)
        return self.ask(link, now)

    def handle_timer(self, now: float) -> list[SendRequest]:
        """Repeat requests that were not answered, of others first."""
        for link, state in list(self._neighbours.items()):
            if state.asked is not None and now - state.asked_at >= self.timeout_s:
                state.asked = None
                self._neighbours[link] = self._neighbours.pop(link)
        return self.ask_all(now)

    # -- what neighbours know ------------------------------------------------------------------

    def last_known(self, stream: Epoch) -> int:
        """The last number of a stream that any neighbour has, or had before it was trimmed."""
        return max(
            (
                state.summary.have[stream].last
                for state in self._neighbours.values()
                if state.summary is not None and stream in state.summary.have
            ),
            default=0,
        )

    def can_send(self, stream: Epoch) -> Iterator[Intervals]:
        """What neighbours can send of a stream."""
        return (state.kept(stream) for state in self._neighbours.values())

    def is_catching_up(self) -> bool:
        """Whether neighbours said that they have what is lacking here."""
        return any(
            state.asked is not None
            or any(
                len(theirs.without(self.have.get(key, _NOTHING)))
                for key, theirs in state.askable()
                if self.is_flooded(key)
            )
            for state in self._neighbours.values()
        )

    def lacking(self, link: int, kept_from: Mapping[Epoch, int]) -> int | None:
        """How many messages that can be sent from here a neighbour lacked when it last told."""
        state = self._neighbours.get(link)
        if state is None or state.summary is None:
            return None
        kept = Summary(dict(self.have), dict(kept_from))
        theirs = state.summary.have
        return sum(
            n.without(theirs.get(key, _NOTHING)).count()
            for key, n in kept.askable()
            if self.is_flooded(key)
        )

    def out_of_reach(self, expected: Mapping[Epoch, int]) -> dict[Epoch, Intervals]:
        """What is missing here and no neighbour can send.

        Args:
            expected: up to which number some streams must come, whoever has them.

        """
        found: dict[Epoch, Intervals] = {}
        for stream in self._streams(expected):
            have = self.have.get(stream, _NOTHING)
            last = max(have.last, expected.get(stream, 0), self.last_known(stream))
            if have.contiguous_from(1) >= last:
                continue
            missing = Intervals(have.missing(1, last))
            for theirs in self.can_send(stream):
                missing = missing.without(theirs)
            if len(missing):
                found[stream] = missing
        return found

    def _streams(self, expected: Iterable[Epoch]) -> list[Epoch]:
        streams = dict.fromkeys((*self.have, *expected))
        for state in self._neighbours.values():
            if state.summary is not None:
                streams |= dict.fromkeys(state.summary.have)
        return [stream for stream in streams if self.is_flooded(stream)]
