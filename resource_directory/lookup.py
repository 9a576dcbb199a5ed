"""Look-up of resources and endpoints by any attribute (RFC 9176, section 6), without a scan.

All criteria must hold. In a look-up of resources each must hold for the link or for its
registration; in one of endpoints, for the registration or for one of its links.

What is found comes in the order of registration. Where a prefix finds more than `IN_ORDER_MAX` it
comes in the order of the values instead, or a first page would cost as much as all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice

from resource_directory.index import Criterion, Index
from resource_directory.link_format import WebLink
from resource_directory.registration import Registration
from resource_directory.terms import EVERY_ENDPOINT, endpoint_terms, link_terms

IN_ORDER_MAX = 256
LINKS_AT_ONCE = 32
"""So many links of one registration are taken out of the index in one call."""


class LookUp:
    """The links and endpoints of registrations, by their terms."""

    def __init__(self) -> None:
        self._registrations: dict[int, Registration] = {}
        self._of_link: dict[int, Registration] = {}
        self._registrations_by_term = Index()
        self._links_by_term = Index()
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

    def resources(
        self, criteria: Sequence[Criterion], now: float
    ) -> Iterator[tuple[Registration, int]]:
        """The links that match, as registrations and places in their links, in their order."""
        criteria = [c for c in criteria if c != EVERY_ENDPOINT]
        rarest = self._rarest(criteria)
        others = [c for c in criteria if c is not rarest]
        for key in self._of_link if rarest is None else self._link_candidates(rarest):
            registration = self._of_link[key]
            if registration.expires_at > now and all(
                self._meets(c, registration, key) for c in others
            ):
                yield registration, key - registration.order - 1

    def endpoints(self, criteria: Sequence[Criterion], now: float) -> Iterator[Registration]:
        """The endpoints that match, as registrations, in their order."""
        criteria = [c for c in criteria if c != EVERY_ENDPOINT]
        rarest = self._rarest(criteria)
        others = [c for c in criteria if c is not rarest]
        for order in self._registrations if rarest is None else self._orders(rarest):
            registration = self._registrations.get(order)  # one that leaves has links in the index
            if (
                registration is not None
                and registration.expires_at > now
                and all(self._endpoint_meets(c, registration) for c in others)
            ):
                yield registration

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

    def _endpoint_meets(self, criterion: Criterion, registration: Registration) -> bool:
        if criterion.is_prefix:
            return criterion.matches(endpoint_terms(registration)) or any(
                criterion.matches(link_terms(link)) for link in registration.resolved
            )
        has = self._links_by_term.has
        return self._registrations_by_term.has(criterion, registration.order) or any(
            has(criterion, key) for key in registration.link_keys()
        )

    def _link_candidates(self, criterion: Criterion) -> Iterable[int]:
        own = self._links_by_term.find(criterion)
        orders = self._registrations_by_term.find(criterion)
        of_registrations = chain.from_iterable(
            self._registrations[order].link_keys() for order in orders
        )
        return _each_once(own, of_registrations, criterion)

    def _orders(self, criterion: Criterion) -> Iterable[int]:
        of_links = (self._of_link[key].order for key in self._links_by_term.find(criterion))
        return _each_once(self._registrations_by_term.find(criterion), of_links, criterion)

    def _rarest(self, criteria: Sequence[Criterion]) -> Criterion | None:
        # Only what the rarest criterion finds is checked against the others.
        if len(criteria) < 2:
            return criteria[0] if criteria else None
        return min(
            criteria,
            key=lambda c: self._links_by_term.estimate(c) + self._registrations_by_term.estimate(c),
        )


def _each_once(one: Iterable[int], other: Iterable[int], criterion: Criterion) -> Iterator[int]:
    """Both together, each once; in order where that does not take going through very many."""
    if not criterion.is_prefix:  # under one term, ids stand in order
        last = 0
        for key in merge(one, other):
            if key != last:
                yield key
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
        if key not in given:
            given.add(key)
            yield key


def texts(found: Iterable[tuple[Registration, int]]) -> Iterator[str]:
    """What is found, as link format writes it."""
    return (registration.texts[number] for registration, number in found)


def links(found: Iterable[tuple[Registration, int]]) -> Iterator[WebLink]:
    """What is found, as links."""
    return (registration.resolved[number] for registration, number in found)
