"""Finds the lines of a TOML document's keys, of which Python's parser tells nothing.

The document, which the parser has accepted, is taken apart into its statements: a statement is
the fewest lines that are a document by themselves. That is sound: only texts in three quotes and
arrays go over several lines (TOML 1.0), and no part of one is a document before it is closed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CLOSING = ("]", '"""', "'''")
"""One of them is in the last line of a statement of several."""


class KeyLines:
    """An index of the lines at which the keys of a document stand.

    Args:
        text: a document that the parser accepts.

    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._found: dict[str, range] = {}
        self._last_item: dict[str, int] = {}
        header = ""
        for span, table in _statements(self._lines):
            if self._lines[span.start].lstrip().startswith("["):
                header = self._header(table)
                self._found.setdefault(header, span)
            else:
                self._add(header, table, span)

    def of(self, where: str) -> range:
        """Return the numbers, from 1, of the lines of a key's statement, or of what it belongs to.

        Args:
            where: as ``tree.hello_s``, ``tree.neighbours[2]`` or ``sensors[1].speed``.

        """
        while where and where not in self._found:
            where = where[: max(where.rfind("."), where.rfind("["), 0)]
        span = self._found.get(where, range(-1, -1))
        return range(span.start + 1, span.stop + 1)

    def first(self, where: str, text: str = "") -> int:
        """Return the first of these lines, or the one that has a text in it; 0 if there is none."""
        lines = self.of(where)
        if not lines:
            return 0
        for form in (f'"{text}"', f"'{text}'", text) if text else ():
            for number in lines:
                if form in self._lines[number - 1]:
                    return number
        return lines.start

    def _header(self, table: Mapping[str, Any]) -> str:
        """Name a table, an item of an array of tables by its number; ``[[x]]`` begins the next."""
        path, inner = "", table
        while inner:
            ((key, below),) = inner.items()
            path = _join(path, key)
            if isinstance(below, list):
                self._last_item[path] = self._last_item.get(path, -1) + 1
                below = below[0]
            if path in self._last_item:
                path = f"{path}[{self._last_item[path]}]"
            inner = below
        return path

    def _add(self, path: str, value: Any, span: range) -> None:
        if path:
            self._found.setdefault(path, span)
        if isinstance(value, dict):
            for key, below in value.items():
                self._add(_join(path, key), below, span)
        elif isinstance(value, list):
            at = span.start
            for number, item in enumerate(value):
                if isinstance(item, str):
                    at = next((n for n in range(at, span.stop) if item in self._lines[n]), at)
                    self._add(f"{path}[{number}]", item, range(at, at + 1))
                else:
                    self._add(f"{path}[{number}]", item, span)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _statements(lines: Sequence[str]) -> Iterator[tuple[range, Mapping[str, Any]]]:
    start = 0
    while start < len(lines):
        end = start + 1
        table = _parsed(lines[start:end])
        while table is None and end < len(lines):
            end += 1
            if any(mark in lines[end - 1] for mark in CLOSING):
                table = _parsed(lines[start:end])
        if table:
            yield range(start, end), table
        start = end


def _parsed(lines: Sequence[str]) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines) + "\n")
    except (ValueError, RecursionError):
        return None
