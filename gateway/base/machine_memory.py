"""Memory that this process may have, and how much of it is left.

What bounds it is the machine's memory, the limits of the cgroups that it is in (version 2 and 1: a
unit's ``MemoryMax=``, a container's), and those of the process itself (setrlimit(2)). All but the
last are files of the kernel.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from light_dataclasses import dataclass

RLIMITS: Final = {"RLIMIT_AS": resource.RLIMIT_AS, "RLIMIT_DATA": resource.RLIMIT_DATA}
"""The limits of a process that bound its memory; see setrlimit(2)."""


@dataclass(frozen=True, slots=True, order=True)
class MemoryBound:
    """One thing that bounds the memory of the process.

    Attributes:
        size_bytes: how much it may have.
        source: what says so, for people.

    """

    size_bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class _GroupFiles:
    """The names that a version of cgroups gives its files.

    Attributes:
        limits: of the group.
        used: what the group has, the pages of files among it.
        droppable: in ``memory.stat``, pages of files that the kernel can drop at once.

    """

    limits: tuple[str, ...]
    used: str
    droppable: str


_V2: Final = _GroupFiles(("memory.max", "memory.high"), "memory.current", "inactive_file")
_V1: Final = _GroupFiles(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


def bound(root: Path = Path("/")) -> MemoryBound | None:
    """Find the tightest bound; None where nothing tells of any.

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    total_bytes = of_machine(root)
    machine = [] if total_bytes is None else [MemoryBound(total_bytes, "the machine")]
    groups = (one for folder, files in _groups(root) for one in _limits(folder, files))
    return min((*machine, *groups, *_of_process()), default=None)


def of_machine(root: Path = Path("/")) -> int | None:
    """Return the bytes that the machine has in all; None where it does not say.

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    return _of_machine(root, "MemTotal")


def left_on_machine(root: Path = Path("/")) -> int | None:
    """Return the bytes that the machine can give without swapping; None where it does not say.

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    return _of_machine(root, "MemAvailable")


def left(root: Path = Path("/")) -> int | None:
    """Return the bytes that another process beside this one could have; None where nobody says.

    They are what the machine has left, or less where a cgroup leaves less: its limit without what
    its processes have, as the kubelet counts that (without pages of files that can be dropped).

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    machine_bytes = left_on_machine(root)
    if machine_bytes is None:
        return None
    groups = (one for folder, files in _groups(root) for one in _room(folder, files))
    of_process = (one.size_bytes for one in _of_process())
    return min((machine_bytes, *groups, *of_process))


def _of_process() -> Iterator[MemoryBound]:
    for name, kind in RLIMITS.items():
        most, _ = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            yield MemoryBound(most, name)


def _of_machine(root: Path, name: str) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        found, _, amount = line.partition(":")
        if found == name and (kib := amount.removesuffix("kB").strip()).isdecimal():
            return int(kib) * 1024
    return None


def _groups(root: Path) -> Iterator[tuple[Path, _GroupFiles]]:
    """Give the process's groups, and all that those are in (cgroups(7))."""
    groups = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            yield from ((folder, _V2) for folder in _upwards(groups, path))
        elif "memory" in controllers.split(","):
            yield from ((folder, _V1) for folder in _upwards(groups / "memory", path))


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """Give a group's folder and those above it; in a container the last may be all there is."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield top.joinpath(*parts[:count])


def _limits(folder: Path, files: _GroupFiles) -> Iterator[MemoryBound]:
    for name in files.limits:
        limit_bytes = _number(folder / name)
        if limit_bytes is not None:
            yield MemoryBound(limit_bytes, str(folder / name))


def _room(folder: Path, files: _GroupFiles) -> Iterator[int]:
    """Give what each limit of a group leaves; a group that does not say what it has, all of it."""
    used_bytes = _number(folder / files.used) or 0
    stat = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    droppable = stat.get(files.droppable, "")
    held_bytes = max(used_bytes - (int(droppable) if droppable.isdecimal() else 0), 0)
    for limit in _limits(folder, files):
        yield max(limit.size_bytes - held_bytes, 0)


def _number(file: Path) -> int | None:
    for text in _lines(file)[:1]:
        if text.isdecimal():  # else it is "max"
            return int(text)
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("ascii", errors="replace").splitlines()
    except OSError:
        return []
