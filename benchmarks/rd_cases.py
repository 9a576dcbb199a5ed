"""The cases of resource directories in which so many endpoints are registered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import coap_load
from benchmarks.coap_figures import CaseResult, rate_result
from benchmarks.coap_load import DELETE, GET, POST, PUT, Load, Programs, Run
from benchmarks.coap_servers import AIOCOAP_RD, LIBCOAP_RD, Served

MOST_OF_AIOCOAP = 6_000
"""Endpoints: with more a look-up takes it seconds, as it goes through all of them."""
_CLIENTS = 8
_LINKS = (1, 4, 20)
_EXTRA = 1_000
"""So many are registered and removed again in a round."""
_OWN = 100
_SLOW_LIMIT_S = 4.0
_FILL_LIMIT_S = 60.0
_LIFETIME_S = 3_600
_BIG = 1_000_000
"""Numbers of endpoints that stand in no directory before a round."""
_ENDS = "coap-rd 4.3.1 ends (it crashes) when a registration is removed"
_LOOK_UPS = (
    ("ep", "ep", "ep=n#"),
    ("rt", "res", "rt=temperature&count=1&page=0"),
    ("href", "res", "href=coap://n#.example/s/0"),
    ("a prefix", "ep", "ep=n1#*&count=1&page=0"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of endpoints, and how often and how long is measured."""

    endpoints: int
    rounds: int
    look_up_s: float
    link_counts: tuple[int, ...] = _LINKS


@dataclass(frozen=True, slots=True)
class Directory:
    """One that is filled.

    Attributes:
        served: it runs.
        endpoints: so many are registered.
        locations: the file of their locations, a line each.
        fill: the run that registered them.

    """

    served: Served
    endpoints: int
    locations: Path
    fill: Run

    def look_up(self, kind: str, query: str) -> str:
        """Path and query of a look-up of endpoints, ``ep``, or of links, ``res``."""
        if self.served.name == AIOCOAP_RD:
            path = {"ep": "/endpoint-lookup/?", "res": "/resource-lookup/?"}[kind]
        else:
            path = f"/rd-lookup/{kind}?"
        return path + query


def links(count: int) -> str:
    """Return a registration's payload of less than one block."""
    return ",".join(f'</s/{n}>;rt="temperature";if="core.s"' for n in range(count))


def registration(first: int, count: int, link_count: int = 1, query: str = "") -> Load:
    """So many endpoints from a number on, each once."""
    uri = f"/rd?ep=n#&lt={_LIFETIME_S}&base=coap://n#.example{query}"
    return Load("", uri, _CLIENTS, POST, links(link_count), first=first, count=count)


def filled(programs: Programs, served: Served, endpoints: int, folder: Path) -> Directory:
    """Register so many endpoints with one link, or as many as the directory can bear."""
    if served.name == AIOCOAP_RD:
        endpoints = min(endpoints, MOST_OF_AIOCOAP)
    locations = folder / f"locations-{served.port}"
    load = replace(registration(0, endpoints), limit_s=_FILL_LIMIT_S, locations=locations)
    run = coap_load.run(programs, load, served.port)
    return Directory(served, min(run.answered, endpoints), locations, run)


