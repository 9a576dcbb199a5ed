"""Requests to other gateways: ``python -m benchmarks.query``.

Four gateways stand in a line, each a process; one client asks the first, one request at a time.
A resource one, two and three hops away is read beside one of the first gateway and beside the
same one at its owner; what is kept beside what is local; libcoap's client, started anew for each
request, at the owner and through the first gateway; ten gateways by a wildcard. Then 1, 100 and
1,000 observe a resource two hops away, and what goes over the link between is counted.

Exit codes: 0 done; 1 a gateway did not start or answer; 2 a wrong argument.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from benchmarks import comparison
from benchmarks.broker_process import StartError
from benchmarks.comparison import Comparison, shown
from benchmarks.query_client import NoAnswerError, QueryClient
from benchmarks.query_fleet import LINE, QueryGateway, running

EXIT_FAILED = 1
LIBCOAP = "coap-client-notls"
_VALVE = "/sensors/valve"
_LOAD = "/sensors/host/load1"
_CHANGES = 5


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The amount of work that is measured."""

    requests: int
    commands: int
    gateways: int
    observers: tuple[int, ...]


FULL = QueryPlan(3_000, 100, 10, (1, 100, 1_000))
QUICK = QueryPlan(500, 10, 5, (1, 100))


@dataclass(frozen=True, slots=True)
class Spread:
    """The 50th and the 99th percentile of times."""

    p50: float
    p99: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        """Return the spread of so many times."""
        cuts = quantiles(times, n=100)
        return cls(cuts[49], cuts[98])


def long_name(number: int, path: str) -> str:
    """Return a resource of a gateway of the line, as it is called at others."""
    return f"/q/bench/-/gw-{number}{path}"


class QueryMeasurement:
    """All cases on running gateways.

    Args:
        plan: the amount of work.
        gateways: that run.

    """

    def __init__(self, plan: QueryPlan, gateways: Sequence[QueryGateway]) -> None:
        self._plan = plan
        self._gateways = gateways
        self._client = QueryClient()
        self._entry = gateways[0].port

    def results(self) -> Iterator[Comparison]:
        """Yield each case, as it is measured, also as text."""
        local = self._spread("local GET of a switch", self._entry, _VALVE, 0)
        for hops in range(1, LINE):
            name = f"remote GET, {hops} hop{'s' * (hops > 1)}"
            remote = self._spread(name, self._entry, long_name(hops, _VALVE), 0)
            yield Comparison(f"{name}, p50", remote.p50, local.p50, "local GET", "us", "lower")
            yield Comparison(f"{name}, p99", remote.p99, local.p99, "local GET", "us", "lower")
        reading = self._spread("local GET of a reading", self._entry, _LOAD)
        hit = self._spread("cache hit", self._entry, long_name(2, _LOAD))
        yield Comparison("cache hit, p50", hit.p50, reading.p50, "local GET", "us", "lower")
        yield from self._commands()
        yield self._many()
        for count in self._plan.observers:
            self._observe(count)

    def close(self) -> None:
        """Ask no more."""
        self._client.close()

    def _spread(self, name: str, port: int, path: str, accept: int | None = None) -> Spread:
        self._client.times_us(port, path, self._plan.requests // 10, accept)
        spread = Spread.of(self._client.times_us(port, path, self._plan.requests, accept))
        _show(name, f"p50 {shown(spread.p50)} us, p99 {shown(spread.p99)} us")
        return spread

    def _commands(self) -> Iterator[Comparison]:
        if shutil.which(LIBCOAP) is None:
            _show("libcoap's client", "left out: sudo apt-get install libcoap3-bin")
            return
        owner = self._command(self._gateways[1].port, _VALVE)
        remote = self._command(self._entry, long_name(1, _VALVE))
        _show("libcoap's client at the owner", f"p50 {shown(owner.p50)} ms")
        _show("libcoap's client, 1 hop", f"p50 {shown(remote.p50)} ms")
        case = "libcoap's client, 1 hop, p50"
        yield Comparison(case, remote.p50, owner.p50, "the owner asked", "ms", "lower")

    def _command(self, port: int, path: str) -> Spread:
        uri = f"coap://127.0.0.1:{port}{path}"

        def run() -> None:
            subprocess.run([LIBCOAP, "-A", "0", uri], capture_output=True, check=True)

        return Spread.of([_took_s(run) * 1e3 for _ in range(self._plan.commands)])

    def _many(self) -> Comparison:
        count = len(self._gateways)
        path = f"/q/bench/*/*{_VALVE}"
        repeats = max(2, self._plan.requests // 30)

        def ask() -> None:
            if self._client.get(self._entry, path, 60).count(b"gw-") < count:
                raise NoAnswerError("not all gateways answered")

        many = Spread.of([_took_s(ask) * 1e6 for _ in range(repeats)])
        name = f"all {count} gateways by one request"
        _show(name, f"p50 {shown(many.p50)} us, p99 {shown(many.p99)} us")

        def each() -> None:
            for number in range(count):
                self._client.get(self._entry, long_name(number, _VALVE), 0)

        one_by_one = Spread.of([_took_s(each) * 1e6 for _ in range(repeats)])
        _show("one after the other", f"p50 {shown(one_by_one.p50)} us")
        return Comparison(
            *(f"{name}, p50", many.p50, one_by_one.p50, "one after the other"), "us", "lower"
        )

    def _observe(self, count: int) -> None:
        owner, relay = self._gateways[2], self._gateways[1]
        observers = QueryClient()
        try:
            self._client.put(owner.port, _VALVE, b"0")
            observers.observe(self._entry, long_name(2, _VALVE), count)
            before = self._passed_on(relay)
            begun = time.perf_counter()
            for change in range(_CHANGES):
                value = b"%d" % (1 - change % 2)
                self._client.put(owner.port, _VALVE, value)
                observers.told(count, (value + b".0").__eq__)
            took_ms = (time.perf_counter() - begun) * 1e3 / _CHANGES
            messages = (self._passed_on(relay) - before) / _CHANGES
        finally:
            observers.close()
        said = f"{messages:g} messages on a link for each change, all told in {shown(took_ms)} ms"
        _show(f"{count:,} observers, 2 hops", said)

    def _passed_on(self, relay: QueryGateway) -> int:
        return int(relay.status(self._client)["direct"]["passed_on"])


def _took_s(run: Callable[[], None]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _show(name: str, said: str) -> None:
    print(f"{name:<34} {said}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("query", __doc__.partition("\n")[0], arguments)
    plan = QUICK if options.quick else FULL
    found: list[Comparison] = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="query-benchmark-") as folder,
            running(Path(folder), plan.gateways) as gateways,
        ):
            measurement = QueryMeasurement(plan, gateways)
            try:
                for one in measurement.results():
                    found.append(one)
                    _show(f"  {one.case}", f"{one.ratio:.3g} x {one.peer_name}")
            finally:
                measurement.close()
    except (StartError, NoAnswerError, subprocess.CalledProcessError) as error:
        print(f"benchmarks.query: {error}", file=sys.stderr)
        return EXIT_FAILED
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
