"""Reads one sensor's table of the configuration, key by key; every error names its key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.base.printable import printable
from gateway.sensors.parameters import DriverParameter


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


class DriverHangsError(SensorConfigError):
    """A driver does not come back in time."""


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
        """Return an error that names ``key`` of this table."""
        return SensorConfigError(f"{self._where}.{key}" if key else self._where, why)

    def take(self, parameter: DriverParameter) -> Any:
        """Take what the table says of a parameter, or else its default.

        Raises:
            SensorConfigError: it is missing and needed, or its value is not of its kind, range or
                choices, or was sent here and may not be.

        """
        key = parameter.name
        if parameter.is_near and self._is_afar and key in self._left:
            raise self.error(key, "only the configuration may say this")
        if key not in self._left:
            if parameter.is_needed:
                raise self.error(key, "missing")
            return parameter.default
        value = self._of_kind(parameter)
        least, most = parameter.least, parameter.most
        if least is not None and most is not None and not least <= value <= most:
            unit = f" {parameter.unit}" if parameter.unit else ""
            told = f"{value:g}" if isinstance(value, float) else f"{value!r:.40}"
            raise self.error(key, f"{told} is not {least:g} to {most:g}{unit}")
        return value

    def _of_kind(self, parameter: DriverParameter) -> Any:
        key = parameter.name
        if parameter.kind == "choice":
            return self.choice(key, parameter.choices, "")
        if parameter.kind == "number":
            return self.number(key, 0.0)
        read: Mapping[str, Callable[[str], Any]] = {
            "text": self.text,
            "whole": self.whole,
            "flag": self.flag,
            "table": self.table,
        }
        return read.get(parameter.kind, self._left.pop)(key)

    def has(self, key: str) -> bool:
        """Return whether the key is there and not taken yet."""
        return key in self._left

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; ``default`` if the key is missing.

        Raises:
            SensorConfigError: missing without a default, or no text.

        """
        value = self._left.pop(key, default)
        if value is None:
            raise self.error(key, "missing")
        if not isinstance(value, str) or not value:
            raise self.error(key, f"{value!r} is not a text")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """Return a whole number; ``default`` if the key is missing.

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
        """Return a finite number; ``default`` if the key is missing.

        Raises:
            SensorConfigError: no finite number.

        """
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{value!r} is not a number")
        try:
            number = float(value)
        except OverflowError:  # a whole number that no float holds
            number = math.inf
        if not math.isfinite(number):
            raise self.error(key, f"{number} is not finite")
        return number

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
        """Return one of several texts; ``default`` if the key is missing.

        Raises:
            SensorConfigError: none of them.

        """
        value = self._left.pop(key, default)
        if value not in choices:
            raise self.error(key, f"{value!r} is none of {', '.join(map(repr, choices))}")
        return str(value)

    def table(self, key: str) -> dict[str, Any]:
        """Return a table; empty if the key is missing.

        Raises:
            SensorConfigError: no table.

        """
        value = self._left.pop(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"{value!r} is not a table")
        return value

    def rest(self) -> dict[str, Any]:
        """Return every key that is left, for a developer's own class to judge."""
        left, self._left = self._left, {}
        return left

    @property
    def where(self) -> str:
        """Return the table's name in an error."""
        return self._where

    @property
    def is_afar(self) -> bool:
        """Return whether the table was sent here."""
        return self._is_afar

    def done(self) -> None:
        """Check that every key was taken.

        Raises:
            SensorConfigError: one is left; it is unknown.

        """
        for key in self._left:
            raise self.error(key, "unknown key")
