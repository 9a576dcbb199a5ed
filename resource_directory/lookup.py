"""Look-up of resources and endpoints by any attribute (RFC 9176, section 6), without a scan.

All criteria must hold. In a look-up of resources each must hold for the link or for its
registration; in one of endpoints, for the registration or for one of its links.

What is found comes in the order of registration. Where a prefix finds more than `IN_ORDER_MAX` it
comes in the order of the values instead, or a first page would cost as much as all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice

from resource_directory.index import Criterion, Index
from resource_directory.ordered_ids import ChangeCount, each_in_order
from resource_directory.query import LookupQuery
from resource_directory.registration import Registration
from resource_directory.search import LinkSearch
from resource_directory.terms import EVERY_ENDPOINT, endpoint_terms, link_terms

IN_ORDER_MAX = 256
LINKS_AT_ONCE = 32
"""So many links of one registration are looked at, or taken out of the index, in one go."""
PREFIX_CHECKS = 10
"""So much more than one value's is a prefix's check of a candidate."""


class LookUp:
    """The links and endpoints of registrations, by their terms."""

    def __init__(self) -> None:
        self._registrations: dict[int, Registration] = {}
        self._of_link: dict[int, Registration] = {}
        self._changes = ChangeCount()
        self._registrations_by_term = Index(self._changes)
        self._links_by_term = Index(self._changes)
        self._leaving: deque[tuple[Registration, int]] = deque()
        self._next_order = 1

    def add(self, registration: Registration) -> None:
        """Let a registration be found; it stands after those that were added before."""
        order = registration.order = self._next_order
        self._next_order = order + 1 + len(registration.resolved)
        self._registrations[order] = registration
        self._registrations_by_term.add(order, endpoint_terms(registration))
        for key, link in enumerate(registration.resolved, order + 1):
            self._of_link[key] = registration
            self._links_by_term.add(key, link_terms(link))

    def remove(self, registration: Registration) -> None:
        """Let a registration, unchanged since it was added, be found no more.

        Of one with many links ``tidy`` takes out the rest.
        """
        registration.expires_at = float("-inf")
        del self._registrations[registration.order]
        self._registrations_by_term.discard(registration.order, endpoint_terms(registration))
        self._take_out(registration, 0)

    def tidy(self, limit: int) -> int:
        """Go on taking out at most ``limit`` times what one call may; returns how often it did."""
        for done in range(limit):
            if not self._leaving:
                return done
            self._take_out(*self._leaving.popleft())
        return limit

    @property
    def is_tidy(self) -> bool:
        """Whether nothing is left for ``tidy``."""
        return not self._leaving

    def resources(self, query: LookupQuery, now: float) -> LinkSearch:
        """Search for links, as link format writes them."""
        rarest, others = self._plan(query.criteria)
        candidates: Iterable[int | None] = (
            each_in_order(self._of_link, self._changes)
            if rarest is None
            else self._link_candidates(rarest)
        )
        return LinkSearch(self._matching_links(candidates, others, now), _checks(others), query)

    def endpoints(self, query: LookupQuery, now: float) -> LinkSearch:
        """Search for endpoints, as links to their registrations."""
        rarest, others = self._plan(query.criteria)
        candidates: Iterable[int | None] = (
            each_in_order(self._registrations, self._changes)
            if rarest is None
            else self._orders(rarest)
        )
        return LinkSearch(self._matching_endpoints(candidates, others, now), _checks(others), query)

    def _matching_links(
        self, candidates: Iterable[int | None], others: Sequence[Criterion], now: float
    ) -> Iterator[str | None]:
        for key in candidates:
            registration = None if key is None else self._of_link.get(key)
            if (
                key is not None
                and registration is not None
                and registration.expires_at > now
                and all(self._meets(c, registration, key) for c in others)
            ):
                yield registration.texts[key - registration.order - 1]
            else:
                yield None

    def _matching_endpoints(
        self, candidates: Iterable[int | None], others: Sequence[Criterion], now: float
    ) -> Iterator[str | None]:
        for order in candidates:
            # One that leaves has links in the index still.
            registration = None if order is None else self._registrations.get(order)
            if registration is None or registration.expires_at <= now:
                yield None
                continue
            for criterion in others:
                if not (yield from self._endpoint_meets(criterion, registration)):
                    yield None
                    break
            else:
                yield str(registration.endpoint_link())

    def _take_out(self, registration: Registration, at: int) -> None:
        end = min(at + LINKS_AT_ONCE, len(registration.resolved))
        for number in range(at, end):
            key = registration.order + 1 + number
            del self._of_link[key]
            self._links_by_term.discard(key, link_terms(registration.resolved[number]))
        if end < len(registration.resolved):
            self._leaving.append((registration, end))

    def _meets(self, criterion: Criterion, registration: Registration, key: int) -> bool:
        if not criterion.is_prefix:
            return self._links_by_term.has(criterion, key) or self._registrations_by_term.has(
                criterion, registration.order
            )
        link = registration.resolved[key - registration.order - 1]
        return criterion.matches(link_terms(link)) or criterion.matches(
            endpoint_terms(registration)
        )

    def _endpoint_meets(
        self, criterion: Criterion, registration: Registration
    ) -> Generator[None, None, bool]:
        """Whether an endpoint or one of its links meets a criterion; pauses after some links."""
        order = registration.order
        if criterion.is_prefix:
            is_met = criterion.matches(endpoint_terms(registration))
        else:
            is_met = self._registrations_by_term.has(criterion, order)
        if is_met:
            return True
        for number, link in enumerate(registration.resolved, 1):
            if criterion.is_prefix:
                found = criterion.matches(link_terms(link))
            else:
                found = self._links_by_term.has(criterion, order + number)
            if found:
                return True
            if not number % LINKS_AT_ONCE:
                yield
        return False

    def _link_candidates(self, criterion: Criterion) -> Iterator[int | None]:
        own = self._links_by_term.find(criterion)
        orders = self._registrations_by_term.find(criterion)
        found = (self._registrations.get(order) for order in orders)
        of_registrations = chain.from_iterable(one.link_keys() for one in found if one is not None)
        return _each_once(own, of_registrations, criterion)

    def _orders(self, criterion: Criterion) -> Iterator[int | None]:
        found = (self._of_link.get(key) for key in self._links_by_term.find(criterion))
        of_links = (one.order for one in found if one is not None)
        return _each_once(self._registrations_by_term.find(criterion), of_links, criterion)

    def _plan(self, criteria: Sequence[Criterion]) -> tuple[Criterion | None, list[Criterion]]:
        """The criterion that the fewest meet, and the others, which only these are held to."""
        criteria = [c for c in criteria if c != EVERY_ENDPOINT]
        rarest = self._rarest(criteria)
        return rarest, [c for c in criteria if c is not rarest]

    def _rarest(self, criteria: Sequence[Criterion]) -> Criterion | None:
        # Only what the rarest criterion finds is checked against the others.
        if len(criteria) < 2:
            return criteria[0] if criteria else None
        return min(
            criteria,
            key=lambda c: self._links_by_term.estimate(c) + self._registrations_by_term.estimate(c),
        )


def _checks(others: Sequence[Criterion]) -> int:
    """How much is looked at for a candidate: of a prefix all terms, each by itself."""
    return 1 + sum(PREFIX_CHECKS if c.is_prefix else 1 for c in others)


def _each_once(
    one: Iterable[int], other: Iterable[int], criterion: Criterion
) -> Iterator[int | None]:
    """Both together, each once, and None for what comes again.

    In order, where that does not take going through very many.
    """
    if not criterion.is_prefix:  # under one term, ids stand in order
        last = 0
        for key in merge(one, other):
            yield None if key == last else key
            last = key
        return
    both = chain(one, other)
    first = dict.fromkeys(islice(both, IN_ORDER_MAX))
    more = next(both, None)
    if more is None:
        yield from sorted(first)
        return
    yield from first
    given = set(first)
    for key in chain((more,), both):
        yield None if key in given else key
        given.add(key)
