"""Resource directories under one load generator: ``python -m benchmarks.rd``.

Endpoints register with 1, 4 and 20 links, and are looked up while so many are registered. The
peers are libcoap's ``coap-rd``, which looks up nothing, and aiocoap's directory.

Exit codes: 0 done; 1 ours did not start or failed in a case; 2 a wrong argument, or no compiler.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks import coap_load, coap_servers, comparison
from benchmarks.broker_process import StartError
from benchmarks.coap import EXIT_OURS_FAILED, EXIT_WRONG_USE, finish, heading, raise_open_files
from benchmarks.coap_figures import CaseResult, rate_result
from benchmarks.coap_load import POST, Load, Programs, Run
from benchmarks.coap_servers import Served
from benchmarks.load_generator import GeneratorError

_CLIENTS = 8
_LINKS = (1, 4, 20)
_ENDPOINTS = (500, 6_000)
_LIFETIME_S = 3_600
_MEASURE_S = 0.5
_SLOW_S = 4.0
"""Where a peer needs seconds for an answer."""
_LOOK_UPS = (
    ("ep", "ep=n#"),
    ("rt", "rt=temperature&count=1&page=0"),
    ("href", "href=coap://n#.example/s/0"),
    ("a prefix", "ep=n1#*&count=1&page=0"),
)
_BIG = 1_000_000
"""Numbers of endpoints that no case of another number of links has."""


def links(count: int) -> str:
    """A registration's payload of less than one block."""
    return ",".join(f'</s/{n}>;rt="temperature";if="core.s"' for n in range(count))


def measure(
    programs: Programs, servers: Sequence[Served], totals: Sequence[int]
) -> Iterator[CaseResult]:
    """Every case as soon as it is measured; the directories grow meanwhile."""
    looks_up = [server for server in servers if server.name != "libcoap coap-rd"]
    for total in totals:
        runs: dict[str, list[Run]] = {}
        for server in servers:
            fill = Load(
                "",
                f"/rd?ep=n#&lt={_LIFETIME_S}&base=coap://n#.example",
                _CLIENTS,
                POST,
                links(1),
                count=total,
            )
            runs[server.name] = [coap_load.run(programs, fill, server.port)]
        yield rate_result(f"first {total:,} registrations of 1 link", "registrations/s", runs)
        for what, query in _LOOK_UPS:
            where = "ep" if query.startswith("ep") else "res"
            load = Load("", "", _CLIENTS, modulo=total // 20)
            case = f"look-up by {what} at {total:,} endpoints"
            measure_s = _MEASURE_S if total <= _ENDPOINTS[0] else _SLOW_S
            looked_up = {}
            for server in looks_up:
                asked = replace(load, uri=_path(server, where) + query)
                run = coap_load.run(programs, asked, server.port, measure_s=measure_s)
                looked_up[server.name] = [run]
            yield rate_result(case, "look-ups/s", looked_up)
    for place, count in enumerate(_LINKS):
        load = Load(
            "",
            f"/rd?ep=n#&lt={_LIFETIME_S}",
            _CLIENTS,
            POST,
            links(count),
            first=_BIG * (place + 1),
        )
        case = f"registration with {count} links at {totals[-1]:,} endpoints"
        yield rate_result(
            case,
            "registrations/s",
            {
                server.name: [coap_load.run(programs, load, server.port, measure_s=_MEASURE_S)]
                for server in servers
            },
        )
    yield CaseResult(
        "RSS after all that",
        "MiB",
        "lower",
        {server.name: server.rss_mib() for server in servers},
        notes={server.name: f"{server.threads()} threads" for server in servers},
    )


def _path(server: Served, where: str) -> str:
    if server.name == "aiocoap-rd":
        return {"ep": "/endpoint-lookup/?", "res": "/resource-lookup/?"}[where]
    return f"/rd-lookup/{where}?"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("rd", __doc__.partition("\n")[0], arguments)
    raise_open_files()
    results: list[CaseResult] = []
    try:
        with tempfile.TemporaryDirectory(prefix="rd-benchmark-") as folder, ExitStack() as stack:
            programs = coap_load.compile_programs(Path(folder))
            wanted = [
                *coap_servers.all_ours(fills=False),
                coap_servers.libcoap_directory(),
                coap_servers.aiocoap_directory(),
            ]
            servers = [
                stack.enter_context(coap_servers.launched(server, Path(folder) / f"rd-{number}"))
                for number, server in enumerate(wanted)
                if server is not None
            ]
            print("\n".join(heading()), flush=True)
            for result in measure(programs, servers, _ENDPOINTS[: 1 if options.quick else None]):
                results.append(result)
                print("\n".join(("", *result.lines())), flush=True)
    except (GeneratorError, StartError) as error:
        print(f"benchmarks.rd: {error}", file=sys.stderr)
        return EXIT_WRONG_USE if isinstance(error, GeneratorError) else EXIT_OURS_FAILED
    return finish(results, options)


if __name__ == "__main__":
    sys.exit(main())
