"""Sender sequence numbers of OSCORE, none of which is ever used twice (RFC 8613, appendix B.1.1).

A number is part of a nonce, and a nonce used twice gives plaintext away. So numbers are reserved on
the disk, some thousand at a time, before the first of them is used; a start begins behind all that
were reserved, at a drawn distance, since the disk may have been restored from an image.

Nothing else knows them, so they stand in two files: where one is damaged or missing the other one
counts. Where none can be used, nobody can tell where to go on, and both stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from gateway.base.kept_file import DamagedFileError, KeptFile

NAME = "oscore-numbers"
COPY = ".copy"
"""At the end of the second file's name."""
_WITHOUT = "its copy has the same numbers"
STEP = 4_096
GAP = 1 << 20
"""So far behind what was reserved a start begins at most: there is room for a million starts."""


class NumbersError(ValueError):
    """The numbers that were used are not known; the message names the file."""


class SenderNumbers:
    """The numbers of all contexts.

    Args:
        path: the file that keeps them.
        names: of the contexts.
        drawn: gives a number below its argument that nobody can foresee.

    Raises:
        OSError: the file can't be read or written; it names the file.
        NumbersError: they are lost: to begin again anywhere could use a number twice.

    """

    def __init__(self, path: Path, names: Iterable[str], drawn: Callable[[int], int]) -> None:
        both = (path, path.with_name(path.name + COPY))
        self._files = [KeptFile(each, _WITHOUT, is_durable=True) for each in both]
        # A context that is taken out may come back.
        self._reserved = _read(self._files)
        self._first: dict[str, int] = {}
        self._drawn = drawn
        self.begin(names)

    def begin(self, names: Iterable[str]) -> None:
        """Have first numbers for contexts that begin now, maybe not for the first time.

        Raises:
            OSError: the file can't be written; nothing has changed.

        """
        begun = dict[str, int]()
        # Who is new here may be another one's keys under a new name.
        highest = max(self._reserved.values(), default=0)
        for name in names:
            begun[name] = self._reserved.get(name, highest) + self._drawn(GAP)
        self._reserve({name: number + STEP for name, number in begun.items()})
        self._first |= begun

    def first(self, name: str) -> int:
        """Return the first number of this start for a context."""
        return self._first[name]

    def use_below(self, name: str, number: int) -> None:
        """Reserve all numbers below this one for a context.

        Raises:
            OSError: they can't be reserved: none of them may be used that were not before.

        """
        if number > self._reserved[name]:
            self._reserve({name: number + STEP})

    def _reserve(self, ends: dict[str, int]) -> None:
        """Have the disk know where numbers of contexts end; only then they may be used.

        Raises:
            OSError: a file can't be written. What stands in the other one does no harm: numbers
                are skipped.

        """
        reserved = self._reserved | ends
        data = json.dumps(reserved).encode()
        for file in self._files:
            file.write(data)
        self._reserved = reserved


def _read(files: Iterable[KeptFile]) -> dict[str, int]:
    """Return the numbers of both files, the higher one of each context."""
    found: list[dict[str, int]] = []
    damaged: list[tuple[KeptFile, DamagedFileError]] = []
    missing: list[KeptFile] = []
    for file in files:
        try:
            found.append(file.look(_numbers))
        except FileNotFoundError:
            missing.append(file)
        except DamagedFileError as error:
            damaged.append((file, error))
    if not found:
        for _, damage in damaged:
            raise NumbersError(str(damage)) from damage
        for file in missing:
            if file.was_there():
                raise NumbersError(f"{file.path}: missing, and it was there")
        return {}
    for file, damage in damaged:
        file.give_up(damage.why)
    for file in missing:
        file.miss()
    names = {name for numbers in found for name in numbers}
    return {name: max(numbers.get(name, 0) for numbers in found) for name in names}


def _numbers(data: bytes) -> dict[str, int]:
    found = json.loads(data)
    if not isinstance(found, dict) or not all(
        type(number) is int and number >= 0 for number in found.values()
    ):
        raise ValueError("no sequence numbers")
    return found
