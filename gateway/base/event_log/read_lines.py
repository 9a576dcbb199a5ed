"""Lines that `gateway.base.event_log.lines` wrote, read again: by level and by part of a gateway.

A line that begins with a space, as those of a traceback do, belongs to the record before it. Any
other that says no level, such as a word of systemd's, stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from light_dataclasses import dataclass

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
"""From the least to the worst."""
FURTHER_MAX: Final = 200
"""So many lines of a traceback are kept with their record."""
_LINE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:,\d{3})? (DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"([\w.-]+): (.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record.

    Attributes:
        line: as it was written, without the end of the line.
        day: such as ``2026-11-28``; empty where the line does not say.
        clock: such as ``07:31:02``; likewise.
        level: such as ``WARNING``; likewise.
        part: the module that says it, such as ``gateway.node.links.node``; likewise.
        text: what it says.
        further: the lines behind it, such as a traceback.

    """

    line: str
    day: str
    clock: str
    level: str
    part: str
    text: str
    further: tuple[str, ...] = ()

    @classmethod
    def of(cls, line: str) -> LogRecord:
        """Return the record of a line, whatever stands in it."""
        found = _LINE.fullmatch(line)
        if found is None:
            return cls(line, "", "", "", "", line)
        return cls(line, found[1], found[2], found[3], found[4], found[5])

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it, as it was written."""
        return (self.line, *self.further)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter of log records.

    Attributes:
        level: the least, one of `LEVELS`; empty for all.
        part: of the gateway, such as ``links`` or ``gateway.node.links.node``; empty for all.

    """

    level: str = ""
    part: str = ""

    def takes(self, record: LogRecord) -> bool:
        """Return whether a record is wanted; one that says no level passes only where all do."""
        if not self.level and not self.part:
            return True
        if not record.level:
            return False
        if self.level and LEVELS.index(record.level.lower()) < LEVELS.index(self.level):
            return False
        return not self.part or self._is_of_part(record.part)

    def _is_of_part(self, module: str) -> bool:
        """Return whether the part is the module, a package above it, or a word of its name."""
        wanted, having = self.part.split("."), module.split(".")
        places = range(len(having) - len(wanted) + 1)
        return any(having[at : at + len(wanted)] == wanted for at in places)


class LogRecords:
    """Puts records together from lines that come one by one."""

    def __init__(self) -> None:
        self._open: LogRecord | None = None
        self._further: list[str] = []

    def feed(self, line: str) -> LogRecord | None:
        """Take a line; return the record before it if that is whole now."""
        record = LogRecord.of(line)
        if self._open is not None and self._open.level and not record.level:
            if line[:1].isspace() and len(self._further) < FURTHER_MAX:
                self._further.append(line)
                return None
            if line[:1].isspace():
                return None
        whole = self.end()
        self._open = record
        return whole

    def end(self) -> LogRecord | None:
        """Return the last record: nothing comes behind it."""
        last, self._open = self._open, None
        further, self._further = tuple(self._further), []
        if last is None:
            return None
        return LogRecord(last.line, last.day, last.clock, last.level, last.part, last.text, further)


def records_of(lines: Iterable[str]) -> Iterator[LogRecord]:
    """Give the records of all lines."""
    records = LogRecords()
    for line in lines:
        if (record := records.feed(line)) is not None:
            yield record
    if (last := records.end()) is not None:
        yield last
