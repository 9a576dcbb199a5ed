"""From a term, an attribute's name and value, to the ids that have it; also by prefix of the value.

Ids only grow and one that changes gets a new id, so that ids under a term stand in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from light_dataclasses import dataclass
from resource_directory.ordered_ids import ChangeCount, each_in_order
from resource_directory.sorted_values import SortedValues
from resource_directory.uri import normalised

Term = tuple[str, str]
URIS: Final = frozenset({"href", "anchor", "base"})
"""Attributes whose values are URIs: those that are equivalent are the same (RFC 3986, 6.2)."""

_COUNTED_VALUES: Final = 32
"""Of a prefix, so many values' ids are counted to estimate; of more the values alone."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of a look-up: an attribute has this value, or one that starts with it.

    RFC 6690, section 4.1: ``rt=temp*`` is a prefix.
    """

    name: str
    value: str
    is_prefix: bool = False

    @classmethod
    def parse(cls, name: str, value: str) -> Criterion:
        """Read a query's parameter."""
        is_prefix = value.endswith("*")
        value = value[:-1] if is_prefix else value
        if name in URIS:
            value = normalised(value, is_prefix=is_prefix)
        return cls(name, value, is_prefix)

    def matches(self, terms: Iterable[Term]) -> bool:
        """Return whether one of the terms is asked for."""
        for name, value in terms:
            if name == self.name and (
                value.startswith(self.value) if self.is_prefix else value == self.value
            ):
                return True
        return False


class Index:
    """An inverted index of ids by term.

    Most values of ``href``, ``ep`` and ``base`` have one id, which stands without a container.

    Args:
        changes: is told when ids come or go.

    """

    def __init__(self, changes: ChangeCount) -> None:
        self._changes = changes
        self._ids: dict[str, dict[str, int | dict[int, None]]] = {}
        self._values: dict[str, SortedValues] = {}
        """Of names that have more than one."""

    def add(self, key: int, terms: Iterable[Term]) -> None:
        """Put an id, greater than those before it, under its terms."""
        self._changes.count += 1
        for name, value in terms:
            by_value = self._ids.get(name)
            if by_value is None:
                by_value = self._ids[name] = {}
            held = by_value.get(value)
            if held is None:
                by_value[value] = key
                self._sort(name, value, by_value)
            elif isinstance(held, dict):
                held[key] = None
            elif held != key:
                by_value[value] = {held: None, key: None}

    def discard(self, key: int, terms: Iterable[Term]) -> None:
        """Take an id away from its terms."""
        self._changes.count += 1
        for name, value in terms:
            by_value = self._ids.get(name)
            held = None if by_value is None else by_value.get(value)
            if by_value is None or held is None:  # a link may have one term twice
                continue
            if isinstance(held, dict):
                held.pop(key, None)
                if held:
                    continue
            elif held != key:
                continue
            del by_value[value]
            values = self._values.get(name)
            if values is not None:
                values.discard(value)
            if not by_value:
                del self._ids[name]
                self._values.pop(name, None)

    def estimate(self, criterion: Criterion) -> int:
        """Estimate how many ids ``find`` would give, without going through them."""
        by_value = self._ids.get(criterion.name)
        if by_value is None:
            return 0
        if not criterion.is_prefix:
            return _count(by_value.get(criterion.value))
        few = islice(self._starting_with(criterion, by_value), _COUNTED_VALUES)
        ids = sum(_count(by_value.get(value)) for value in few)
        values = self._values.get(criterion.name)
        return ids if values is None else max(values.count(criterion.value), ids)

    def has(self, criterion: Criterion, key: int) -> bool:
        """Return whether an id has the term of a criterion that is no prefix."""
        by_value = self._ids.get(criterion.name)
        held = None if by_value is None else by_value.get(criterion.value)
        return key in held if isinstance(held, dict) else held == key

    def find(self, criterion: Criterion) -> Iterable[int]:
        """Return the ids that have a term that is asked for.

        In order, each once, if the criterion is no prefix. Else in the order of the values, and
        one may come again. Others may come and go meanwhile.
        """
        by_value = self._ids.get(criterion.name)
        if by_value is None:
            return ()
        if not criterion.is_prefix:
            return self._each(by_value.get(criterion.value))
        return self._each_of(by_value, self._starting_with(criterion, by_value))

    def _sort(self, name: str, value: str, by_value: Iterable[str]) -> None:
        """Put a value among the others of a name; where it is the only one, that takes nothing."""
        values = self._values.get(name)
        if values is not None:
            values.add(value)
            return
        all_values = list(by_value)
        if len(all_values) > 1:
            values = self._values[name] = SortedValues()
            for one in all_values:
                values.add(one)

    def _starting_with(self, criterion: Criterion, by_value: Iterable[str]) -> Iterable[str]:
        values = self._values.get(criterion.name)
        if values is not None:
            return values.starting_with(criterion.value)
        return [one for one in by_value if one.startswith(criterion.value)]

    def _each_of(
        self, by_value: dict[str, int | dict[int, None]], values: Iterable[str]
    ) -> Iterator[int]:
        # A generator of its own: mypyc goes through a generator expression at once.
        for value in values:
            yield from self._each(by_value.get(value))

    def _each(self, held: int | dict[int, None] | None) -> Iterable[int]:
        if held is None:
            return ()
        return each_in_order(held, self._changes) if isinstance(held, dict) else (held,)


def _count(held: int | dict[int, None] | None) -> int:
    if held is None:
        return 0
    return len(held) if isinstance(held, dict) else 1
