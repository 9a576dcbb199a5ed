"""A document that another machine told: nothing of it is taken for granted.

It may be of an earlier version, of a gateway that is broken, or no document at all. So whoever
reads it names what it wants, and gets that in its type, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

ITEMS_MAX: Final = 5_000
"""Of a list, so many are read."""


class GatewayDocument:
    """A JSON document that a gateway sent, read with care for its types.

    Args:
        value: as JSON has it.

    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def at(self, *path: str) -> GatewayDocument:
        """Return what stands at a path of names; nothing if there is no such path."""
        value = self._value
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return GatewayDocument(value)

    def is_table(self) -> bool:
        """Return whether it has names."""
        return isinstance(self._value, dict)

    def text(self, *path: str) -> str:
        """Return a text; empty if there is none."""
        value = self.at(*path)._value
        return value if isinstance(value, str) else ""

    def number(self, *path: str) -> float | None:
        """Return a finite number; None if there is none."""
        value = self.at(*path)._value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if math.isfinite(found) else None

    def count(self, *path: str) -> int:
        """Return a number that is not below 0, as a whole one; 0 if there is none."""
        found = self.number(*path)
        return 0 if found is None or found < 0 else int(found)

    def is_true(self, *path: str) -> bool:
        """Return whether there is a true."""
        return self.at(*path)._value is True

    def each(self, *path: str) -> Iterator[GatewayDocument]:
        """Give the tables of a list, `ITEMS_MAX` at most."""
        value = self.at(*path)._value
        for one in value[:ITEMS_MAX] if isinstance(value, list) else ():
            if isinstance(one, dict):
                yield GatewayDocument(one)

    def numbers(self, *path: str) -> tuple[float, ...]:
        """Return a list of finite numbers; nothing if anything else stands in it."""
        value = self.at(*path)._value
        listed = value[:ITEMS_MAX] if isinstance(value, list) else []
        found = [GatewayDocument(one).number() for one in listed]
        known = [one for one in found if one is not None]
        return tuple(known) if len(known) == len(found) else ()

    def named(self, *path: str) -> Iterator[tuple[str, GatewayDocument]]:
        """Give the entries of a table, `ITEMS_MAX` at most."""
        value = self.at(*path)._value
        for number, (name, one) in enumerate(value.items() if isinstance(value, dict) else ()):
            if number >= ITEMS_MAX:
                return
            yield str(name), GatewayDocument(one)
