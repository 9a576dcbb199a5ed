"""One look-up in many directories: whom to ask next, and what was found (sans-I/O).

What is found is told in the order of the gateways. Who does not answer, or was not asked in time,
is told of with what it said last, marked with its age; where that is not known the answer says that
it is not whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from gateway.coap.fleet_directory.kept import KeptLookUps
from gateway.coap.fleet_directory.partial import partial_link
from gateway.coap.fleet_directory.targets import FEWER_LINKS, PAGE_LINKS, LookedUp, serving
from light_dataclasses import dataclass
from resource_directory.errors import InvalidParameterError
from resource_directory.link_format import WebLink, serialise
from resource_directory.search import MAX_CHARACTERS
from tree_handler.members.member import MemberRecord

AT_ONCE: Final = 32
"""Gateways that are asked at one time for one look-up ..."""
ASKED_MAX: Final = 1_024
"""... and in all; what others have is missing."""
LINKS_MAX: Final = 2_000
"""Of one gateway; the others are found with narrower criteria."""
STEPS: Final = 16
"""Gateways of which is told without asking in one call: some milliseconds."""


UriOfMember = Callable[[MemberRecord], str]


@dataclass(frozen=True, slots=True)
class DirectoryQuestion:
    """Ask a gateway.

    Attributes:
        record: its own.
        page: which part of its answer; see `LookedUp.request`.
        count: links of a part.

    """

    record: MemberRecord
    page: int
    count: int = PAGE_LINKS


class _AskedGateway:
    """A gateway of one search, with the links that it has told so far."""

    __slots__ = ("count", "links", "place", "record")

    def __init__(self, record: MemberRecord, place: int) -> None:
        self.record = record
        self.place = place
        self.links: list[WebLink] = []
        self.count = PAGE_LINKS

    def question(self) -> DirectoryQuestion:
        """Ask for what comes behind the links that it has answered."""
        return DirectoryQuestion(self.record, len(self.links) // self.count, self.count)


class DirectorySearch:
    """One look-up.

    Args:
        looked_up: what, for whom.
        targets: whose directories.
        way_to: what paths of a gateway begin with where the look-up was asked.
        kept: what was answered lately.
        may: whether who asks may ask a gateway.

    """

    def __init__(
        self,
        looked_up: LookedUp,
        targets: Sequence[MemberRecord],
        way_to: UriOfMember,
        kept: KeptLookUps,
        may: Callable[[MemberRecord], bool],
    ) -> None:
        self.looked_up = looked_up
        self._targets = targets
        self._way_to = way_to
        self._kept = kept
        self._may = may
        query = looked_up.query
        self._first = 0 if query.count is None else query.page * query.count
        self._wanted = query.wanted
        self._next = 0
        self._asked = 0
        self._waiting: dict[str, _AskedGateway] = {}
        self._more: deque[DirectoryQuestion] = deque()
        self._came: dict[int, list[str]] = {}
        """The links that were found out of turn, by place among the targets."""
        self._settled = 0
        """Of so many targets, from the first one on, all is known."""
        self._links = 0
        self._texts: list[str] = []
        self._characters = 0
        self._missing: dict[int, str] = {}

    @property
    def in_flight(self) -> int:
        """Return how many gateways are asked now."""
        return len(self._waiting)

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing to ask any more."""
        return (
            self._settled == len(self._targets)
            or self._characters > MAX_CHARACTERS
            or (self._wanted is not None and self._links >= self._wanted)
        )

    @property
    def is_eager(self) -> bool:
        """Return whether `next` can go on before anybody answers."""
        return bool(self._more) or (not self.is_over and self._has_room)

    def next(self, suspects: Collection[str], now: float) -> DirectoryQuestion | None:
        """Return whom to ask now; None if nobody is, or not before the next turn (`is_eager`).

        Args:
            suspects: ids of those that are not waited for.
            now: in seconds.

        """
        if self._more:
            return self._more.popleft()
        for _ in range(STEPS):
            if self.is_over or not self._has_room:
                return None
            place, record = self._next, self._targets[self._next]
            self._next += 1
            fresh = self._kept.fresh(self.looked_up.key(record.id), now)
            if not self._may(record):
                self._settle(place, [])
            elif fresh is not None:
                self._settle(place, self._told(record, fresh))
            elif record.id in suspects or self._asked >= ASKED_MAX:
                self._silent(place, record, now)
            else:
                self._asked += 1
                self._waiting[record.id] = _AskedGateway(record, place)
                return DirectoryQuestion(record, 0)
        return None

    def answered(self, gateway_id: str, links: Sequence[WebLink] | None, now: float) -> None:
        """Take what a gateway answered; None for nothing in time, or nothing of use."""
        waiting = self._waiting.get(gateway_id)
        if waiting is None:
            return
        if links is None:
            del self._waiting[gateway_id]
            self._silent(waiting.place, waiting.record, now)
            return
        is_full = len(links) >= waiting.count
        waiting.links += links[: waiting.count]
        if is_full and len(waiting.links) < LINKS_MAX:
            self._more.append(waiting.question())
            return
        del self._waiting[gateway_id]
        self._kept.keep(self.looked_up.key(gateway_id), waiting.links, now)
        self._settle(waiting.place, self._told(waiting.record, waiting.links))

    def too_long(self, gateway_id: str, now: float) -> None:
        """Ask a gateway for fewer links, whose answer was more than fits between gateways."""
        waiting = self._waiting.get(gateway_id)
        fewer = None if waiting is None else FEWER_LINKS.get(waiting.count)
        if waiting is None or fewer is None:
            self.answered(gateway_id, None, now)
            return
        waiting.count = fewer
        self._more.append(waiting.question())

    def give_up(self, now: float) -> None:
        """The time is over: who has not answered is not waited for."""
        self._more.clear()
        for waiting in list(self._waiting.values()):
            self.answered(waiting.record.id, None, now)
        for place in range(self._next, len(self._targets)):
            record = self._targets[place]
            fresh = self._kept.fresh(self.looked_up.key(record.id), now)
            if not self._may(record):
                self._settle(place, [])
            elif fresh is not None:
                self._settle(place, self._told(record, fresh))
            else:
                self._silent(place, record, now)
        self._next = len(self._targets)

    def text(self) -> str:
        """Return what was found, as link format.

        Raises:
            InvalidParameterError: it is too much for one answer.

        """
        if self._characters > MAX_CHARACTERS:
            raise InvalidParameterError("too many links for one answer: ask with count and page")
        return ",".join([*self._texts, *self._partial()])

    @property
    def _has_room(self) -> bool:
        if self._next == len(self._targets) or len(self._waiting) >= AT_ONCE:
            return False
        # Who wants a part has no more gateways asked than it may take.
        return self._wanted is None or self._next - self._settled < AT_ONCE

    def _told(
        self, record: MemberRecord, links: Sequence[WebLink], age_s: int | None = None
    ) -> list[str]:
        served = serving(record, self._way_to(record))
        return [serialise([served.located(link, age_s)]) for link in links]

    def _silent(self, place: int, record: MemberRecord, now: float) -> None:
        age_s, known = self._kept.stale(self.looked_up.key(record.id), now)
        if not known:
            self._missing[place] = record.id
        self._settle(place, self._told(record, known, age_s))

    def _settle(self, place: int, texts: list[str]) -> None:
        self._came[place] = texts
        self._characters += sum(map(len, texts)) + len(texts)
        while (next_texts := self._came.pop(self._settled, None)) is not None:
            self._settled += 1
            for text in next_texts:
                if self._first <= self._links and (
                    self._wanted is None or self._links < self._wanted
                ):
                    self._texts.append(text)
                else:
                    self._characters -= len(text) + 1
                self._links += 1

    def _partial(self) -> list[str]:
        missing = [name for place, name in self._missing.items() if place < self._settled]
        return [serialise([link]) for link in partial_link(self.looked_up.path, missing)]
