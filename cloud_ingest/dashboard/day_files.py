"""Files of a table's days, and which days are to be looked at anew. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_DAY: Final = re.compile(r"(?:^|/)day=(\d{4}-\d{2}-\d{2})/")


RECENT_DAYS: Final = 7
"""The days of which the dashboard remembers how gateways were, and what sensors said last."""


def oldest_recent(newest: str) -> str:
    """Return the first of the recent days.

    Args:
        newest: the last of them, as the partition has it.

    """
    last = datetime.date.fromisoformat(newest)
    return (last - datetime.timedelta(days=RECENT_DAYS - 1)).isoformat()


@dataclass(frozen=True, slots=True)
class DayChange:
    """The files of one day that are to be read.

    Attributes:
        day: as the partition has it, ``2026-11-20``.
        files: to read.
        is_anew: files that were read before have gone (compacted, deleted): forget the day first.

    """

    day: str
    files: tuple[str, ...]
    is_anew: bool


@dataclass(slots=True)
class DayFiles:
    """A record of which files of a table have been read.

    Attributes:
        is_whole: a day is always read whole, for its rows replace each other.
        days_max: so many days are kept, the newest.

    """

    is_whole: bool = False
    days_max: int = 10_000
    _read: dict[str, frozenset[str]] = field(default_factory=dict)

    def changes(self, files: Iterable[str]) -> list[DayChange]:
        """Return what to do so that all files have been read, the newest day first.

        Args:
            files: all that the table consists of now.

        """
        now = by_day(files)
        kept = sorted(now, reverse=True)[: self.days_max]
        found = []
        for day in kept:
            before = self._read.get(day, frozenset())
            if now[day] == before:
                continue
            is_anew = bool(before) and (self.is_whole or not before <= now[day])
            wanted = now[day] if is_anew else now[day] - before
            found.append(DayChange(day, tuple(sorted(wanted)), is_anew))
        gone = sorted(self._read.keys() - set(kept))
        return found + [DayChange(day, (), True) for day in gone]

    def done(self, change: DayChange) -> None:
        """Note that a change was carried out."""
        before = frozenset[str]() if change.is_anew else self._read.get(change.day, frozenset())
        after = before | frozenset(change.files)
        if after:
            self._read[change.day] = after
        else:
            self._read.pop(change.day, None)

    @property
    def days(self) -> tuple[str, ...]:
        """Return the days that have been read, in order."""
        return tuple(sorted(self._read))

    def has_all(self, files: Iterable[str]) -> bool:
        """Return whether there is nothing left to read."""
        return not self.changes(files)


def by_day(files: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return the files of each day; one without a day in its path is of none."""
    found: dict[str, set[str]] = {}
    for name in files:
        day = _DAY.search(name)
        if day is not None:
            found.setdefault(day[1], set()).add(name)
    return {day: frozenset(names) for day, names in found.items()}
