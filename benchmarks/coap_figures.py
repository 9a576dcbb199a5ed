"""The figures of each CoAP server in one case, and how they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks import coap_targets
from benchmarks.coap_load import Run
from benchmarks.coap_servers import OURS, OURS_INTERPRETED
from benchmarks.comparison import Better, Comparison, shown

BUSY_LIMIT = 0.9
"""Share of a core from which on the generator may be the slower one."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: a figure for each server, or why there is none.

    Attributes:
        case: in words.
        unit: of the figures.
        better: the direction that is better.
        figures: by server.
        faults: the reason why a server has no figure, by server.
        notes: remarks on a server, by server.

    """

    case: str
    unit: str
    better: Better
    figures: Mapping[str, float]
    faults: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def comparisons(self) -> Iterator[Comparison]:
        """Ours beside each peer that has a figure."""
        for own, extra in ((OURS, ""), (OURS_INTERPRETED, ", interpreted")):
            for peer, figure in self.figures.items():
                if own in self.figures and peer not in (OURS, OURS_INTERPRETED):
                    values = (self.figures[own], figure)
                    if min(values) > 0:
                        yield Comparison(self.case + extra, *values, peer, self.unit, self.better)

    def lines(self) -> Iterator[str]:
        """Yield the case as text: a heading, then a line for each server."""
        yield f"{self.case} ({self.unit}, {self.better} is better)"
        own = self.figures.get(OURS)
        for name, figure in self.figures.items():
            ratio = f"ours is {own / figure:.3g} x" if own and figure and name != OURS else ""
            notes = ", ".join(
                note for note in (ratio, self._verdict(name), self.notes.get(name, "")) if note
            )
            yield f"    {name:<26} {shown(figure):>11}   {notes}"
        for name, fault in self.faults.items():
            yield f"    {name:<26} left out: {fault}"

    def _verdict(self, name: str) -> str:
        own = self.figures.get(OURS, 0.0)
        peer = "" if name == OURS else name
        figure = self.figures[name]
        return ", ".join(
            target.verdict(own, figure)
            for target in coap_targets.of_case(self.case, peer)
            if own and figure
        )


def rate_result(
    case: str,
    unit: str,
    runs: Mapping[str, Sequence[Run]],
    remarks: Mapping[str, str] | None = None,
) -> CaseResult:
    """Return the median of each server's rates; one faulty run leaves it without a figure.

    What ``remarks`` say of a server stands beside its figure.
    """
    figures, faults, notes = {}, {}, {}
    for name, of_server in runs.items():
        fault = next((run.fault for run in of_server if run.fault), "")
        if fault or not of_server:
            faults[name] = fault or "out of time"
            continue
        figures[name] = median(run.rate_hz for run in of_server)
        busy = max(run.generator_cpu for run in of_server)
        resent = sum(run.resent for run in of_server)
        notes[name] = (
            f"p50 {shown(median(run.p50_us for run in of_server))} us, "
            f"p99 {shown(median(run.p99_us for run in of_server))} us, "
            f"generator {busy:.0%} of a core"
            + (f", {resent} repeated" if resent else "")
            + (", NEAR THE GENERATOR'S LIMIT" if busy > BUSY_LIMIT else "")
            + (f", {remarks[name]}" if remarks and name in remarks else "")
        )
    return CaseResult(case, unit, "higher", figures, faults, notes)
