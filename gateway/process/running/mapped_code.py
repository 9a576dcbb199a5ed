"""Gives the code that a start alone has run back to the kernel.

A start runs once through most of what Python, OpenSSL and our own libraries are. The kernel maps
their files page by page, many pages around each one that is touched, and counts them as resident
for as long as the process lives: more than half of an idle gateway's memory in a compiled build.
These pages are unchanged copies of files. Told that they are not needed (madvise(2),
``MADV_DONTNEED``), the kernel takes them out of this process and keeps them in its page cache while
it has room; where it has none, they go first, and without a write. Whatever runs again is mapped
again, 64 KiB with each fault, without a read as long as the cache has it.

Nothing but mapped libraries and programs are given back: no file of the log or the store, which
other code may unmap meanwhile, and no mapping with a page of its own, such as relocated addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from light_dataclasses import dataclass

MAPPINGS: Final = Path("/proc/self/smaps")
"""The mappings of this process, and how much of each is resident (proc(5))."""
_MADV_DONTNEED: Final = 4  # mman.h
_ANONYMOUS: Final = "Anonymous:"
_RESIDENT: Final = "Rss:"


@dataclass(slots=True)
class Mapping:
    """A part of a file, as this process has it mapped.

    Attributes:
        start: its first address.
        size_bytes: how long it is.
        rights: such as ``r-xp``: read, write, execute, private.
        path: of the file; empty or in brackets for what is none.
        resident_kib: how much of it is in memory.
        anonymous_kib: how much of that is this process's own, no longer the file's.

    """

    start: int
    size_bytes: int
    rights: str
    path: str
    resident_kib: int = 0
    anonymous_kib: int = 0

    @property
    def is_unchanged(self) -> bool:
        """True if the file still has all that is resident of it, and nobody here may change it."""
        is_file = self.path.startswith("/") and self.rights.endswith("p")
        return is_file and "w" not in self.rights and self.anonymous_kib == 0


def mappings(smaps: Iterable[str]) -> Iterator[Mapping]:
    """Read what the kernel tells of the mappings of a process.

    Args:
        smaps: lines of ``/proc/PID/smaps``.

    """
    one = None
    for line in smaps:
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            if one is not None:
                yield one
            start, end = (int(address, 16) for address in first.split("-"))
            rights, _, _, _, *path = rest.split(maxsplit=4)
            one = Mapping(start, end - start, rights, path[0].rstrip("\n") if path else "")
        elif one is not None and first == _RESIDENT:
            one.resident_kib = int(rest.split()[0])
        elif one is not None and first == _ANONYMOUS:
            one.anonymous_kib = int(rest.split()[0])
    if one is not None:
        yield one


def unchanged_code(smaps: Iterable[str]) -> list[Mapping]:
    """Return what is resident of libraries and programs, and is as their files have it.

    Args:
        smaps: lines of ``/proc/PID/smaps``.

    """
    all_of_them = list(mappings(smaps))
    programs = {one.path for one in all_of_them if "x" in one.rights}
    return [
        one
        for one in all_of_them
        if one.path in programs and one.is_unchanged and one.resident_kib > 0
    ]


def give_back() -> int:
    """Give back what code is resident in this process, and return how many KiB that was.

    Where the kernel does not tell of mappings or refuses, all stays as it is.
    """
    try:
        with MAPPINGS.open() as smaps:
            code = unchanged_code(smaps)
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return sum(
        one.resident_kib for one in code if madvise(one.start, one.size_bytes, _MADV_DONTNEED) == 0
    )
