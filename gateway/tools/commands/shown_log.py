"""`hedgerow logs` shows records of the log: those that are there, and those that come."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from gateway.base.event_log.read_lines import LogFilter, LogRecord, LogRecords
from gateway.base.printable import printable
from gateway.tools.commands.log_lines import find_source

HELD_S: Final = 0.3
"""A record that is followed by nothing for so long is whole."""
BEGIN_S: Final = 2.0
"""The time after which lines that come without a pause are shown."""
_LINES_EACH: Final = 8
"""A record has so many lines at most, as a rule: of a traceback more, of all others one."""
_HELD_MAX: Final = 1_000


def run(options: argparse.Namespace) -> int:
    """Show the log; return the exit code."""
    source = find_source(options.config, options.file, options.unit)
    shown = _Shown(options)
    # Of records that are chosen it is not known how many lines they are among.
    last = None if shown.chooses or options.lines is None else options.lines * _LINES_EACH
    if options.follow:
        asyncio.run(_follow(source.lines(last=last, follows=True), shown))
    else:
        asyncio.run(_show(source.lines(last=last, follows=False), shown))
    return 0


class _Shown:
    """A printer of log records.

    Args:
        options: of the command line.

    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._filter = LogFilter(options.level, options.part.removeprefix("gateway."))
        self._as_json: bool = options.json
        self._last: deque[LogRecord] | None = deque(maxlen=options.lines)
        self._records = LogRecords()
        self.chooses = bool(options.level or options.part)

    def take(self, line: str) -> None:
        """Take a line of the log."""
        self._keep(self._records.feed(line))

    def rest(self) -> None:
        """Nothing came for a while: the last record is whole."""
        self._keep(self._records.end())

    def begin(self) -> None:
        """Show the last of what was taken so far, and from now on all at once."""
        last, self._last = self._last, None
        for record in last or ():
            self._keep(record)
        sys.stdout.flush()

    def _keep(self, record: LogRecord | None) -> None:
        if record is None or not self._filter.takes(record):
            return
        if self._last is not None:
            self._last.append(record)
        else:
            sys.stdout.write(_json(record) if self._as_json else _text(record))


async def _show(lines: AsyncIterator[str], shown: _Shown) -> None:
    async for line in lines:
        shown.take(line)
    shown.rest()
    shown.begin()


async def _follow(lines: AsyncIterator[str], shown: _Shown) -> None:
    """Show what is there once nothing more comes at once, then each record as it comes."""
    coming: asyncio.Queue[str | None] = asyncio.Queue(_HELD_MAX)

    async def read() -> None:
        try:
            async for line in lines:
                await coming.put(line)
        finally:
            await coming.put(None)

    clock = asyncio.get_running_loop().time
    reading, begins_at_s, has_begun = asyncio.create_task(read()), clock() + BEGIN_S, False
    try:
        while True:
            try:
                async with asyncio.timeout(HELD_S):
                    line = await coming.get()
            except TimeoutError:
                line = ""
                shown.rest()
            if line is None:
                break
            if line:
                shown.take(line)
            if not has_begun and (not line or clock() > begins_at_s):
                has_begun = True
                shown.begin()
            sys.stdout.flush()
    finally:
        reading.cancel()
    shown.rest()
    if not has_begun:
        shown.begin()
    await reading


def _text(record: LogRecord) -> str:
    return "".join(f"{printable(line)}\n" for line in record.lines)


def _json(record: LogRecord) -> str:
    told = {
        "time": f"{record.day}T{record.clock}" if record.day else None,
        "level": record.level.lower() or None,
        "part": record.part or None,
        "text": record.text,
        "further": list(record.further),
    }
    return json.dumps(told) + "\n"
