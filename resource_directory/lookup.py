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
from typing import Final

from resource_directory.id_set import IdSet
from resource_directory.index import Criterion, Index, Term
from resource_directory.ordered_ids import ChangeCount, each_in_order
from resource_directory.query import LookupQuery
from resource_directory.registration import Registration
from resource_directory.search import ChecksDone, LinkMatch, LinkSearch
from resource_directory.terms import EVERY_ENDPOINT, endpoint_terms, link_terms

IN_ORDER_MAX: Final = 256
TERMS_AT_ONCE: Final = 160
"""So many terms of one registration, or a link's, are taken out of the index in one go: those of 32
links, as most are."""
LEAVING_MAX: Final = 8
"""Beyond so many registrations that leave, no more are left behind by those that come."""
CANDIDATE_CHECKS: Final = 4
"""So much takes a candidate, and each other criterion that it is held to."""
WRITTEN_CHECKS: Final = 24
"""So much takes writing an endpoint's link; those of resources are written."""
_NOTHING: Final = 0
"""No id, where something was looked at and none was found."""


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
        """Let a registration be found; it stands after those that were added before.

        Where many leave still, as many of their terms are taken out as are put in.
        """
        order = registration.order = self._next_order
        self._next_order = order + 1 + len(registration.texts)
        self._registrations[order] = registration
        self._registrations_by_term.add(order, endpoint_terms(registration))
        terms_in_all = 0
        for number, key in enumerate(registration.link_keys()):
            self._of_link[key] = registration
            terms = link_terms(registration, number)
            terms_in_all += len(terms)
            self._links_by_term.add(key, terms)
        if len(self._leaving) > LEAVING_MAX:
            self.tidy(terms_in_all // TERMS_AT_ONCE + 1)

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
        """Return whether nothing is left for ``tidy``."""
        return not self._leaving

    def resources(self, query: LookupQuery, now: float) -> LinkSearch:
        """Search for links, as link format writes them."""
        rarest, others = self._plan(query.criteria)
        candidates = (
            self._keys_of(each_in_order(self._registrations, self._changes))
            if rarest is None
            else self._link_candidates(rarest)
        )
        checks = ChecksDone()
        return LinkSearch(self._matching_links(candidates, others, now, checks), checks, query)

    def endpoints(self, query: LookupQuery, now: float) -> LinkSearch:
        """Search for endpoints, as links to their registrations."""
        rarest, others = self._plan(query.criteria)
        candidates = (
            each_in_order(self._registrations, self._changes)
            if rarest is None
            else self._orders(rarest)
        )
        checks = ChecksDone()
        matches = self._matching_endpoints(candidates, others, now, checks)
        return LinkSearch(matches, checks, query, is_of_endpoints=True)

    def _matching_links(
        self, candidates: Iterable[int], others: Sequence[Criterion], now: float, checks: ChecksDone
    ) -> Iterator[LinkMatch | None]:
        since = self._next_order
        for key in candidates:
            checks.done += CANDIDATE_CHECKS
            registration = self._of_link.get(key)
            if (
                registration is None
                or registration.expires_at <= now
                or not self._meets_all(others, registration, key, checks)
            ):
                yield None
                continue
            text = registration.texts[key - registration.order - 1]
            yield text, registration.location, key >= since

    def _matching_endpoints(
        self, candidates: Iterable[int], others: Sequence[Criterion], now: float, checks: ChecksDone
    ) -> Iterator[LinkMatch | None]:
        since = self._next_order
        for order in candidates:
            checks.done += CANDIDATE_CHECKS
            # One that leaves has links in the index still.
            registration = self._registrations.get(order)
            if registration is None or registration.expires_at <= now:
                yield None
                continue
            for criterion in others:
                if not (yield from self._endpoint_meets(criterion, registration, checks)):
                    yield None
                    break
            else:
                checks.done += WRITTEN_CHECKS
                yield str(registration.endpoint_link()), registration.location, order >= since

    def _take_out(self, registration: Registration, at: int) -> None:
        left = TERMS_AT_ONCE
        while at < len(registration.texts):
            if left <= 0:
                self._leaving.append((registration, at))
                return
            key, terms = registration.order + 1 + at, link_terms(registration, at)
            del self._of_link[key]
            self._links_by_term.discard(key, terms)
            left -= len(terms)
            at += 1

    def _meets_all(
        self,
        criteria: Sequence[Criterion],
        registration: Registration,
        key: int,
        checks: ChecksDone,
    ) -> bool:
        number = key - registration.order - 1
        terms: tuple[Term, ...] | None = None
        for criterion in criteria:
            checks.done += CANDIDATE_CHECKS
            if criterion.is_prefix:
                if terms is None:
                    terms = link_terms(registration, number)
                    checks.done += len(terms)
                # A list has a term for each of its values.
                checks.done += len(terms) + len(registration.attributes)
                is_met = criterion.matches(terms) or criterion.matches(endpoint_terms(registration))
            else:
                is_met = self._links_by_term.has(criterion, key) or self._registrations_by_term.has(
                    criterion, registration.order
                )
            if not is_met:
                return False
        return True

    def _endpoint_meets(
        self, criterion: Criterion, registration: Registration, checks: ChecksDone
    ) -> Generator[None, None, bool]:
        """Yield whether an endpoint or one of its links meets a criterion; pauses between links."""
        order = registration.order
        checks.done += CANDIDATE_CHECKS
        if criterion.is_prefix:
            checks.done += len(registration.attributes)
            is_met = criterion.matches(endpoint_terms(registration))
        else:
            is_met = self._registrations_by_term.has(criterion, order)
        if is_met:
            return True
        for number, key in enumerate(registration.link_keys()):
            checks.done += 1
            if criterion.is_prefix:
                terms = link_terms(registration, number)
                checks.done += len(terms)
                is_met = criterion.matches(terms)
            else:
                is_met = self._links_by_term.has(criterion, key)
            if is_met:
                return True
            yield
        return False

    def _keys_of(self, orders: Iterable[int]) -> Iterator[int]:
        """Yield the links of registrations, and nothing for one that has none or has gone."""
        for order in orders:
            registration = self._registrations.get(order)
            if registration is None or not registration.texts:
                yield _NOTHING
            else:
                yield from registration.link_keys()

    def _link_candidates(self, criterion: Criterion) -> Iterator[int]:
        own = self._links_by_term.find(criterion)
        of_registrations = self._keys_of(self._registrations_by_term.find(criterion))
        return _each_once(own, of_registrations, criterion)

    def _orders(self, criterion: Criterion) -> Iterator[int]:
        of_links = self._orders_of(self._links_by_term.find(criterion))
        return _each_once(self._registrations_by_term.find(criterion), of_links, criterion)

    def _orders_of(self, keys: Iterable[int]) -> Iterator[int]:
        for key in keys:
            registration = self._of_link.get(key)
            yield _NOTHING if registration is None else registration.order

    def _plan(self, criteria: Sequence[Criterion]) -> tuple[Criterion | None, list[Criterion]]:
        """Return the criterion that the fewest meet, and the others, which only these are held
        to."""
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


def _each_once(one: Iterable[int], other: Iterable[int], criterion: Criterion) -> Iterator[int]:
    """Yield both together, each once, and nothing for what comes again.

    In order, where that does not take going through very many.
    """
    if not criterion.is_prefix:  # under one term, ids stand in order
        last = _NOTHING
        for key in merge(one, other):
            yield key if key > last else _NOTHING
            last = max(last, key)
        return
    both = chain(one, other)
    first = dict.fromkeys(islice(both, IN_ORDER_MAX))
    more = next(both, None)
    if more is None:
        yield from sorted(first)
        return
    yield from first
    given = IdSet()
    for key in first:
        given.add(key)
    for key in chain((more,), both):
        yield key if given.add(key) else _NOTHING
