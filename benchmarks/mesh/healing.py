"""The healing of a mesh of five: ours and Zenoh's routers, beside what was published."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.comparison import Comparison, shown
from benchmarks.mesh import failures, network, zenoh_mesh
from benchmarks.mesh.failures import Figures, Try
from benchmarks.mesh.gateways import Gateways
from benchmarks.mesh.relay import Shape
from benchmarks.mesh.silences import Listening
from benchmarks.mesh.traffic import Traffic
from gateway.base.percentiles import percentile

PUBLISHED_CONVERGENCE_MS = 19_500.0
PUBLISHED_REPAIR_MS = 59_100.0
PUBLISHED = "published (row C8)"
WITHOUT_TLS = "ours, links without TLS"
ZENOH_CUT_S = 16.0
"""Longer than its lease for a neighbour that says nothing, which is 10 s."""
ORPHANS = "a parent is killed: all pairs with one of its children"
TARGETS_MS = {
    # Of the 50 ms after a socket error; that reaches the children one edge's delay after the kill.
    ORPHANS: (50.0 + Shape().delay_ms, "p50"),
    failures.COLD_START: (1_000.0, "worst"),
    failures.ROOT_DEATH: (500.0, "worst"),
    failures.CUT: (2_500.0, "worst"),
    failures.CUT_DOWN: (2_500.0, "worst"),
    failures.CUT_UP: (2_500.0, "worst"),
}
REPAIRS = (failures.DEATH, failures.ROOT_DEATH, failures.CUT, failures.CUT_DOWN, failures.CUT_UP)


async def ours(
    tries: int, *, quick: bool, note: Callable[[str], None], tls: str = "required"
) -> Figures:
    """Return gateways, try after try, each from an empty state; ``tls`` as in `Gateways`."""
    figures = Figures()
    with network.mesh(failures.HOSTS) as net:
        for number in range(tries):
            net.heal()
            with _folder() as folder:
                async with Gateways(net, folder, tls=tls) as gateways:
                    traffic = Traffic(net, rate_hz=failures.RATE_HZ)
                    try:
                        await _one(gateways, traffic, figures, quick=quick, note=note)
                        _add_counts(figures, traffic)
                        if traffic.lost() or traffic.count.examples:
                            kept = Path(tempfile.mkdtemp(prefix="mesh-benchmark-failed-"))
                            shutil.copytree(folder, kept, dirs_exist_ok=True)
                            figures.notes.append(f"try {number + 1}: logs are in {kept}")
                    finally:
                        await traffic.stop()
                    figures.notes += gateways.died()
    return figures


async def _one(
    gateways: Gateways,
    traffic: Traffic,
    figures: Figures,
    *,
    quick: bool,
    note: Callable[[str], None],
) -> None:
    async def begin() -> Listening:
        await traffic.subscribe()
        traffic.begin()
        return traffic

    one = Try(gateways, figures, note=note)
    await one.cold_start(begin)
    await one.events(traffic, quick=quick)
    if quick:  # those that are down hold acknowledged messages, and are owed some
        for host in range(failures.HOSTS):
            if host not in gateways.running:
                await gateways.start(host)
    if not await traffic.settle():
        figures.notes.append("not all had arrived in time")


def _add_counts(figures: Figures, traffic: Traffic) -> None:
    figures.counts["acknowledged"] += traffic.count.acknowledged
    figures.counts["lost"] += traffic.lost()
    for what in ("doubled", "disordered"):
        figures.counts[what] += traffic.count.total(what)
    figures.counts["sessions lost"] += len(traffic.count.lost_sessions)


async def zenoh(tries: int, *, note: Callable[[str], None]) -> Figures:
    """Zenoh's routers, in the same way."""
    figures = Figures()
    with network.mesh(failures.HOSTS) as net:
        for _ in range(tries):
            net.heal()
            async with zenoh_mesh.ZenohMesh(net, rate_hz=failures.RATE_HZ) as mesh:
                one = Try(mesh, figures, cut_s=ZENOH_CUT_S, note=note)
                traffic = await one.cold_start(mesh.begin)
                await one.events(traffic)
                await mesh.end()
                _add_zenoh_counts(figures, mesh)
    return figures


