"""DTLS servers under one generator of handshakes: ``python -m benchmarks.dtls``.

Handshakes with a pre-shared key, with certificates on both sides and resumed by a ticket, eight at
a time and each from a new port, all with AES_128_CCM_8, which RFC 7252 has everybody speak; GETs
of a sensor over 32 sessions; and what a session takes of memory. Both servers run at once, and a
case goes to one after the other, round by round.

Exit codes: 0 done; 1 ours did not start or failed in a case; 2 a wrong argument, or no compiler.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import coap, coap_load, coap_servers, comparison, dtls_load
from benchmarks.broker_process import StartError
from benchmarks.coap_figures import CaseResult, rate_result
from benchmarks.coap_load import Load, Run
from benchmarks.coap_servers import Served
from benchmarks.dtls_certificates import DtlsCertificates
from benchmarks.dtls_load import Shaken
from benchmarks.load_generator import GeneratorError

_KEEP_S = 10.0
_HELD = 200
_PAUSES_S = (0.0, 5.0)
"""Before a run, and before it is tried again: libcoap's server stands still at times."""
_CONFIG = """
certificate_file = "{server[0]}"
key_file = "{server[1]}"
client_ca_file = "{authority}"
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of identity that clients come with."""

    name: str
    arguments: Sequence[str]


def handshakes(
    program: Path, proof: Proof, servers: Sequence[Served], plan: coap.Plan, *, resumed: bool
) -> CaseResult:
    """Measure one kind of handshake."""
    found: dict[str, list[Shaken]] = {server.name: [] for server in servers}
    for _ in range(plan.rounds):
        for server in servers:
            if any(one.run.fault for one in found[server.name]):
                continue
            for pause_s in _PAUSES_S:
                time.sleep(pause_s)
                one = dtls_load.shake_hands(
                    program, proof.arguments, server, plan.measure_s, resumed=resumed
                )
                if one.run.fault != dtls_load.NONE_AT_ALL:
                    break
            found[server.name].append(one)
    how = "handshakes resumed, of" if resumed else "handshakes with"
    taken = {
        name: f"server {median(one.server_cpu_us for one in of_server):.0f} us of CPU each"
        for name, of_server in found.items()
    }
    runs = {name: [one.run for one in of_server] for name, of_server in found.items()}
    return rate_result(f"{how} {proof.name}", "handshakes/s", runs, taken)


def requests(
    programs: coap_load.Programs, servers: Sequence[Served], plan: coap.Plan
) -> CaseResult:
    """GETs over sessions that are there."""
    runs: dict[str, list[Run]] = {server.name: [] for server in servers}
    for _ in range(plan.rounds):
        for server in servers:
            load = Load("", server.sensor, 32, over_dtls=True)
            port = server.dtls_port or 0
            runs[server.name].append(coap_load.run(programs, load, port, measure_s=plan.measure_s))
    return rate_result("GET of a sensor, DTLS, 32 in flight", "requests/s", runs)


def memory(
    program: Path, proofs: Sequence[Proof], servers: Sequence[Served]
) -> Iterator[CaseResult]:
    """Measure what each of many sessions takes, beside those with the proofs before it."""
    figures: dict[str, dict[str, float]] = {proof.name: {} for proof in proofs}
    faults: dict[str, dict[str, str]] = {proof.name: {} for proof in proofs}
    for server in servers:
        with ExitStack() as stack:
            for proof in proofs:
                before = server.rss_mib()
                session = dtls_load.held(program, proof.arguments, server, _HELD)
                count = stack.enter_context(session)
                time.sleep(0.5)
                grown_kib = (server.rss_mib() - before) * 1024
                if count < _HELD or grown_kib <= 0:
                    why = f"{count} of {_HELD} sessions, {grown_kib:.0f} KiB more"
                    faults[proof.name][server.name] = why
                else:
                    figures[proof.name][server.name] = grown_kib / _HELD
    for proof in proofs:
        case = f"memory of a session with {proof.name}"
        yield CaseResult(case, "KiB", "lower", figures[proof.name], faults[proof.name])


def all_results(
    folder: Path, certificates: DtlsCertificates, servers: Sequence[Served], plan: coap.Plan
) -> Iterator[CaseResult]:
    """Yield every case as soon as it is measured."""
    program = dtls_load.compile_program(folder)
    key = Proof("a key", dtls_load.with_key())
    shown = Proof("certificates", dtls_load.with_certificate(certificates))
    if plan.has_all_cases:  # first: what others leave behind would be taken again
        yield from memory(program, (key, shown), servers)
    yield handshakes(program, key, servers, plan, resumed=False)
    yield handshakes(program, shown, servers, plan, resumed=False)
    yield handshakes(program, key, servers, plan, resumed=True)
    yield requests(coap_load.compile_programs(folder), servers, plan)
    yield handshakes(program, shown, servers, plan, resumed=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("dtls", (__doc__ or "").partition("\n")[0], arguments)
    plan = coap.Plan(1, 0.5, comparison.QUICK_S - _KEEP_S, False) if options.quick else PLAN
    coap.raise_open_files()
    results: list[CaseResult] = []
    try:
        with tempfile.TemporaryDirectory(prefix="dtls-benchmark-") as name, ExitStack() as stack:
            folder = Path(name)
            certificates = DtlsCertificates(folder)
            servers = [
                stack.enter_context(coap_servers.launched(server, folder / f"server-{number}"))
                for number, server in enumerate(_servers(certificates))
            ]
            print("\n".join(coap.heading()), flush=True)
            for result in all_results(folder, certificates, servers, plan):
                results.append(result)
                print("\n".join(("", *result.lines())), flush=True)
    except (GeneratorError, StartError) as error:
        print(f"benchmarks.dtls: {error}", file=sys.stderr)
        wrong_use = isinstance(error, GeneratorError)
        return coap.EXIT_WRONG_USE if wrong_use else coap.EXIT_OURS_FAILED
    return coap.finish(results, options)


PLAN = coap.Plan(5, 1.0)


def _servers(certificates: DtlsCertificates) -> Iterator[coap_servers.Server]:
    own = _CONFIG.format(server=certificates.server, authority=certificates.authority)
    yield from coap_servers.all_ours(coap=own, fills=False)
    shown, key = certificates.server
    peer = coap_servers.libcoap(
        ("-c", str(shown), "-j", str(key), "-C", str(certificates.authority))
    )
    if peer is not None:
        yield peer


if __name__ == "__main__":
    sys.exit(main())
