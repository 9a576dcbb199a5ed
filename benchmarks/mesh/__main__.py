"""A mesh of gateways in network namespaces: how fast it heals, and what messages take and cost.

Five hosts, an edge between each two, delay normal(10, 2.5) ms, 10 Mbit/s (row C8). Needs root.

    python -m benchmarks.mesh [--quick] [--json FILE]
"""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks import comparison
from benchmarks.comparison import Comparison
from benchmarks.mesh import distribution, healing, namespaces, zenoh_mesh
from benchmarks.mesh.failures import Figures
from benchmarks.mesh.gateways import MeshError
from gateway.base import event_loop

Note = Callable[[str], None]

OPEN_FILES = 8_192
TRIES = 5
TRIES_WITHOUT_TLS = 2
ZENOH_TRIES = 2
EXIT_OURS_FAILED = 1
EXIT_WRONG_USE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("mesh", __doc__.partition("\n")[0], arguments)
    if (why := namespaces.why_not()) is not None:
        print(f"benchmarks.mesh: {why}", file=sys.stderr)
        return EXIT_WRONG_USE
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; load "
        f"average {os.getloadavg()[0]:.1f} before the start"
    )
    began_s = time.monotonic()

    def note(line: str) -> None:
        print(f"    {time.monotonic() - began_s:7.1f} s  {line}", file=sys.stderr, flush=True)

    _raise_open_files()
    found: list[Comparison] = []
    try:
        failed = _healing(found, note, quick=options.quick)
        failed |= _distribution(found, note, quick=options.quick)
    except (MeshError, namespaces.BedError) as error:
        print(f"benchmarks.mesh: {error}", file=sys.stderr)
        return EXIT_OURS_FAILED
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return EXIT_OURS_FAILED if failed else 0


def _healing(found: list[Comparison], note: Note, *, quick: bool) -> bool:
    ours = event_loop.run(healing.ours(1 if quick else TRIES, quick=quick, note=note))
    others: dict[str, Figures] = {}
    if quick:
        left_out = "Zenoh, links without TLS, silent cuts, healing, other modes than flood, crowds"
        print(f"left out with --quick: {left_out}")
    else:
        without_tls = healing.ours(TRIES_WITHOUT_TLS, quick=False, note=note, tls="off")
        others[healing.WITHOUT_TLS] = event_loop.run(without_tls)
        if zenoh_mesh.is_installed():
            others[zenoh_mesh.NAME] = event_loop.run(healing.zenoh(ZENOH_TRIES, note=note))
        else:
            print(f"MISSING, left out: {zenoh_mesh.NAME}: pip install {zenoh_mesh.PACKAGE}")
    print("\n".join(healing.lines(ours, others)), flush=True)
    found += healing.comparisons(ours, others)
    return healing.has_faults(ours) or (
        healing.WITHOUT_TLS in others and healing.has_faults(others[healing.WITHOUT_TLS])
    )


def _distribution(found: list[Comparison], note: Note, *, quick: bool) -> bool:
    measured = distribution.modes(quick=quick, note=note)
    if not quick:
        measured += distribution.crowds(note)
    print("\n".join(distribution.lines(measured)), flush=True)
    found += distribution.comparisons(measured)
    faults = distribution.faults(measured)
    print("\n".join(faults), end="\n" if faults else "", flush=True)
    return bool(faults)


def _raise_open_files() -> None:
    """Thousands of clients need that many files, here and in the gateways, which inherit this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
