"""Alert rules in the table of a sensor: stuck, out of range, silent. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from light_dataclasses import dataclass

MOST_S: Final = 31 * 86_400.0
_SILENT_INTERVALS, _SILENT_LEAST_S = 3, 60.0


class SensorRuleError(ValueError):
    """A rule of a sensor can't be.

    Args:
        key: below ``alerts``, as ``temperature.low``.
        why: what is wrong with it.

    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key = key
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorRule:
    """A rule by which a sensor's values are wrong.

    Attributes:
        stuck_s: it was the same for so long; 0: never.
        low: it is below this; None: never.
        high: it is above that; None: never.
        margin: it is well again by so much within both.

    """

    stuck_s: float = 0.0
    low: float | None = None
    high: float | None = None
    margin: float = 0.0

    @property
    def is_any(self) -> bool:
        """Return whether any rule can ever find it wrong."""
        return self.stuck_s > 0 or self.low is not None or self.high is not None


@dataclass(frozen=True, slots=True)
class SensorRules:
    """The rules of one table.

    Attributes:
        silent_s: a sensor has said nothing good for so long; 0: never; None: three of its
            intervals, and a minute at least.
        rule: of its values ...
        by_value: ... and of those of a name, the last segment of what a value is called.

    """

    silent_s: float | None = None
    rule: SensorRule = field(default_factory=SensorRule)
    by_value: Mapping[str, SensorRule] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> SensorRules:
        """Read a table.

        Raises:
            SensorRuleError: a key is unknown, or a value is wrong.

        """
        silent_s: float | None = None
        own: dict[str, Any] = {}
        tables: dict[str, Mapping[str, Any]] = {}
        for key, value in table.items():
            if isinstance(value, Mapping):
                tables[key] = value
            elif key == "silent_s":
                silent_s = _number(key, value, 0, MOST_S)
            else:
                own[key] = value
        rule = _rule(SensorRule(), "", own)
        by_value = {name: _rule(rule, f"{name}.", more) for name, more in tables.items()}
        return cls(silent_s, rule, by_value)

    def of_value(self, name: str) -> SensorRule:
        """Return the rule of a value, such as ``bed/air/temperature``."""
        return self.by_value.get(name.rpartition("/")[2], self.rule)

    def judges_range(self, name: str) -> bool:
        """Return whether a value of this name can be out of its range."""
        rule = self.of_value(name)
        return rule.low is not None or rule.high is not None

    def judges_stuck(self, name: str) -> bool:
        """Return whether a value of this name can be stuck."""
        return self.of_value(name).stuck_s > 0

    def silent_after_s(self, interval_s: float) -> float:
        """Return how long a sensor that is read so often may say nothing; 0 for ever."""
        if self.silent_s is not None:
            return self.silent_s
        return max(_SILENT_LEAST_S, _SILENT_INTERVALS * interval_s)


def _rule(base: SensorRule, where: str, table: Mapping[str, Any]) -> SensorRule:
    known = {"stuck_s": (0, MOST_S), "margin": (0, math.inf)}
    limits = (-math.inf, math.inf)
    found: dict[str, float] = {}
    for key, value in table.items():
        if key not in ("stuck_s", "low", "high", "margin"):
            words = "silent_s, stuck_s, low, high, margin and the names of values"
            raise SensorRuleError(f"{where}{key}", f"is none of {words}")
        found[key] = _number(f"{where}{key}", value, *known.get(key, limits))
    rule = replace(base, **found)
    if rule.low is not None and rule.high is not None and rule.low + 2 * rule.margin > rule.high:
        why = f"{rule.low:g} with twice the margin of {rule.margin:g} is above high, {rule.high:g}"
        raise SensorRuleError(f"{where}low", why)
    return rule


def _number(key: str, value: object, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SensorRuleError(key, f"{value!r} is no number")
    if not least <= value <= most:
        raise SensorRuleError(key, f"{value:g} is not from {least:g} to {most:g}")
    return float(value)