def _add_zenoh_counts(figures: Figures, mesh: zenoh_mesh.ZenohMesh) -> None:
    """Of publishers and subscribers whose own router was never killed."""
    count = mesh.listening.count
    hosts = [s.host for s in count.streams]
    steady = [s for s in count.streams if hosts.count(s.host) == 1]
    names = [f"subscriber-{s.number}" for s in steady]
    for stream in steady:
        figures.counts["sent"] += stream.sent
        for name in names:
            # It was there before and after all that counts.
            figures.counts["lost"] += sum(b - a + 1 for a, b in count.missing(name, stream))
    for what in ("doubled", "disordered"):
        figures.counts[what] += sum(
            getattr(count.received[name][stream.number], what)
            for name in names
            for stream in steady
            if stream.number in count.received[name]
        )


# -- what is told ----------------------------------------------------------------------------------


def lines(figures: Figures, others: Mapping[str, Figures]) -> Iterator[str]:
    """Yield the table, ours beside others by name, and which targets we missed."""
    every = (figures, *others.values())
    names = "".join(f"{name:>27}" for name in ("ours", *others))
    yield f"{'ms; p50 / p95 / worst of the tries':<64}{names}"
    for event in (failures.START, failures.COLD_START):
        yield _row(event, *(one.back_ms[event] for one in every))
    yield "the longest silence that any subscriber noticed of any publisher:"
    for event in list(figures.silences_ms):
        yield _row(event, *(one.silences_ms[event] for one in every))
    yield _row(ORPHANS, *(one.orphans_ms for one in every))
    healed = (one.back_ms[failures.HEAL] for one in every)
    yield _row("after healing: the root is the parent again", *healed)
    published = f"convergence {PUBLISHED_CONVERGENCE_MS:,.0f}; repair {PUBLISHED_REPAIR_MS:,.0f}"
    yield f"{PUBLISHED}: {published}"
    yield f"ours: {_counted(figures)}"
    for name, other in others.items():
        which = " (hosts whose router was never killed)" if name == zenoh_mesh.NAME else ""
        yield f"{name}{which}: {_counted(other)}"
    for event, (target_ms, which) in TARGETS_MS.items():
        values = figures.silences_ms.get(event) or figures.back_ms.get(event, [])
        values = figures.orphans_ms if event == ORPHANS else values
        if values and (found := _of(values, which)) > target_ms:
            yield f"MISSED: {event}: {which} {shown(found)} ms, target {target_ms:,.0f} ms"
    for one in every:
        yield from one.notes


def comparisons(figures: Figures, others: Mapping[str, Figures]) -> Iterator[Comparison]:
    """Ours beside the published figures and those of others by name, medians."""
    start = figures.back_ms[failures.COLD_START]
    if start:
        ours_ms = percentile(start, 50)
        yield Comparison(
            "convergence of 5", ours_ms, PUBLISHED_CONVERGENCE_MS, PUBLISHED, "ms", "lower"
        )
        for name, other in others.items():
            if other_start := other.back_ms[failures.COLD_START]:
                other_ms = percentile(other_start, 50)
                yield Comparison("convergence of 5", ours_ms, other_ms, name, "ms", "lower")
    for event in REPAIRS:
        if not figures.silences_ms[event]:
            continue
        ours_ms = percentile(figures.silences_ms[event], 50)
        case = f"repair: {event}"
        yield Comparison(case, ours_ms, PUBLISHED_REPAIR_MS, PUBLISHED, "ms", "lower")
        for name, other in others.items():
            if other.silences_ms[event]:
                other_ms = percentile(other.silences_ms[event], 50)
                yield Comparison(case, ours_ms, other_ms, name, "ms", "lower")


def has_faults(figures: Figures) -> bool:
    """Return whether messages or sessions were lost, or messages doubled or out of order."""
    return any(figures.counts[what] for what in ("lost", "doubled", "disordered", "sessions lost"))


def _row(event: str, *values: list[float]) -> str:
    return f"  {event:<62}" + "".join(f"{_three(one):>27}" for one in values)


def _three(values: list[float]) -> str:
    return " / ".join(f"{_of(values, w):,.0f}" for w in ("p50", "p95", "worst")) if values else "-"


def _of(values: list[float], which: str) -> float:
    return max(values) if which == "worst" else percentile(values, float(which[1:]))


def _counted(figures: Figures) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in figures.counts.items())


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mesh-benchmark-") as folder:
        yield Path(folder)
