"""The figures of each broker in one case, what follows from them, and how they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.broker_cases import LATENCY, RATE, Load, Metric
from benchmarks.comparison import Comparison, shown
from benchmarks.load_generator import Run
from gateway.base.percentiles import percentile

OURS = "hedgerow (write)"
OURS_SYNCED = "hedgerow (sync)"
OURS_INTERPRETED = "hedgerow interpreted"
OURS_ASYNCIO = "hedgerow on asyncio"
OURS_ASYNCIO_SYNCED = "hedgerow on asyncio (sync)"
_NAME = "hedgerow"
"""Every gateway that is measured is called so, whatever stands behind it."""
SYNCED = ", synced to disk"
"""Behind a case's name where ours is the gateway that syncs."""
INTERPRETED = ", interpreted"
"""Behind a case's name where ours is the gateway that runs uncompiled."""
NEAR_LIMIT = 0.5
"""Share of what the null broker delivers from which on a figure may be the generator's too."""
BUSY_LIMIT = 0.9
"""Share of a core from which on the generator may be the slower one."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One broker's figure; `value` is None where `fault` says why there is none.

    `generator_cpu` is the generator's share of a core, in the run in which it was largest.
    `broker_cpu_us` is what the broker takes of a core for a message, in the median of the rounds.
    `spread` is the rounds' lowest and highest value, where there were several.
    """

    broker: str
    value: float | None
    fault: str = ""
    generator_cpu: float | None = None
    broker_cpu_us: float | None = None
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """All brokers' figures in one case.

    `alone` is the generator's own figure, against the null broker: None if it does not apply.
    """

    case: str
    metric: Metric
    figures: Sequence[Figure]
    alone: float | None = None
    shows_sync: bool = True
    one_in_flight: bool = False

    def figure_of(self, broker: str) -> Figure | None:
        """Return the broker's figure, None if it took no part."""
        return next((one for one in self.figures if one.broker == broker), None)

    def comparisons(self) -> Iterator[Comparison]:
        """Ours beside each peer that has a figure, and beside its own variants."""
        for name, extra in ((OURS, ""), (OURS_SYNCED, SYNCED), (OURS_INTERPRETED, INTERPRETED)):
            own = self.figure_of(name)
            if own is None or not own.value or (extra == SYNCED and not self.shows_sync):
                continue
            for peer in self.figures:
                if peer.broker in (OURS, OURS_SYNCED) or not peer.value:
                    continue
                if not (extra and is_ours(peer.broker)):  # those are variants of the first
                    yield Comparison(
                        self.case + extra,
                        own.value,
                        peer.value,
                        peer.broker,
                        self.metric.unit,
                        self.metric.better,
                    )

    def lines(self) -> Iterator[str]:
        """Yield the case as text: a heading, then a line for each broker."""
        alone = "" if self.alone is None else f"; generator alone: {shown(self.alone)}"
        yield f"{self.case} ({self.metric.unit}, {self.metric.better} is better{alone})"
        own = self.figure_of(OURS)
        for figure in self.figures:
            if figure.value is None:
                yield f"    {figure.broker:<34} left out: {figure.fault}"
                continue
            notes = []
            if own is not None and own.value and figure.broker not in (OURS, OURS_SYNCED):
                notes.append(f"ours is {own.value / figure.value:.3g} x")
            if figure.broker_cpu_us is not None:
                notes.append(f"{figure.broker_cpu_us:.3g} us of a core each")
            if figure.generator_cpu is not None:
                notes.append(f"generator {figure.generator_cpu:.0%} of a core")
            if figure.spread is not None:
                notes.append("rounds {} to {}".format(*map(shown, figure.spread)))
            if self.is_near_limit(figure):
                notes.append("NEAR THE GENERATOR'S LIMIT")
            yield f"    {figure.broker:<34} {shown(figure.value):>11}   {', '.join(notes)}"

    def is_near_limit(self, figure: Figure) -> bool:
        """Return whether the generator may have held the broker back.

        With one message in flight for each client a fast broker comes near the null broker, for
        both spend their time in the same system calls; there it counts whether the generator
        had idle time left, in which it waited for the broker.
        """
        if self.metric is not RATE or self.alone is None or figure.value is None:
            return False
        if self.one_in_flight:
            return (figure.generator_cpu or 0.0) > BUSY_LIMIT
        return figure.value > NEAR_LIMIT * self.alone


def is_ours(broker: str) -> bool:
    """Return whether it is a gateway of ours, in whatever variant."""
    return broker.startswith(_NAME)


def rate_figure(broker: str, runs: Sequence[Run]) -> Figure:
    """Return the median of the runs' rates; one faulty run leaves the broker without a figure."""
    fault = _fault(runs)
    if fault:
        return Figure(broker, None, fault)
    rates_hz = [run.rate_hz for run in runs]
    times_us = [run.broker_cpu_us for run in runs if run.broker_cpu_us is not None]
    return Figure(
        broker,
        median(rates_hz),
        generator_cpu=max(run.generator_cpu for run in runs),
        broker_cpu_us=median(times_us) if times_us else None,
        spread=(min(rates_hz), max(rates_hz)) if len(rates_hz) > 1 else None,
    )


def latency_figure(broker: str, runs: Sequence[Run], percent: float) -> Figure:
    """Return a percentile of all the runs' latencies together."""
    fault = _fault(runs)
    samples = [sample for run in runs for sample in run.latencies_us]
    if fault or not samples:
        return Figure(broker, None, fault or "no message was measured")
    cpu = max(run.generator_cpu for run in runs)
    return Figure(broker, percentile(samples, percent), generator_cpu=cpu)


def rate_result(load: Load, runs: dict[str, list[Run]], alone: Run) -> CaseResult:
    """Return the case of a load; `runs` are by broker, `alone` is against the null broker."""
    return CaseResult(
        load.name,
        RATE,
        [rate_figure(broker, of_broker) for broker, of_broker in runs.items()],
        alone=None if alone.fault else alone.rate_hz,
        shows_sync=load.is_logged,
        one_in_flight=load.window == 1,
    )


def latency_results(load: Load, runs: dict[str, list[Run]], alone: Run) -> list[CaseResult]:
    """Return the two cases of a light load: p50 and p99."""
    return [
        CaseResult(
            f"latency p{percent} {load.name}",
            LATENCY,
            [latency_figure(broker, of_broker, percent) for broker, of_broker in runs.items()],
            alone=None if alone.fault else percentile(alone.latencies_us, percent),
            shows_sync=load.is_logged,
        )
        for percent in (50, 99)
    ]


def _fault(runs: Sequence[Run]) -> str:
    if not runs:
        return "out of time"
    return next((run.fault for run in runs if run.fault), "")
