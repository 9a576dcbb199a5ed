"""Reads one sensor's table of the configuration, key by key; every error names its key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.printable import printable


class SensorConfigError(ValueError):
    """A sensor's configuration is wrong.

    Args:
        key: the key at fault, as ``sensors[1].speed``.
        why: what is wrong with it.

    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(printable(f"{key}: {why}"))
        self.key = key
        self.why = printable(why)


class SensorOptions:
    """The keys of one table; each may be taken once, and none must be left.

    Args:
        table: the table.
        where: what to call it in an error, as ``sensors[1]``.
        is_afar: it was sent here, so that it may not name files or code of this machine.

    """

    def __init__(self, table: Mapping[str, Any], where: str, *, is_afar: bool = False) -> None:
        self._left = dict(table)
        self._where = where
        self._is_afar = is_afar

    def error(self, key: str, why: str) -> SensorConfigError:
        """An error that names ``key`` of this table."""
        return SensorConfigError(f"{self._where}.{key}" if key else self._where, why)

    def has(self, key: str) -> bool:
        """Whether the key is there and not taken yet."""
        return key in self._left

    def text(self, key: str, default: str | None = None) -> str:
        """A text; ``default`` if the key is missing.

        Raises:
            SensorConfigError: missing without a default, or no text.

        """
        value = self._left.pop(key, default)
        if value is None:
            raise self.error(key, "missing")
        if not isinstance(value, str) or not value:
            raise self.error(key, f"{value!r} is not a text")
        return value

    def near(self, key: str, default: str | None = None) -> str:
        """A text that names a file or code of this machine; only the configuration may.

        Raises:
            SensorConfigError: as `text`; or it was sent here.

        """
        if self._is_afar and key in self._left:
            raise self.error(key, "only the configuration may say this")
        return self.text(key, default)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; ``default`` if the key is missing.

        Raises:
            SensorConfigError: missing without a default, or no whole number.

        """
        value = self._left.pop(key, default)
        if value is None:
            raise self.error(key, "missing")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"{value!r} is not a whole number")
        return value

    def number(self, key: str, default: float) -> float:
        """A finite number; ``default`` if the key is missing.

        Raises:
            SensorConfigError: no finite number.

        """
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{value!r} is not a number")
        if not math.isfinite(value):
            raise self.error(key, f"{value} is not finite")
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false; ``default`` if the key is missing.

        Raises:
            SensorConfigError: neither.

        """
        value = self._left.pop(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"{value!r} is neither true nor false")
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of several texts; ``default`` if the key is missing.

        Raises:
            SensorConfigError: none of them.

        """
        value = self._left.pop(key, default)
        if value not in choices:
            raise self.error(key, f"{value!r} is none of {', '.join(map(repr, choices))}")
        return str(value)

    def table(self, key: str) -> dict[str, Any]:
        """A table; empty if the key is missing.

        Raises:
            SensorConfigError: no table.

        """
        value = self._left.pop(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"{value!r} is not a table")
        return value

    def rest(self) -> dict[str, Any]:
        """Every key that is left, for a developer's own class to judge."""
        left, self._left = self._left, {}
        return left

    @property
    def where(self) -> str:
        """What the table is called in an error."""
        return self._where

    @property
    def is_afar(self) -> bool:
        """Whether the table was sent here."""
        return self._is_afar

    def done(self) -> None:
        """Check that every key was taken.

        Raises:
            SensorConfigError: one is left; it is unknown.

        """
        for key in self._left:
            raise self.error(key, "unknown key")
