"""Look-up of resources and endpoints by any attribute (RFC 9176, section 6), without a scan.

All criteria must hold. In a look-up of resources each must hold for the link or for its
registration; in one of endpoints, for the registration or for one of its links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from resource_directory.errors import InvalidParameterError
from resource_directory.index import Criterion, Index, Term
from resource_directory.link_format import WebLink
from resource_directory.registration import Registration

MAX_CRITERIA = 16

# RFC 6690, section 3, and RFC 7252, section 7.2.1: lists separated by spaces, of which each counts.
_LISTS = frozenset({"rel", "rev", "rt", "if", "ct"})
_EVERY_ENDPOINT = Criterion("rt", "core.rd-ep")


@dataclass(frozen=True, slots=True)
class LookupQuery:
    """A look-up's criteria and which part of its answer is wanted.

    Attributes:
        criteria: all of them must hold.
        page: which part, from 0.
        count: length of a part; None for the whole answer.

    """

    criteria: tuple[Criterion, ...] = ()
    page: int = 0
    count: int | None = None

    @classmethod
    def parse(cls, parameters: Iterable[str]) -> LookupQuery:
        """Read the parameters of a query, ``name=value`` each.

        Raises:
            InvalidParameterError: ``page`` or ``count`` is no number in range or comes twice,
                ``page`` comes without ``count``, or there are more than ``MAX_CRITERIA``.

        """
        criteria: list[Criterion] = []
        paging: dict[str, int] = {}
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name not in ("page", "count"):
                criteria.append(Criterion.parse(name, value))
                continue
            if name in paging:
                raise InvalidParameterError("given twice", name)
            if not (value.isascii() and value.isdigit() and len(value) < 10):
                raise InvalidParameterError(f"{name} is no number", value)
            paging[name] = int(value)
        if len(criteria) > MAX_CRITERIA:
            raise InvalidParameterError(f"more than {MAX_CRITERIA} criteria", len(criteria))
        if "page" in paging and "count" not in paging:
            raise InvalidParameterError("page without count", paging["page"])
        if paging.get("count") == 0:
            raise InvalidParameterError("count is not at least 1", 0)
        return cls(tuple(criteria), paging.get("page", 0), paging.get("count"))

    def part(self, matches: Iterator[WebLink]) -> list[WebLink]:
        """The wanted part of all matches."""
        if self.count is None:
            return list(matches)
        return list(islice(matches, self.page * self.count, (self.page + 1) * self.count))


class LookUp:
    """The links and endpoints of registrations, by their terms."""

    def __init__(self) -> None:
        self._registrations: dict[int, Registration] = {}
        self._links: dict[int, tuple[WebLink, Registration]] = {}
        self._link_keys: dict[int, range] = {}
        self._registrations_by_term = Index()
        self._links_by_term = Index()
        self._order: dict[int, int] = {}
        self._next_key = 1

    def add(self, registration: Registration) -> None:
        """Let a registration be found; it stands after those that were added before."""
        first = self._next_key + 1
        self._order[registration.key] = self._next_key
        self._next_key = first + len(registration.resolved)
        self._registrations[self._order[registration.key]] = registration
        self._registrations_by_term.add(
            self._order[registration.key], _endpoint_terms(registration)
        )
        self._link_keys[registration.key] = range(first, self._next_key)
        for key, link in enumerate(registration.resolved, first):
            self._links[key] = (link, registration)
            self._links_by_term.add(key, _link_terms(link))

    def remove(self, registration: Registration) -> None:
        """Let a registration, unchanged since it was added, be found no more."""
        order = self._order.pop(registration.key)
        del self._registrations[order]
        self._registrations_by_term.discard(order, _endpoint_terms(registration))
        for key in self._link_keys.pop(registration.key):
            link, _ = self._links.pop(key)
            self._links_by_term.discard(key, _link_terms(link))

    def resources(self, criteria: Sequence[Criterion], now: float) -> Iterator[WebLink]:
        """The links that match, in the order in which they were added."""
        for key in self._link_candidates(criteria):
            link, registration = self._links[key]
            if registration.expires_at > now and all(
                c.matches(_link_terms(link)) or c.matches(_endpoint_terms(registration))
                for c in criteria
            ):
                yield link

    def endpoints(self, criteria: Sequence[Criterion], now: float) -> Iterator[WebLink]:
        """The endpoints that match, as links to their registrations, in their order."""
        criteria = [c for c in criteria if c != _EVERY_ENDPOINT]
        for order in self._registration_candidates(criteria):
            registration = self._registrations[order]
            if registration.expires_at > now and all(
                c.matches(_endpoint_terms(registration))
                or any(c.matches(_link_terms(link)) for link in registration.resolved)
                for c in criteria
            ):
                yield registration.endpoint_link()

    def _link_candidates(self, criteria: Sequence[Criterion]) -> Iterable[int]:
        rarest = self._rarest(criteria)
        if rarest is None:
            return self._links
        keys = self._links_by_term.find(rarest)
        orders = self._registrations_by_term.find(rarest)
        of_registrations = chain.from_iterable(
            self._link_keys[self._registrations[order].key] for order in orders
        )
        return _in_order(keys, of_registrations, rarest)

    def _registration_candidates(self, criteria: Sequence[Criterion]) -> Iterable[int]:
        rarest = self._rarest(criteria)
        if rarest is None:
            return self._registrations
        orders = self._registrations_by_term.find(rarest)
        of_links = (
            self._order[self._links[key][1].key] for key in self._links_by_term.find(rarest)
        )
        return sorted({*orders, *of_links})

    def _rarest(self, criteria: Sequence[Criterion]) -> Criterion | None:
        # Only what the rarest criterion finds is checked against the others.
        return min(
            criteria,
            key=lambda c: self._links_by_term.estimate(c) + self._registrations_by_term.estimate(c),
            default=None,
        )


def _in_order(
    own: Iterable[int], of_registrations: Iterator[int], criterion: Criterion
) -> Iterable[int]:
    """Both in order, each once; what has an order already is not gone through to sort it."""
    if not criterion.is_prefix:  # under one term, ids stand in order
        first = next(of_registrations, None)
        if first is None:
            return own
        of_registrations = chain([first], of_registrations)
        if next(iter(own), None) is None:
            return of_registrations
    return sorted({*own, *of_registrations})


def _link_terms(link: WebLink) -> Iterator[Term]:
    yield "href", link.href
    for name, value in link.attributes:
        if name in _LISTS and value:
            for item in value.split():
                yield name, item
        else:
            yield name, value or ""


def _endpoint_terms(registration: Registration) -> Iterator[Term]:
    yield "href", registration.location
    yield "ep", registration.endpoint
    if registration.sector:
        yield "d", registration.sector
    yield "base", registration.base
    yield "lt", str(registration.lifetime_s)
    yield from registration.attributes
