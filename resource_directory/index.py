"""From a term, an attribute's name and value, to the ids that have it; also by prefix of the value.

Ids only grow and one that changes gets a new id, so that ids under a term stand in their order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

Term = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a look-up asks of an attribute: this value, or one that starts with it.

    RFC 6690, section 4.1: ``rt=temp*`` is a prefix.
    """

    name: str
    value: str
    is_prefix: bool = False

    @classmethod
    def parse(cls, name: str, value: str) -> Criterion:
        """Read a query's parameter."""
        if value.endswith("*"):
            return cls(name, value[:-1], is_prefix=True)
        return cls(name, value)

    def matches(self, terms: Iterable[Term]) -> bool:
        """Whether one of the terms is asked for."""
        for name, value in terms:
            if name == self.name and (
                value.startswith(self.value) if self.is_prefix else value == self.value
            ):
                return True
        return False


class Index:
    """An inverted index of ids by term."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, dict[int, None]]] = {}
        self._values: dict[str, list[str]] = {}

    def add(self, key: int, terms: Iterable[Term]) -> None:
        """Put an id, greater than those before it, under its terms."""
        for name, value in terms:
            by_value = self._ids.setdefault(name, {})
            if value in by_value:
                by_value[value][key] = None
            else:
                by_value[value] = {key: None}
                insort(self._values.setdefault(name, []), value)

    def discard(self, key: int, terms: Iterable[Term]) -> None:
        """Take an id away from its terms."""
        for name, value in terms:
            ids = self._ids.get(name, {}).get(value, {})
            if key not in ids:  # a link may have one term twice
                continue
            del ids[key]
            if not ids:
                del self._ids[name][value]
                values = self._values[name]
                del values[bisect_left(values, value)]
                if not values:
                    del self._ids[name], self._values[name]

    def estimate(self, criterion: Criterion) -> int:
        """About how many ids ``find`` would give, found without going through them."""
        if criterion.is_prefix:
            first, last = self._range(criterion)
            return last - first
        return len(self._ids.get(criterion.name, {}).get(criterion.value, {}))

    def find(self, criterion: Criterion) -> Iterable[int]:
        """The ids that have a term that is asked for; one may come twice."""
        by_value = self._ids.get(criterion.name, {})
        if not criterion.is_prefix:
            return by_value.get(criterion.value, {})
        first, last = self._range(criterion)
        values = self._values.get(criterion.name, [])[first:last]
        return (key for value in values for key in by_value[value])

    def _range(self, criterion: Criterion) -> tuple[int, int]:
        values = self._values.get(criterion.name, [])
        first = bisect_left(values, criterion.value)
        # From `first` on, the values that start with the prefix come first.
        last = bisect_left(
            values, True, lo=first, key=lambda value: not value.startswith(criterion.value)
        )
        return first, last
