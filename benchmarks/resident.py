"""The memory of an idle gateway: its own data, the allocator's, and each shared object.

python -m benchmarks.resident [--set NAME=VALUE ...] [PYTHON ...]

The gateway is that of `benchmarks.light`, and has come to rest. Resident pages are counted where
they are mapped (``/proc/PID/smaps``, proc(5)); pages of a file are shared with all processes that
map it, and count in full. `--set` gives the gateway a variable of the environment, such as
MALLOC_ARENA_MAX=1. PYTHON: those of other builds, measured beside.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import builds, weighed

SMALL_KIB = 512
"""Objects below this are one row."""
_OURS = ("hedgerow__mypyc", "/gateway/", "/tree_handler/", "/dtls/", "/coap_engine/")
_RESIDENT = "Rss:"


def parsed(smaps: Iterable[str]) -> Mapping[str, int]:
    """Sum what is resident, KiB, by what is mapped.

    Args:
        smaps: lines of ``/proc/PID/smaps``.

    """
    sums, name = Counter[str](), ""
    for line in smaps:
        first, *rest = line.split()
        if first == _RESIDENT:
            sums[name] += int(rest[0])
        elif not first.endswith(":"):  # addresses, rights, offset, device, inode and a path
            name = _named(" ".join(rest[4:]))
    return sums


def _named(path: str) -> str:
    if path == "[heap]":
        return "heap of glibc"
    if not path or path.startswith("[anon"):
        return "anonymous: objects of Python, stacks, arenas"
    if path.startswith("["):
        return "the kernel's"
    if ".so" in path and any(word in path for word in _OURS):
        return "compiled modules of ours"
    return Path(path).name


def rows(resident_kib: Mapping[str, int]) -> Iterator[str]:
    """Give the rows of a table, the largest first, in MiB."""
    yield f"| all | {sum(resident_kib.values()) / 1024:.1f} |"
    small_kib = 0
    for name, kib in sorted(resident_kib.items(), key=lambda item: -item[1]):
        if kib >= SMALL_KIB:
            yield f"| {name} | {kib / 1024:.1f} |"
        else:
            small_kib += kib
    yield f"| what takes less than {SMALL_KIB / 1024} MiB each | {small_kib / 1024:.1f} |"


def measured(build: builds.Build) -> Mapping[str, int]:
    """Start a gateway, let it come to rest, and return what is resident, KiB, by what is mapped.

    Raises:
        LightError: it does not start.

    """
    with tempfile.TemporaryDirectory(prefix="resident-benchmark-") as name:
        broker = weighed.gateway(build.name, build)
        with weighed.started(broker, Path(name), is_ours=True) as (process, _):
            process.memory()  # returns when it is at rest
            return parsed(Path(f"/proc/{process.pid}/smaps").read_text().splitlines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table for each build, and return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.resident", description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    options = parser.parse_args(arguments)
    for word in options.set:
        name, _, value = word.partition("=")
        os.environ[name] = value
    compiled = builds.compiled()
    others = [builds.Build(path, path) for path in options.pythons]
    try:
        for build in (*([compiled] if compiled else []), builds.INTERPRETED, *others):
            print(f"| {build.name} | MiB |", "|---|--:|", *rows(measured(build)), "", sep="\n")
    except weighed.LightError as error:
        print(f"benchmarks.resident: {error}", file=sys.stderr)
        return weighed.EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
