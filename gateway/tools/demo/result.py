"""Result of a run of the demo: what `report.json` holds and the page shows."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from light_dataclasses import dataclass


@dataclass(slots=True)
class Result:
    """The result of the demo; times in seconds.

    Attributes:
        trees: the tree as lines of text, by moment: ``before``, ``healed``, ``after``.
        networks: the same as nodes and links, from what the gateways told.
        timeline: when what happened, in seconds since the devices began.
        curves: readings of two sensors, as the telemetry table has them.
        tally: what the messages in that table are.
        fleet: the fleet table.

    """

    acknowledged: int = 0
    ingested: int = 0
    lost: int = 0
    doubled: int = 0
    acknowledged_before_log: int = 0
    lost_examples: list[str] = field(default_factory=list)
    converged_s: float = 0.0
    heal_s: float = 0.0
    rejoin_s: float = 0.0
    remote_read_ms: float = 0.0
    total_s: float = 0.0
    remote_read: str = ""
    killed: str = ""
    subscriber: str = ""
    trees: dict[str, list[str]] = field(default_factory=dict)
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)
    timeline: dict[str, Any] = field(default_factory=dict)
    curves: list[dict[str, Any]] = field(default_factory=list)
    tally: dict[str, Any] = field(default_factory=dict)
    fleet: dict[str, Any] = field(default_factory=dict)

    @property
    def kept_its_promises(self) -> bool:
        """Nothing lost, nothing doubled, and there was something to count."""
        return self.acknowledged > 0 and not self.lost and not self.doubled

    @property
    def verdict(self) -> str:
        """The promises in a sentence."""
        before_log = (
            f", {self.acknowledged_before_log} acknowledged by the killed gateway before its log"
            if self.acknowledged_before_log
            else ""
        )
        return (
            f"{self.acknowledged:,} messages acknowledged, {self.ingested:,} in the table: "
            f"{self.lost} lost, {self.doubled} doubled{before_log}."
        )

    def as_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)
