"""All look-ups in many directories that are under way at one gateway (sans-I/O).

They share what may be asked at one time: each asks in its turn, so one over the whole fleet does
not hold up one over a group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Final

from gateway.coap.fleet_directory.kept import KeptLookUps
from gateway.coap.fleet_directory.search import DirectoryQuestion, DirectorySearch, UriOfMember
from gateway.coap.fleet_directory.targets import LookedUp
from resource_directory.link_format import WebLink
from tree_handler.members.member import MemberRecord

UNDER_WAY: Final = 8
PER_HOST: Final = 2
IN_FLIGHT_MAX: Final = 128
"""Gateways that are asked at one time, for all look-ups: half of the queries a gateway may have."""
GATHER_S: Final = 10.0
"""So long a look-up waits for all of them together."""


class DirectorySearches:
    """The look-ups, by number.

    Args:
        way_to: what paths of a gateway begin with here.
        suspects: ids of those that are not waited for.

    Attributes:
        kept: what was answered lately.

    """

    def __init__(self, way_to: UriOfMember, suspects: Callable[[], Collection[str]]) -> None:
        self.kept = KeptLookUps()
        self._way_to = way_to
        self._suspects = suspects
        self._numbers = itertools.count(1)
        self._searches: dict[int, DirectorySearch] = {}
        self._until: dict[int, float] = {}
        self._hosts: dict[int, Hashable] = {}

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._searches)

    def has_room(self, host: Hashable) -> bool:
        """Return whether somebody may begin one more."""
        of_host = sum(one == host for one in self._hosts.values())
        return len(self._searches) < UNDER_WAY and of_host < PER_HOST

    def begin(
        self,
        looked_up: LookedUp,
        targets: Sequence[MemberRecord],
        host: Hashable,
        may: Callable[[MemberRecord], bool],
        now: float,
    ) -> int:
        """Begin one; returns its number.

        Args:
            looked_up: what, for whom.
            targets: whose directories.
            host: who asks, for `has_room`.
            may: whether who asks may ask a gateway.
            now: in seconds.

        """
        number = next(self._numbers)
        self._searches[number] = DirectorySearch(looked_up, targets, self._way_to, self.kept, may)
        self._until[number] = now + GATHER_S
        self._hosts[number] = host
        return number

    def looked_up(self, number: int) -> LookedUp:
        """Return what a search is for, and for whom."""
        return self._searches[number].looked_up

    def end(self, number: int) -> None:
        """Nobody waits for one any more."""
        self._searches.pop(number, None)
        self._until.pop(number, None)
        self._hosts.pop(number, None)

    def questions(self, now: float) -> Iterator[tuple[int, DirectoryQuestion]]:
        """Yield whom to ask now, and for which; see `is_eager`."""
        left = dict(self._searches)
        while left and self._in_flight < IN_FLIGHT_MAX:
            for number, search in list(left.items()):
                question = search.next(self._suspects(), now)
                if question is None:
                    del left[number]
                else:
                    yield number, question

    @property
    def is_eager(self) -> bool:
        """Return whether `questions` is to be asked again in the next turn, whoever answers."""
        has_room = self._in_flight < IN_FLIGHT_MAX
        return has_room and any(search.is_eager for search in self._searches.values())

    def answered(
        self, number: int, gateway_id: str, links: Sequence[WebLink] | None, now: float
    ) -> None:
        """Take what a gateway answered; see `DirectorySearch.answered`."""
        search = self._searches.get(number)
        if search is not None:
            search.answered(gateway_id, links, now)

    def too_long(self, number: int, gateway_id: str, now: float) -> None:
        """Ask a gateway for fewer links; see `DirectorySearch.too_long`."""
        search = self._searches.get(number)
        if search is not None:
            search.too_long(gateway_id, now)

    def take_over(self) -> list[tuple[int, DirectorySearch]]:
        """Return those that are at their end; they are forgotten here."""
        over = [(number, one) for number, one in self._searches.items() if one.is_over]
        for number, _ in over:
            self.end(number)
        return over

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing is under way."""
        return min(self._until.values(), default=float("inf"))

    def handle_timer(self, now: float) -> None:
        """Give up those whose time is over."""
        for number, until in self._until.items():
            if until <= now:
                self._searches[number].give_up(now)

    @property
    def _in_flight(self) -> int:
        return sum(search.in_flight for search in self._searches.values())
