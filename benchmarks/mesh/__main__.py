"""A mesh of gateways in network namespaces: how fast it heals, and what messages take and cost.

Five hosts, an edge between each two, delay normal(10, 2.5) ms, 10 Mbit/s (row C8). Needs root.

    python -m benchmarks.mesh [--quick] [--json FILE]
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import time
from collections.abc import Sequence

from benchmarks import comparison
from benchmarks.comparison import Comparison
from benchmarks.mesh import healing, namespaces, zenoh_mesh
from benchmarks.mesh.gateways import MeshError
from gateway import event_loop

TRIES = 10
ZENOH_TRIES = 4
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
    found: list[Comparison] = []
    try:
        failed = _healing(found, quick=options.quick)
    except (MeshError, namespaces.BedError) as error:
        print(f"benchmarks.mesh: {error}", file=sys.stderr)
        return EXIT_OURS_FAILED
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return EXIT_OURS_FAILED if failed else 0


def _healing(found: list[Comparison], *, quick: bool) -> bool:
    began_s = time.monotonic()

    def note(line: str) -> None:
        print(f"    {time.monotonic() - began_s:7.1f} s  {line}", file=sys.stderr, flush=True)

    ours = event_loop.run(healing.ours(1 if quick else TRIES, quick=quick, note=note))
    peer = None
    if quick:
        print("left out with --quick: Zenoh, silent cuts, healing")
    elif zenoh_mesh.is_installed():
        peer = event_loop.run(healing.zenoh(ZENOH_TRIES, note=note))
    else:
        print(f"MISSING, left out: {zenoh_mesh.NAME}: pip install {zenoh_mesh.PACKAGE}")
    print("\n".join(healing.lines(ours, peer)), flush=True)
    found += healing.comparisons(ours, peer)
    return healing.has_faults(ours)


if __name__ == "__main__":
    sys.exit(main())
