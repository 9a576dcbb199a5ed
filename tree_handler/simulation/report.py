"""The outcome of a simulated run, and its form for a person."""

from __future__ import annotations

from typing import Protocol

from light_dataclasses import dataclass
from tree_handler.simulation.checks import Violation
from tree_handler.spanning.parameters import Parameters


class ReportedOptions(Protocol):
    """The options of a run, as a report describes them: `runs.Options`."""

    @property
    def seed(self) -> int:
        """All chance of the run follows from it."""

    @property
    def gateways(self) -> int:
        """Return how many there were."""

    @property
    def leaves(self) -> int:
        """Return how many of them were leaves."""

    @property
    def parameters(self) -> Parameters:
        """Those of all trees."""

    @property
    def replay(self) -> str:
        """Return how to run this again."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a run.

    Attributes:
        options: what was run.
        violations: invariants that did not hold.
        convergence_s: from the last fault or repair to the last change of the tree.
        hellos: HELLOs sent.
        messages: BPDUs sent.
        events: events of the simulation.
        faults: faults that struck.
        published: messages that gateways accepted from clients.
        forgotten: streams of earlier lives that gateways forgot.

    """

    options: ReportedOptions
    violations: tuple[Violation, ...]
    convergence_s: float
    hellos: int
    messages: int
    events: int
    faults: int
    published: int
    forgotten: int = 0

    def __str__(self) -> str:
        head = (
            f"seed {self.options.seed}: {self.options.gateways} gateways, {self.faults} faults,"
            f" {self.events} events, {self.messages} BPDUs, {self.published} messages,"
            f" settled in {self.convergence_s:.3f} s"
        )
        found = [f"invariant {v.invariant} at {v.at_s:.6f} s: {v.what}" for v in self.violations]
        again = [f"replay: {self.options.replay}"] if found else []
        return "\n  ".join([head, *found, *again])
