"""Matchers of alerts: those of a rule, a gateway, a domain. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Final

import msgspec

from alerts.record import AlertRecord

FIELDS: Final = ("rule", "severity", "gateway", "domain", "group", "part")
"""The fields that a matcher may look at."""
MAX_PATTERN: Final = 200
"""Characters of one pattern."""


class MatcherError(ValueError):
    """Words that are no matcher: ``str(error)`` says which and why."""


class AlertMatcher(msgspec.Struct, frozen=True):
    """Patterns that all have to hold; one without a pattern matches every alert.

    Attributes:
        patterns: by field, as a shell has them: ``*``, ``?`` and ``[...]``.

    """

    patterns: dict[str, str] = {}

    @classmethod
    def of(cls, patterns: Mapping[str, object]) -> AlertMatcher:
        """Check patterns.

        Raises:
            MatcherError: a field is unknown, or a pattern is no text or too long.

        """
        for name, pattern in patterns.items():
            if name not in FIELDS:
                raise MatcherError(f"{name!r} is none of {', '.join(FIELDS)}")
            if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN:
                raise MatcherError(f"{name}: {pattern!r} is no text of 1 to {MAX_PATTERN}")
        return cls({name: str(pattern) for name, pattern in patterns.items()})

    @classmethod
    def parse(cls, words: list[str]) -> AlertMatcher:
        """Read ``FIELD=PATTERN`` words.

        Raises:
            MatcherError: one is none.

        """
        found: dict[str, str] = {}
        for word in words:
            name, is_given, pattern = word.partition("=")
            if not is_given:
                raise MatcherError(f"{word!r} is not FIELD=PATTERN")
            if name in found:
                raise MatcherError(f"{name} is given twice")
            found[name] = pattern
        return cls.of(found)

    def matches(self, record: AlertRecord) -> bool:
        """Return whether it means this alert."""
        told = record.fields
        return all(
            _pattern(pattern).match(told[name]) is not None
            for name, pattern in self.patterns.items()
        )

    def __str__(self) -> str:
        words = (f"{name}={pattern}" for name, pattern in sorted(self.patterns.items()))
        return " ".join(words) or "all alerts"


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))
