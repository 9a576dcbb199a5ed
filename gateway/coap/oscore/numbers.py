"""Sender sequence numbers of OSCORE, none of which is ever used twice (RFC 8613, appendix B.1.1).

A number is part of a nonce, and a nonce used twice gives plaintext away. So numbers are reserved on
the disk, some thousand at a time, before the first of them is used; a start begins behind all that
were reserved, at a drawn distance, since the disk may have been restored from an image.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from gateway import replaced_file

NAME = "oscore-numbers"
STEP = 4_096
GAP = 1 << 20
"""So far behind what was reserved a start begins at most: there is room for a million starts."""


class SenderNumbers:
    """The numbers of all contexts.

    Args:
        path: the file that keeps them.
        names: of the contexts.
        drawn: gives a number below its argument that nobody can foresee.

    Raises:
        OSError: the file can't be read or written; it names the file.
        ValueError: it holds something else: to begin again anywhere could use a number twice.

    """

    def __init__(self, path: Path, names: Iterable[str], drawn: Callable[[int], int]) -> None:
        self._path = path
        # A context that is taken out may come back.
        self._reserved = _read(path)
        self._first: dict[str, int] = {}
        self._drawn = drawn
        self.begin(names)

    def begin(self, names: Iterable[str]) -> None:
        """Have first numbers for contexts that begin now, maybe not for the first time.

        Raises:
            OSError: the file can't be written; nothing has changed.

        """
        before, begun = dict(self._reserved), dict[str, int]()
        # Who is new here may be another one's keys under a new name.
        highest = max(before.values(), default=0)
        for name in names:
            begun[name] = before.get(name, highest) + self._drawn(GAP)
            self._reserved[name] = begun[name] + STEP
        try:
            self._write()
        except OSError:
            self._reserved = before
            raise
        self._first |= begun

    def first(self, name: str) -> int:
        """The first number of this start for a context."""
        return self._first[name]

    def use_below(self, name: str, number: int) -> None:
        """See to it that all numbers below this one may be used by a context."""
        if number > self._reserved[name]:
            self._reserved[name] = number + STEP
            self._write()

    def _write(self) -> None:
        data = json.dumps(self._reserved).encode()
        replaced_file.replace(self._path, data, is_durable=True, mode=0o600)


def _read(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path}: no sequence numbers") from error
    if not isinstance(found, dict) or not all(
        type(number) is int and number >= 0 for number in found.values()
    ):
        raise ValueError(f"{path}: no sequence numbers")
    return found
