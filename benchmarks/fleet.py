"""A fleet as row A13 has it: ``python -m benchmarks.fleet``.

Ten gateways, each a process, stand in a tree of four layers. At each of them 20 bundles of 2
devices with 10 sensors register over CoAP, and every other one over DTLS: 4,000 resources, which
are then updated. Every gateway is asked for them in every scope, and for a resource of every other
one. 500 devices register at one gateway, without a key, with one that it knows and with one that it
does not (row A8). What gateways take of processor, memory and threads stands beside row A12. Row
A9 is `benchmarks.request_forms`.

All is checked: what is registered is found from each gateway, and no more than that.

Exit codes: 0 done; 1 a gateway did not start or answer, or not as it should; 2 a wrong argument.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import comparison
from benchmarks.broker_process import StartError
from benchmarks.comparison import Comparison, shown
from benchmarks.fleet_cases import FULL, QUICK, FleetMeasurement
from benchmarks.fleet_tree import standing
from benchmarks.query_client import NoAnswerError
from dtls.errors import DtlsError

EXIT_FAILED = 1


def show(name: str, said: str) -> None:
    """A line of what is measured."""
    print(f"{name:<58} {said}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("fleet", (__doc__ or "").partition("\n")[0], arguments)
    plan = QUICK if options.quick else FULL
    found: list[Comparison] = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="fleet-benchmark-") as folder,
            standing(Path(folder)) as gateways,
        ):
            measurement = FleetMeasurement(plan, gateways, show)
            try:
                for one in measurement.results():
                    found.append(one)
                    figures = f"{shown(one.ours)} {one.unit}".strip()
                    show(one.case, f"{figures}, {one.ratio:.3g} x {one.peer_name}")
            finally:
                measurement.close()
    except (StartError, NoAnswerError, DtlsError) as error:
        print(f"benchmarks.fleet: {error}", file=sys.stderr)
        return EXIT_FAILED
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
