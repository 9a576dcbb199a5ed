"""A gateway that messages are routed to: what it takes, what it lacks, and what it says of it.

It believes the origin of a stream: what the origin passes over is not for this gateway, and what is
neither here nor passed over is asked for. It needs no timers for that: the origin claims until it
is told that all is here. What the log has lost of what was acknowledged nobody claims any more:
that is asked for again and again, until it has come or the origin has said what became of it. So is
what messages of later lives of the origin wait for. While a request is not answered, what it asked
for may be queued or under way on any link between, and nothing else is asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Append, Replication
from tree_handler.routing.actions import RoutingAction, Settle
from tree_handler.routing.wire import MAX_RANGES, Ack, Ask, Carry, Tell, before_in
from tree_handler.seal import is_addressed

MAX_ASKED_NUMBERS: Final = 5_000
"""Numbers asked for at once; the answer brings up the next."""
MAX_ASKED_STREAMS: Final = 1_000
"""The most streams whose requests are remembered; of more, the oldest are asked for anew."""
LOST_AGAIN_S: Final = 10.0
"""So often what nobody claims is asked for."""
ASK_AGAIN_S: Final = 1.0
"""A request that is not answered, or brought nothing, is repeated so long after, if the origin
still claims."""


@dataclass(slots=True)
class _Asked:
    """The last request for what is lacking of a stream.

    Attributes:
        ask: the request.
        again_at: it is not repeated before.
        is_answered: the origin has said so, behind all that it sent.

    """

    ask: Ask
    again_at: float
    is_answered: bool = False

    @property
    def first(self) -> int:
        """The first number that was asked for."""
        return next(iter(self.ask.ranges))[0]


class Destination:
    """One gateway as the destination of other gateways' streams.

    Args:
        core: what it has.
        send: sends a message of this gateway's to another.
        counters: those of routed mode.

    """

    def __init__(
        self,
        core: Replication,
        send: Callable[[str, Ask | Ack], list[RoutingAction]],
        counters: Counter[str],
    ) -> None:
        self._core = core
        self._send = send
        self._counters = counters
        self._asked: dict[Epoch, _Asked] = {}
        self._lost = dict(islice(core.repair.gaps.items(), MAX_ASKED_STREAMS))
        """Numbers that the log has lost and that have not come again: those that a start finds
        missing before something that is there, and all that was lost since."""
        self._number = 0
        self.due_at = 0.0 if self._lost or core.repair.awaited else math.inf
        """The time when `ask_unclaimed` has to be called."""

    @property
    def asked(self) -> int:
        """Return the number of streams of which something is asked for."""
        return len(self._asked)

    def take(
        self, message: Carry, header: Header, before: int, now: float, link: int | None = None
    ) -> list[RoutingAction]:
        """Take a batch that came over a link; none of its stream's numbers since ``before`` is for
        this gateway."""
        stream, core = header.stream, self._core
        taken = core.take(message.frame, header, link=link, repaired=message.is_repair)
        if not header.logged:
            return [*taken]
        self.due_at = min(self.due_at, now + LOST_AGAIN_S)
        if core.settings.seals is not None:
            if not any(isinstance(action, Append) for action in taken):
                return [*taken]  # known, so its seal was not looked at, or refused
            if (proven := self._proven(message, header)) is None:
                # Of what was asked for the origin's word follows; else it is asked for.
                first = header.first
                missing = core.covered(stream).missing(1, first - 1) if first > 1 else ()
                asked = [] if message.is_repair else self._ask(stream, Intervals(missing), now)
                return [*taken, *asked]
            before = proven
        actions: list[RoutingAction] = []
        if before + 1 < header.first:
            actions += core.passed_over(stream, before + 1, header.first - 1)
        actions += taken
        if before and not message.is_repair:
            actions += self._ask(stream, Intervals(core.covered(stream).missing(1, before)), now)
        return actions

    def _proven(self, message: Carry, header: Header) -> int | None:
        """Return the number that the origin says was the last for this gateway before, by its
        seal."""
        listed = message.whole_list()
        if message.is_repair or not is_addressed(message.frame, header, listed):
            return None
        return before_in(listed, self._core.origin)

    def claimed(
        self, stream: Epoch, last: int, tail: int, answered: int, now: float
    ) -> list[RoutingAction]:
        """Note that ``tail`` is the last of the origin's numbers up to ``last`` for this gateway.

        What the actions pass over is not covered yet, but counts.

        Args:
            stream: of the origin's clients' messages.
            last: the last number that was accepted.
            tail: the last number for this gateway.
            answered: which of this gateway's requests was answered last when this was sent.
            now: monotonic time in seconds.

        """
        self._is_answered(stream, answered)
        actions: list[RoutingAction] = []
        if tail < last:
            actions += self._core.passed_over(stream, tail + 1, last)
        return [*actions, *self._ask_or_acknowledge(stream, last, self._lacks(stream, tail), now)]

    def told(self, tell: Tell, now: float) -> list[RoutingAction]:
        """Take the origin's answer to a request."""
        stream, core = tell.stream, self._core
        actions: list[RoutingAction] = []
        for first, last in tell.passed:
            if first <= tell.last:
                actions += core.passed_over(stream, first, min(last, tell.last))
            if last > tell.last:  # it knows of none of these any more, and this log had them
                had = stream in self._lost
                actions += core.passed_over(stream, max(first, tell.last + 1), last, is_lost=had)
        for first, last in tell.gone:
            actions += core.passed_over(stream, first, last, is_lost=True)
        if tell.tail < tell.last:
            actions += core.passed_over(stream, tell.tail + 1, tell.last)
        self._is_answered(stream, tell.number)
        lacking = self._lacks(stream, tell.tail).without(tell.passed).without(tell.gone)
        return [*actions, *self._ask_or_acknowledge(stream, tell.last, lacking, now)]

    def _is_answered(self, stream: Epoch, number: int) -> None:
        asked = self._asked.get(stream)
        if asked is not None and asked.ask.number == number:
            asked.is_answered = True

    def _lacks(self, stream: Epoch, tail: int) -> Intervals:
        return Intervals(self._core.covered(stream).missing(1, tail) if tail else ())

    def _ask_or_acknowledge(
        self, stream: Epoch, last: int, lacking: Intervals, now: float
    ) -> list[RoutingAction]:
        if len(lacking):
            return self._ask(stream, lacking, now)
        self._asked.pop(stream, None)
        return [Settle(stream, last)]

    def lost(self, stream: Epoch, numbers: Intervals, now: float) -> None:
        """The log can't read these any more, and replication knows it."""
        if stream not in self._lost and len(self._lost) >= MAX_ASKED_STREAMS:
            return
        self._lost.setdefault(stream, Intervals()).update(numbers)
        self.due_at = now

    def ask_unclaimed(self, now: float) -> list[RoutingAction]:
        """Ask for what the log has lost, of what has not come again, and for what holds up more."""
        if now < self.due_at:
            return []
        for stream, numbers in list(self._lost.items()):
            left = numbers.without(self._core.covered(stream))
            if len(left):
                self._lost[stream] = left
            else:
                del self._lost[stream]
        unclaimed = self._core.repair.awaited | self._lost
        self.due_at = now + LOST_AGAIN_S if unclaimed else math.inf
        return [one for stream in unclaimed for one in self._ask(stream, unclaimed[stream], now)]

    def forget(self, origin: str) -> None:
        """An origin is gone for good: what it was asked for does not come."""
        for known in (self._asked, self._lost):
            for stream in [stream for stream in known if stream[0] == origin]:
                del known[stream]

    def settle(self, stream: Epoch, last: int) -> list[RoutingAction]:
        """Acknowledge all up to a number, if it is covered: a log that is full refused some."""
        if not self._core.covered(stream).covers(1, last):
            return []
        return self._send(stream[0], Ack(stream, self._core.origin, last))

    def _ask(self, stream: Epoch, lacking: Intervals, now: float) -> list[RoutingAction]:
        if not len(lacking):
            return []
        asked = self._asked.get(stream)
        if asked is not None and now < asked.again_at:
            brought_something = asked.is_answered and next(iter(lacking))[0] != asked.first
            if not brought_something:
                return []
        if asked is not None and not asked.is_answered:
            ask = asked.ask
        else:
            self._number += 1
            ask = Ask(stream, self._core.origin, _up_to_limits(lacking), self._number)
        sent = self._send(stream[0], ask)
        if sent:
            self._counters["asks"] += 1
            self._asked.pop(stream, None)
            self._asked[stream] = _Asked(ask, now + ASK_AGAIN_S)
            if len(self._asked) > MAX_ASKED_STREAMS:  # its origin may never answer
                del self._asked[next(iter(self._asked))]
        return sent


def _up_to_limits(lacking: Intervals) -> Intervals:
    ranges, left = Intervals(), MAX_ASKED_NUMBERS
    for first, last in lacking:
        ranges.add(first, min(last, first + left - 1))
        left -= last - first + 1
        if left <= 0 or len(ranges) >= MAX_RANGES:
            break
    return ranges
