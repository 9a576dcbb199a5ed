"""Asks everybody within reach for numbers that no neighbour can send (an echo, Chang 1982).

A gateway gives a message up only if it is certain that nobody within reach has it. It seeks: each
gateway that is asked sends what its log has, asks all its other neighbours for the rest, and
answers when they have, with what is still missing. Who is asked a second time says so at once. So
over any graph each link carries a search twice, and what comes back to the seeker was found
nowhere, unless a link failed meanwhile, time ran out, somebody had too much to do, or could not
read its log, or had started a short time before, so that neighbours may have refused it links as
they took its life before for alive: then the answer says that it is not complete, and proves
nothing.

A log with many gaps may leave more ranges of what is sought than one message may have
(`ranges_wire.MAX_RANGES`). The first of them are asked for, and told as left; of the others nothing
is certain, and the seeker asks for them in its next search.

What is found is sent as repair along the way by which the search came. Whoever links to a gateway
that has answered, or is about to, is asked too, for as long as the seeker lets the answer settle:
what the newcomer has comes by the same way, and nobody waits for it. Each number is asked of a
newcomer once, however many seek it, and one that had been asked before says so at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from itertools import chain, count
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import CONTROL_PREFIX, Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import (
    Look,
    ReplicationAction,
    SendRepair,
    SendSeek,
    SendSought,
)
from tree_handler.replication.ranges_wire import MAX_RANGES, within_limits
from tree_handler.replication.repair import MAX_DENIALS, Denial, SearchId, SearchResult, Seek
from tree_handler.seal import Seals

MAX_SEARCHES: Final = 64
"""Searches of others under way here; more are answered as not complete."""
MAX_KEPT_RANGES: Final = 20 * MAX_RANGES
"""Of all searches under way here, and of those whose answers are let settle: some 15 MB. What would
be more is answered as not complete."""
MAX_REMEMBERED: Final = 1_024
"""Searches that are over and still known when they come around another way."""
TIMEOUT_S: Final = 10.0
"""An answer that takes longer is not waited for."""

WantedNumbers = dict[Epoch, Intervals]


@dataclass(slots=True)
class _Search:
    """One search as one gateway sees it.

    Attributes:
        parent: the link over which it came; None for the gateway's own.
        left: what was not found yet.
        until: when it is answered, if it was not before; then, when it is over.
        waiting: the links that have not answered.
        origins: those who number what is sought and were asked.
        complete: whether all were asked and answered.
        denials: what origins say themselves that they have not, by origin.
        ranges: of how many ranges was sought what is.

    """

    parent: int | None
    left: WantedNumbers
    until: float
    waiting: set[int] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)
    complete: bool = True
    denials: dict[str, Denial] = field(default_factory=dict)
    ranges: int = 0


class Searches:
    """The searches that one gateway takes part in; one is its own at a time.

    Args:
        own: this gateway's id.
        epoch: its boot epoch, so that its searches are named as nobody's before.
        kept: the numbers of a stream that its log may still hold.
        settle_s: who links within this time of a search's end is asked too, at least.
        seals: signs what this gateway has not of its own streams, and checks what others say of
            theirs; None where nobody signs.
        draw: the number of each search: one that nobody guesses, who could send it ahead with
            nothing to ask, so that all who are asked afterwards have been asked already.
        unlinked_s: for so long after its first link a neighbour may refuse one, as it takes this
            gateway's life before for alive (`one_life`): who has what is sought may be that one.

    """

    def __init__(
        self,
        own: str,
        epoch: int,
        kept: Callable[[Epoch], Intervals],
        settle_s: float,
        seals: Seals | None = None,
        *,
        draw: Callable[[], int] | None = None,
        unlinked_s: float = 0.0,
    ) -> None:
        self._seals = seals
        self._unlinked_s = unlinked_s
        self._all_linked_at: float | None = None
        """The time from which whoever is within reach is linked; None before the first link."""
        self._own = own
        self._epoch = epoch
        self._kept = kept
        # Here it may have ended as much earlier as an answer may take.
        self._settle_s = TIMEOUT_S + settle_s
        self._links: set[int] = set()
        self._active: dict[SearchId, _Search] = {}
        self._answered: dict[SearchId, _Search] = {}
        """Of each seeker the latest one."""
        self._over: dict[SearchId, None] = {}
        self._draw = count(1).__next__ if draw is None else draw
        self.result: SearchResult | None = None
        """The outcome of the last search of this gateway; its owner takes it away."""

    @property
    def are_under_way(self) -> bool:
        """Return whether a search goes on, of this gateway's or of another one."""
        return bool(self._active or self._answered)

    @property
    def are_unanswered(self) -> bool:
        """Return whether a search waits for answers, of this gateway's or of another one."""
        return bool(self._active)

    @property
    def is_seeking(self) -> bool:
        """Return whether a search of this gateway's own is under way."""
        return any(search.parent is None for search in self._active.values())

    def begin(self, wanted: WantedNumbers, now: float) -> list[ReplicationAction]:
        """Seek these numbers, of which no neighbour says that it has them."""
        number = (self._own, self._epoch, self._draw())
        self._active[number] = search = self._opened(None, wanted, now)
        return self._pass_on(number, search)

    def receive_seek(self, link: int, seek: Seek, now: float) -> list[ReplicationAction]:
        """Answer a neighbour that asks."""
        if self._is_known(seek.number):
            return [
                SendSought(link, SearchResult(seek.number, seek.wanted, frozenset(), complete=True))
            ]
        if len(self._active) >= MAX_SEARCHES or not self._has_room_for(seek.wanted):
            return [
                SendSought(
                    link, SearchResult(seek.number, seek.wanted, frozenset(), complete=False)
                )
            ]
        self._active[seek.number] = search = self._opened(link, seek.wanted, now)
        here = {key: numbers.common(self._kept(key)) for key, numbers in seek.wanted.items()}
        here = {key: numbers for key, numbers in here.items() if len(numbers)}
        if here:
            return [Look(link, seek.number, here)]
        return self._pass_on(seek.number, search)

    def looked(
        self, number: SearchId, found: Mapping[Epoch, Intervals], *, was_read: bool = True
    ) -> list[ReplicationAction]:
        """Take what the shell has sent of a `Look`.

        Args:
            number: of the search.
            found: the numbers that the log had.
            was_read: whether the log could be read to the end of them. If not, others may have the
                rest, but who has it not is not known.

        """
        search = self._active.get(number)
        if search is None:
            return []
        search.left = _less(search.left, found)
        search.complete &= was_read
        return self._pass_on(number, search)

    def receive_sought(self, link: int, answer: SearchResult) -> list[ReplicationAction]:
        """Return a neighbour that was asked answers."""
        search = self._active.get(answer.number)
        if search is None or link not in search.waiting:
            return [] if answer.complete else self._unsettled(answer.number)
        search.left = {
            key: numbers.common(answer.left.get(key, _NOTHING))
            for key, numbers in search.left.items()
        }
        # What has nothing to do with it would make an answer that nobody takes.
        sought = {name.removeprefix(CONTROL_PREFIX) for name, _ in search.left}
        search.origins |= answer.origins & sought
        for denial in answer.denials:
            is_of_it = denial.origin in sought and denial.lacks.keys() <= search.left.keys()
            if is_of_it and len(search.denials) < MAX_DENIALS:
                search.denials.setdefault(denial.origin, denial)
        search.complete &= answer.complete
        search.waiting.discard(link)
        return self._end_if_answered(answer.number, search)

    def relay(self, link: int, frame: bytes, header: Header) -> list[ReplicationAction]:
        """Return a batch that came over a link is for those who seek it by way of this gateway too.

        Live ones too: what was long under way may come when this gateway has looked for it in vain
        and not answered yet. It goes once over each link, however many seek it there and however
        often it comes: a whole fleet may lack the same message, and each copy would be passed on
        for each of them.
        """
        numbers = Intervals([(header.first, header.last)])
        parents: dict[int, None] = {}
        for search in chain(self._active.values(), self._answered.values()):
            if search.parent is None or search.parent == link:
                continue
            left = search.left.get(header.stream, _NOTHING)
            if len(left.common(numbers)):
                search.left[header.stream] = left.without(numbers)
                parents[search.parent] = None
        return [SendRepair(parent, frame) for parent in parents]

    def link_up(self, link: int, now: float) -> list[ReplicationAction]:
        """There is somebody whom the searches that are not over have not asked."""
        self._links.add(link)
        if self._all_linked_at is None:
            self._all_linked_at = now + self._unlinked_s
        asked: WantedNumbers = {}
        seeks: list[ReplicationAction] = []
        too_many: list[SearchId] = []
        for number, search in chain(self._active.items(), self._answered.items()):
            wanted = _present(_less(search.left, asked))
            if wanted:
                asking = within_limits(wanted)
                if asking != wanted:
                    too_many.append(number)
                seeks.append(SendSeek(link, Seek(number, asking)))
                for key, numbers in asking.items():
                    asked.setdefault(key, Intervals()).update(numbers)
        return [*seeks, *(action for number in too_many for action in self._unsettled(number))]

    def link_down(self, link: int) -> list[ReplicationAction]:
        """Return who was asked over this link will not answer; who asked needs no answer."""
        self._links.discard(link)
        actions: list[ReplicationAction] = []
        for number, search in list(self._active.items()):
            if search.parent == link:
                del self._active[number]
                self._forget(number)
            elif link in search.waiting:
                search.waiting.discard(link)
                search.complete = False
                actions += self._end_if_answered(number, search)
        for number in [n for n, search in self._answered.items() if search.parent == link]:
            del self._answered[number]
            self._forget(number)
        return actions

    def handle_timer(self, now: float) -> list[ReplicationAction]:
        """End what has taken too long."""
        actions: list[ReplicationAction] = []
        for number, search in list(self._active.items()):
            if now >= search.until:
                search.waiting.clear()
                search.complete = False
                actions += self._end_if_answered(number, search)
        for number in [n for n, search in self._answered.items() if now >= search.until]:
            del self._answered[number]
            self._forget(number)
        return actions

    def _opened(self, parent: int | None, wanted: WantedNumbers, now: float) -> _Search:
        are_all_linked = self._all_linked_at is not None and now >= self._all_linked_at
        return _Search(
            parent,
            wanted,
            now + TIMEOUT_S,
            origins=self._is_origin_of(wanted),
            complete=are_all_linked or not self._unlinked_s,
            ranges=_ranges_of(wanted),
        )

    def _has_room_for(self, wanted: WantedNumbers) -> bool:
        searches = chain(self._active.values(), self._answered.values())
        kept = sum([search.ranges for search in searches])
        return kept + _ranges_of(wanted) <= MAX_KEPT_RANGES

    def _is_known(self, number: SearchId) -> bool:
        return number in self._active or number in self._answered or number in self._over

    def _is_origin_of(self, wanted: Iterable[Epoch]) -> set[str]:
        return {self._own} & {name.removeprefix(CONTROL_PREFIX) for name, _ in wanted}

    def denied(self, result: SearchResult, stream: Epoch) -> Intervals | None:
        """Return the numbers of a stream that its origin says itself that it has not; None where
        nobody signs, and who was asked is what those on the way say."""
        if self._seals is None:
            return None
        origin = stream[0].removeprefix(CONTROL_PREFIX)
        found = Intervals()
        for denial in result.denials:
            if denial.origin == origin and self._seals.has_said(
                origin, denial.signed_part(result.number), denial.seal
            ):
                found.update(denial.lacks.get(stream, _NOTHING))
        return found

    def _deny(self, number: SearchId, search: _Search) -> None:
        own = {
            key: numbers
            for key, numbers in search.left.items()
            if key[0].removeprefix(CONTROL_PREFIX) == self._own
        }
        if self._seals is not None and own and search.complete:
            denial = Denial(self._own, own)
            seal = self._seals.say(denial.signed_part(number))
            search.denials[self._own] = Denial(self._own, own, seal)

    def _pass_on(self, number: SearchId, search: _Search) -> list[ReplicationAction]:
        search.left = within_limits(_present(search.left))
        self._deny(number, search)
        wanted = _present(search.left)
        if wanted:
            search.waiting = self._links - {search.parent}
        if not search.waiting:
            return self._end_if_answered(number, search)
        return [SendSeek(link, Seek(number, wanted)) for link in sorted(search.waiting)]

    def _end_if_answered(self, number: SearchId, search: _Search) -> list[ReplicationAction]:
        if search.waiting:
            return []
        del self._active[number]
        revoked = self._settle(number, search)
        answer = SearchResult.fitting(
            number,
            _present(search.left),
            frozenset(search.origins),
            complete=search.complete,
            denials=search.denials.values(),
        )
        if search.parent is None:
            self.result = answer
            return revoked
        return [*revoked, SendSought(search.parent, answer)]

    def _settle(self, number: SearchId, search: _Search) -> list[ReplicationAction]:
        """Let an answer settle; of another seeker's that makes room for it nobody links late is
        asked, so that it proves nothing any more."""
        seeker = number[:2]
        over = [other for other in self._answered if other[:2] == seeker]
        revoked: list[ReplicationAction] = []
        if not over and len(self._answered) >= MAX_SEARCHES:
            others = (one for one, of in self._answered.items() if of.parent is not None)
            over = [next(others)]
            revoked = self._unsettled(over[0])
        for other in over:
            del self._answered[other]
            self._forget(other)
        search.until += self._settle_s
        self._answered[number] = search
        return revoked

    def _unsettled(self, number: SearchId) -> list[ReplicationAction]:
        """Somebody who linked late could not look: the answer proves nothing any more."""
        search = self._active.get(number) or self._answered.get(number)
        if search is None or not search.complete:
            return []
        search.complete = False
        if number in self._active:
            return []
        if search.parent is not None:
            answer = SearchResult.fitting(number, search.left, frozenset(), complete=False)
            return [SendSought(search.parent, answer)]
        if self.result is not None and self.result.number == number:
            self.result = None
        return []

    def _forget(self, number: SearchId) -> None:
        self._over[number] = None
        if len(self._over) > MAX_REMEMBERED:
            del self._over[next(iter(self._over))]


def _present(wanted: WantedNumbers) -> WantedNumbers:
    return {key: numbers for key, numbers in wanted.items() if len(numbers)}


def _ranges_of(wanted: WantedNumbers) -> int:
    return sum([len(numbers) for numbers in wanted.values()])


def _less(wanted: WantedNumbers, found: Mapping[Epoch, Intervals]) -> WantedNumbers:
    return {key: numbers.without(found.get(key, _NOTHING)) for key, numbers in wanted.items()}


_NOTHING = Intervals()
