"""Asks everybody within reach for numbers that no neighbour can send (an echo, Chang 1982).

A gateway gives a message up only if it is certain that nobody within reach has it. It seeks: each
gateway that is asked sends what its log has, asks all its other neighbours for the rest, and
answers when they have, with what is still missing. Who is asked a second time says so at once. So
over any graph each link carries a search twice, and what comes back to the seeker was found
nowhere, unless a link failed or came up meanwhile, time ran out, or somebody had too much to do:
then the answer says that it is not complete, and proves nothing.

What is found is sent as repair along the way by which the search came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tree_handler.batch import CONTROL_PREFIX, Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Action, Look, SendRepair, SendSeek, SendSought
from tree_handler.replication.repair import SearchId, Seek, Sought

MAX_SEARCHES = 64
"""Searches of others under way here; more are answered as not complete."""
MAX_REMEMBERED = 1_024
"""Searches that are over and still known when they come around another way."""
TIMEOUT_S = 10.0
"""An answer that takes longer is not waited for."""

Wanted = dict[Epoch, Intervals]


@dataclass(slots=True)
class _Search:
    parent: int | None
    left: Wanted
    until: float
    waiting: set[int] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)
    complete: bool = True


class Searches:
    """The searches that one gateway takes part in; one is its own at a time.

    Args:
        own: this gateway's id.
        epoch: its boot epoch, so that its searches are named as nobody's before.
        kept: the numbers of a stream that its log may still hold.

    """

    def __init__(self, own: str, epoch: int, kept: Callable[[Epoch], Intervals]) -> None:
        self._own = own
        self._epoch = epoch
        self._kept = kept
        self._links: set[int] = set()
        self._active: dict[SearchId, _Search] = {}
        self._over: dict[SearchId, None] = {}
        self._count = 0
        self.result: Sought | None = None
        """What the last search of this gateway came to; its owner takes it away."""

    @property
    def are_under_way(self) -> bool:
        """Whether there is any search, of this gateway's or of another one."""
        return bool(self._active)

    @property
    def is_seeking(self) -> bool:
        """Whether a search of this gateway's own is under way."""
        return any(search.parent is None for search in self._active.values())

    def begin(self, wanted: Wanted, now: float) -> list[Action]:
        """Seek these numbers, of which no neighbour says that it has them."""
        self._count += 1
        number = (self._own, self._epoch, self._count)
        search = _Search(None, wanted, now + TIMEOUT_S, origins=self._is_origin_of(wanted))
        self._active[number] = search
        return self._pass_on(number, search)

    def receive_seek(self, link: int, seek: Seek, now: float) -> list[Action]:
        """A neighbour asks."""
        if seek.number in self._active or seek.number in self._over:
            return [SendSought(link, Sought(seek.number, seek.wanted, frozenset(), complete=True))]
        if len(self._active) >= MAX_SEARCHES:
            return [SendSought(link, Sought(seek.number, seek.wanted, frozenset(), complete=False))]
        search = _Search(link, seek.wanted, now + TIMEOUT_S)
        search.origins = self._is_origin_of(seek.wanted)
        self._active[seek.number] = search
        here = {key: numbers.common(self._kept(key)) for key, numbers in seek.wanted.items()}
        here = {key: numbers for key, numbers in here.items() if len(numbers)}
        if here:
            return [Look(link, seek.number, here)]
        return self._pass_on(seek.number, search)

    def looked(self, number: SearchId, found: Mapping[Epoch, Intervals]) -> list[Action]:
        """The shell has sent what the log had of a `Look`."""
        search = self._active.get(number)
        if search is None:
            return []
        search.left = _less(search.left, found)
        return self._pass_on(number, search)

    def receive_sought(self, link: int, answer: Sought) -> list[Action]:
        """A neighbour that was asked answers."""
        search = self._active.get(answer.number)
        if search is None or link not in search.waiting:
            return []
        search.left = {
            key: numbers.common(answer.left.get(key, _NOTHING))
            for key, numbers in search.left.items()
        }
        search.origins |= answer.origins
        search.complete &= answer.complete
        search.waiting.discard(link)
        return self._end_if_answered(answer.number, search)

    def relay(self, link: int, frame: bytes, header: Header) -> list[Action]:
        """A batch that came over a link is for those who seek it by way of this gateway too.

        Live ones too: what was long under way may come when this gateway has looked for it in vain
        and not answered yet. It goes once over each link, however many seek it there and however
        often it comes: a whole fleet may lack the same message, and each copy would be passed on
        for each of them.
        """
        numbers = Intervals([(header.first, header.last)])
        parents: dict[int, None] = {}
        for search in self._active.values():
            if search.parent is None or search.parent == link:
                continue
            left = search.left.get(header.stream, _NOTHING)
            if len(left.common(numbers)):
                search.left[header.stream] = left.without(numbers)
                parents[search.parent] = None
        return [SendRepair(parent, frame) for parent in parents]

    def link_up(self, link: int) -> None:
        """There is somebody whom the searches under way have not asked."""
        self._links.add(link)
        for search in self._active.values():
            search.complete = False

    def link_down(self, link: int) -> list[Action]:
        """Who was asked over this link will not answer; who asked needs no answer."""
        self._links.discard(link)
        actions: list[Action] = []
        for number, search in list(self._active.items()):
            if search.parent == link:
                self._end(number)
            elif link in search.waiting:
                search.waiting.discard(link)
                search.complete = False
                actions += self._end_if_answered(number, search)
        return actions

    def handle_timer(self, now: float) -> list[Action]:
        """End what has taken too long."""
        actions: list[Action] = []
        for number, search in list(self._active.items()):
            if now >= search.until:
                search.waiting.clear()
                search.complete = False
                actions += self._end_if_answered(number, search)
        return actions

    def _is_origin_of(self, wanted: Iterable[Epoch]) -> set[str]:
        return {self._own} & {name.removeprefix(CONTROL_PREFIX) for name, _ in wanted}

    def _pass_on(self, number: SearchId, search: _Search) -> list[Action]:
        wanted = {key: numbers for key, numbers in search.left.items() if len(numbers)}
        if wanted:
            search.waiting = self._links - {search.parent}
        if not search.waiting:
            return self._end_if_answered(number, search)
        return [SendSeek(link, Seek(number, wanted)) for link in sorted(search.waiting)]

    def _end_if_answered(self, number: SearchId, search: _Search) -> list[Action]:
        if search.waiting:
            return []
        self._end(number)
        left = {key: numbers for key, numbers in search.left.items() if len(numbers)}
        answer = Sought(number, left, frozenset(search.origins), complete=search.complete)
        if search.parent is None:
            self.result = answer
            return []
        return [SendSought(search.parent, answer)]

    def _end(self, number: SearchId) -> None:
        del self._active[number]
        self._over[number] = None
        if len(self._over) > MAX_REMEMBERED:
            del self._over[next(iter(self._over))]


def _less(wanted: Wanted, found: Mapping[Epoch, Intervals]) -> Wanted:
    return {key: numbers.without(found.get(key, _NOTHING)) for key, numbers in wanted.items()}


_NOTHING = Intervals()