class Measurement:
    """The cases of one number of endpoints, round by round over the directories.

    Args:
        plan: the amount of work.
        programs: the compiled generator.
        folder: for files of locations.

    """

    def __init__(self, plan: Plan, programs: Programs, folder: Path) -> None:
        self._plan = plan
        self._programs = programs
        self._folder = folder
        self._at = f"at {plan.endpoints:,} endpoints"

    def results(self, servers: Sequence[Served]) -> Iterator[CaseResult]:
        """Yield every case as soon as it is measured; the directories are filled first."""
        plan = self._plan
        # A directory of ours is full at 100,000, and holds some of the gateway's own.
        room = _EXTRA + _OWN if plan.endpoints > 10 * _EXTRA else 0
        directories = [
            filled(self._programs, served, plan.endpoints - room, self._folder)
            for served in servers
        ]
        fills = {one.served.name: [one.fill] for one in directories}
        yield self._result(f"first registrations with 1 link {self._at}", directories, fills)
        yield self._memory(directories)
        threads = {one.served.name: float(one.served.threads()) for one in directories}
        yield CaseResult(f"threads {self._at}", "threads", "lower", threads)
        for count in plan.link_counts:
            yield from self._registered_and_removed(count, directories)
        yield self._updated(directories)
        for look_up in _LOOK_UPS:
            yield from self._looked_up(*look_up, directories)

    def _result(
        self, case: str, directories: Sequence[Directory], runs: dict[str, list[Run]]
    ) -> CaseResult:
        fewer = {
            one.served.name: f"at {one.endpoints:,} endpoints ONLY"
            for one in directories
            if one.endpoints < self._plan.endpoints - _EXTRA - _OWN
        }
        return rate_result(case, "1/s", runs, fewer)

    def _registered_and_removed(
        self, link_count: int, directories: Sequence[Directory]
    ) -> Iterator[CaseResult]:
        registered: dict[str, list[Run]] = {one.served.name: [] for one in directories}
        removed: dict[str, list[Run]] = {one.served.name: [] for one in directories}
        for turn in range(self._plan.rounds):
            for one in directories:
                name, port = one.served.name, one.served.port
                file = self._folder / f"extra-{port}"
                first = _BIG * link_count + turn * _EXTRA
                load = registration(first, _EXTRA, link_count)
                load = replace(load, limit_s=_SLOW_LIMIT_S, locations=file)
                registered[name].append(coap_load.run(self._programs, load, port))
                count = len(file.read_text().splitlines())
                if count and name != LIBCOAP_RD:
                    load = Load("", "", _CLIENTS, DELETE, paths=file, count=count)
                    load = replace(load, limit_s=2 * _SLOW_LIMIT_S)
                    removed[name].append(coap_load.run(self._programs, load, port))
        case = f"registrations with {link_count} link{'s' * (link_count > 1)} {self._at}"
        yield self._result(case, directories, registered)
        if link_count == self._plan.link_counts[0]:
            if LIBCOAP_RD in removed:
                removed[LIBCOAP_RD] = [Run(fault=_ENDS)]
            yield self._result(f"removals {self._at}", directories, removed)

    def _updated(self, directories: Sequence[Directory]) -> CaseResult:
        post = Load("", f"?lt={_LIFETIME_S + 1}", _CLIENTS, POST)
        runs: dict[str, list[Run]] = {one.served.name: [] for one in directories}
        for _ in range(self._plan.rounds):
            for one in directories:
                method = PUT if one.served.name == LIBCOAP_RD else POST
                asked = replace(post, paths=one.locations, method=method)
                runs[one.served.name].append(coap_load.run(self._programs, asked, one.served.port))
        return self._result(f"updates {self._at}", directories, runs)

    def _looked_up(
        self, what: str, kind: str, query: str, directories: Sequence[Directory]
    ) -> Iterator[CaseResult]:
        can = [one for one in directories if one.served.name != LIBCOAP_RD]
        many: dict[str, list[Run]] = {one.served.name: [] for one in can}
        single: dict[str, list[Run]] = {one.served.name: [] for one in can}
        for _ in range(self._plan.rounds):
            for one in can:
                slow_s = 4 * self._plan.look_up_s if one.served.name == AIOCOAP_RD else 0.0
                measure_s = max(self._plan.look_up_s, slow_s)
                for clients, runs in ((_CLIENTS, many), (1, single)):
                    modulo = max(1, one.endpoints // 20)
                    load = Load("", one.look_up(kind, query), clients, GET, modulo=modulo)
                    runs[one.served.name].append(
                        coap_load.run(self._programs, load, one.served.port, measure_s=measure_s)
                    )
        yield self._result(f"look-ups by {what} {self._at}", can, many)
        yield self._latency(f"{what} {self._at}", self._result("", can, single), single)

    def _latency(self, what: str, rates: CaseResult, runs: dict[str, list[Run]]) -> CaseResult:
        middle = {
            name: sorted(run.p50_us for run in runs[name])[len(runs[name]) // 2]
            for name in rates.figures
        }
        case = f"one look-up at a time by {what}, p50"
        return CaseResult(case, "us", "lower", middle, rates.faults, rates.notes)

    def _memory(self, directories: Sequence[Directory]) -> CaseResult:
        return CaseResult(
            f"RSS {self._at}",
            "MiB",
            "lower",
            {one.served.name: one.served.rss_mib() for one in directories},
            notes={one.served.name: f"{one.endpoints:,} endpoints" for one in directories},
        )
