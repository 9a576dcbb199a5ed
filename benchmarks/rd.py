"""Resource directories under one load generator: ``python -m benchmarks.rd``.

Endpoints register with 1, 4 and 20 links, are updated and removed, and are looked up, while 500,
6,000 and 100,000 are registered; 100,000 expire at once; 500 register with four attributes. The
peers are libcoap's ``coap-rd``, which looks up nothing and lets nothing expire, and aiocoap's
directory, which has 6,000 endpoints at most: its figures of more would be of its patience.

Each group of cases has servers of its own, which run at once; a case goes to one after the other,
round by round.

Exit codes: 0 done; 1 ours did not start or failed in a case; 2 a wrong argument, or no compiler.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import coap_load, coap_servers, comparison, rd_alone
from benchmarks.broker_process import StartError
from benchmarks.coap import EXIT_OURS_FAILED, EXIT_WRONG_USE, finish, heading, raise_open_files
from benchmarks.coap_figures import CaseResult
from benchmarks.coap_load import Programs
from benchmarks.coap_servers import Served, Server
from benchmarks.load_generator import GeneratorError
from benchmarks.rd_cases import Measurement, Plan

_EXPIRING = 99_900
"""A directory of ours is full at 100,000, and holds some of the gateway's own."""
_LIFETIME_S = 90
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Cases that share servers: their name, those servers, and how they are measured."""

    name: str
    servers: Callable[[], list[Server]]
    measure: Callable[[Programs, Sequence[Served], Path], Iterator[CaseResult]]


def _peers() -> list[Server]:
    wanted = (coap_servers.libcoap_directory(), coap_servers.aiocoap_directory())
    return [server for server in wanted if server is not None]


def _all() -> list[Server]:
    return [*coap_servers.all_ours(fills=False), *_peers()]


def _one_of_ours() -> list[Server]:
    return coap_servers.all_ours(fills=False)[:1]


def _filled(plan: Plan, *, all_ours: bool) -> Group:
    def measure(
        programs: Programs, servers: Sequence[Served], folder: Path
    ) -> Iterator[CaseResult]:
        return Measurement(plan, programs, folder).results(servers)

    return Group(
        f"at {plan.endpoints:,} endpoints",
        _all if all_ours else lambda: [*_one_of_ours(), *_peers()],
        measure,
    )


def groups(*, is_quick: bool) -> list[Group]:
    """Return all of them, or the one that ``--quick`` has time for."""
    if is_quick:
        return [_filled(Plan(500, 1, 0.4), all_ours=True)]
    return [
        _filled(Plan(500, _ROUNDS, 0.4), all_ours=True),
        _filled(Plan(6_000, _ROUNDS, 0.7), all_ours=True),
        _filled(Plan(100_000, _ROUNDS, 0.7), all_ours=False),
        Group(
            "expiry of 100,000",
            _one_of_ours,
            lambda programs, servers, _: rd_alone.expiry(
                programs, servers[0], _EXPIRING, _LIFETIME_S
            ),
        ),
        Group(
            f"{rd_alone.FEW} of 4 attributes",
            _all,
            lambda programs, servers, _: rd_alone.four_attributes(programs, servers, _ROUNDS),
        ),
    ]


def measure(group: Group, programs: Programs, folder: Path) -> Iterator[CaseResult]:
    """Start a group's servers and measure its cases."""
    folder.mkdir()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(coap_servers.launched(server, folder / f"rd-{number}"))
            for number, server in enumerate(group.servers())
        ]
        yield from group.measure(programs, servers, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    names = [group.name for group in groups(is_quick=False)]
    options = comparison.options("rd", __doc__.partition("\n")[0], arguments, names)
    raise_open_files()
    results: list[CaseResult] = []
    try:
        with tempfile.TemporaryDirectory(prefix="rd-benchmark-") as folder:
            programs = coap_load.compile_programs(Path(folder))
            print("\n".join(heading()), flush=True)
            for number, group in enumerate(groups(is_quick=options.quick)):
                if options.case not in group.name:
                    continue
                for result in measure(group, programs, Path(folder) / f"group-{number}"):
                    results.append(result)
                    print("\n".join(("", *result.lines())), flush=True)
    except (GeneratorError, StartError) as error:
        print(f"benchmarks.rd: {error}", file=sys.stderr)
        return EXIT_WRONG_USE if isinstance(error, GeneratorError) else EXIT_OURS_FAILED
    return finish(results, options)


if __name__ == "__main__":
    sys.exit(main())
