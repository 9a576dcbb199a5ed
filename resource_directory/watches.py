"""Watched look-ups, and which of them a registration changes (RFC 9176, section 6.2; RFC 7641).

Each look-up that somebody watches stands under one of its criteria. A registration that comes,
changes or goes has few terms, and only what stands under one of them is looked at: neither the
number of watchers nor that of endpoints counts. Many who watch the same look-up are one.

Who watches very many look-ups makes no registration slow: it costs a few times as much as it takes
itself, and what is not looked at by then counts as changed. Whoever asks again finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from resource_directory.errors import DirectoryFullError
from resource_directory.index import Criterion, Term
from resource_directory.query import LookupQuery
from resource_directory.registration import Registration
from resource_directory.terms import EVERY_ENDPOINT, endpoint_terms, link_terms

WATCHES_MAX: Final = 10_000
CHECKS_AT_LEAST: Final = 4_000
CHECKS_PER_TERM: Final = 8
"""So many terms and criteria are looked at for one registration, and so many more for each of its
terms: about as long as it takes to put it into the index."""


@dataclass(slots=True, eq=False)
class _Watched:
    """One look-up, and who watches it."""

    criteria: tuple[Criterion, ...]
    of_endpoints: bool
    name: tuple[bool, LookupQuery]
    watchers: set[int] = field(default_factory=set)


class _ChecksLeft:
    """A count of what may still be looked at for one registration."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, checks: int) -> bool:
        """Return whether that much may be looked at; once that is not so, nothing more may."""
        self.left -= checks
        return self.left >= 0


class Watches:
    """Watched look-ups; a `resource_directory.registry.RegistryListener`."""

    def __init__(self) -> None:
        self._by_key: dict[int, _Watched] = {}
        self._by_name: dict[tuple[bool, LookupQuery], _Watched] = {}
        self._by_term: dict[Term, set[_Watched]] = {}
        self._by_prefix: dict[str, dict[str, set[_Watched]]] = {}
        self._of_all: set[_Watched] = set()
        self._changed: dict[_Watched, None] = {}
        self._last_key = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, query: LookupQuery, *, of_endpoints: bool) -> int:
        """Watch a look-up; returns the watch's number.

        Raises:
            DirectoryFullError: there are `WATCHES_MAX` watches.

        """
        if len(self._by_key) >= WATCHES_MAX:
            raise DirectoryFullError(f"{WATCHES_MAX} watches")
        name = (of_endpoints, query)
        watched = self._by_name.get(name)
        if watched is None:
            criteria = tuple(c for c in query.criteria if c != EVERY_ENDPOINT)
            watched = self._by_name[name] = _Watched(criteria, of_endpoints, name)
            self._place(watched).add(watched)
        self._last_key += 1
        self._by_key[self._last_key] = watched
        watched.watchers.add(self._last_key)
        return self._last_key

    def discard(self, key: int) -> None:
        """End a watch."""
        watched = self._by_key.pop(key, None)
        if watched is None:
            return
        watched.watchers.discard(key)
        if watched.watchers:
            return
        del self._by_name[watched.name]
        self._changed.pop(watched, None)
        place = self._place(watched)
        place.discard(watched)
        criterion = _chosen(watched.criteria)
        if place or criterion is None:
            return
        if not criterion.is_prefix:
            del self._by_term[criterion.name, criterion.value]
            return
        del self._by_prefix[criterion.name][criterion.value]
        if not self._by_prefix[criterion.name]:
            del self._by_prefix[criterion.name]

    def take_changed(self) -> list[int]:
        """Return the watches whose look-up may answer otherwise than when this was last asked."""
        keys = [key for watched in self._changed for key in sorted(watched.watchers)]
        self._changed.clear()
        return keys

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """Take note of a change; see `RegistryListener`."""
        if not self._by_name:
            return
        for registration in (before, after):
            if registration is not None:
                self._look_at(registration)

    def renewed(self, registration: Registration) -> None:
        """Nothing that is looked up has changed."""

    def _look_at(self, registration: Registration) -> None:
        own = set(endpoint_terms(registration))
        of_links = [
            set(link_terms(registration, number)) for number in range(len(registration.texts))
        ]
        terms = len(own) + sum(map(len, of_links))
        checks = _ChecksLeft(CHECKS_AT_LEAST + CHECKS_PER_TERM * terms)
        of_all = own.union(*of_links)
        for watched in self._candidates(of_all, checks):
            if watched in self._changed or _lacks(watched, of_all):
                continue
            if _finds(watched, own, of_links, checks):
                self._changed[watched] = None

    def _candidates(self, terms: Iterable[Term], checks: _ChecksLeft) -> Iterable[_Watched]:
        found = set(self._of_all)
        for term in terms:
            if term in self._by_term:
                found |= self._by_term[term]
            name, value = term
            prefixes = self._by_prefix.get(name)
            if prefixes is None:
                continue
            if not checks.take(min(len(prefixes), len(value) + 1)):
                return self._by_name.values()
            if len(prefixes) < len(value):
                for prefix, watched in prefixes.items():
                    if value.startswith(prefix):
                        found |= watched
            else:
                for end in range(len(value) + 1):
                    found |= prefixes.get(value[:end], set())
        return found

    def _place(self, watched: _Watched) -> set[_Watched]:
        criterion = _chosen(watched.criteria)
        if criterion is None:
            return self._of_all
        if not criterion.is_prefix:
            return self._by_term.setdefault((criterion.name, criterion.value), set())
        prefixes = self._by_prefix.setdefault(criterion.name, {})
        return prefixes.setdefault(criterion.value, set())


def _chosen(criteria: Sequence[Criterion]) -> Criterion | None:
    """Return the criterion under which a look-up stands: the one that seems met by the fewest."""
    return min(
        criteria, key=lambda c: (c.is_prefix, c.name != "href", c.name != "ep"), default=None
    )


def _lacks(watched: _Watched, terms: set[Term]) -> bool:
    """Return whether something is sought that a registration and all of its links lack."""
    return any(not c.is_prefix and (c.name, c.value) not in terms for c in watched.criteria)


def _finds(
    watched: _Watched, own: set[Term], of_links: Sequence[set[Term]], checks: _ChecksLeft
) -> bool:
    """Return whether a look-up finds a registration; true, too, if that takes too long to say."""
    if not of_links and not watched.of_endpoints:
        return False
    others = [c for c in watched.criteria if not _meets(c, own, checks)]
    if watched.of_endpoints:
        return all(any(_meets(c, terms, checks) for terms in of_links) for c in others)
    return any(all(_meets(c, terms, checks) for c in others) for terms in of_links)


def _meets(criterion: Criterion, terms: set[Term], checks: _ChecksLeft) -> bool:
    if not checks.take(len(terms) if criterion.is_prefix else 1):
        return True
    if criterion.is_prefix:
        return criterion.matches(terms)
    return (criterion.name, criterion.value) in terms
