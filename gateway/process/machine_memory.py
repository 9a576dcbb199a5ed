"""How much memory this process may have: the smallest of what bounds it.

That is the machine's memory, the limits of the cgroups that it is in (version 2 and 1: a unit's
``MemoryMax=``, a container's), and those of the process itself (setrlimit(2)). All but the last are
files of the kernel.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from light_dataclasses import dataclass

_V2_FILES: Final = ("memory.max", "memory.high")
_V1_FILE: Final = "memory.limit_in_bytes"
_RLIMITS: Final = {"RLIMIT_AS": resource.RLIMIT_AS, "RLIMIT_DATA": resource.RLIMIT_DATA}


@dataclass(frozen=True, slots=True, order=True)
class MemoryBound:
    """One thing that bounds the memory of the process.

    Attributes:
        size_bytes: how much it may have.
        source: what says so, for people.

    """

    size_bytes: int
    source: str


def bound(root: Path = Path("/")) -> MemoryBound | None:
    """Find the tightest bound; None where nothing tells of any.

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    found = (*_of_machine(root), *_of_groups(root), *_of_process())
    return min(found, default=None)


def _of_process() -> Iterator[MemoryBound]:
    for name, kind in _RLIMITS.items():
        most, _ = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            yield MemoryBound(most, name)


def _of_machine(root: Path) -> Iterator[MemoryBound]:
    for line in _lines(root / "proc/meminfo"):
        name, _, amount = line.partition(":")
        if name == "MemTotal" and (kib := amount.removesuffix("kB").strip()).isdecimal():
            yield MemoryBound(int(kib) * 1024, "the machine")


def _of_groups(root: Path) -> Iterator[MemoryBound]:
    """Give the limits of the process's groups, and of all that those are in (cgroups(7))."""
    groups = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            for folder in _upwards(groups, path):
                yield from _limits(folder / name for name in _V2_FILES)
        elif "memory" in controllers.split(","):
            for folder in _upwards(groups / "memory", path):
                yield from _limits((folder / _V1_FILE,))


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """Give a group's folder and those above it; in a container the last may be all there is."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield top.joinpath(*parts[:count])


def _limits(files: Iterable[Path]) -> Iterator[MemoryBound]:
    for file in files:
        for text in _lines(file)[:1]:
            if text.isdecimal():  # else it is "max"
                yield MemoryBound(int(text), str(file))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("ascii", errors="replace").splitlines()
    except OSError:
        return []
