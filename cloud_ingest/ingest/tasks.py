"""Orders to a task of the job, and its report when it is done."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cloud_ingest.evidence.facts import BatchFacts, Stage, merged
from cloud_ingest.ingest.plan import SpoolStretch
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger.number_ledger import LedgerChange, Numbered
from cloud_ingest.mapping.births import Births
from cloud_ingest.mapping.rules import MappingRule
from cloud_ingest.tables.delta import WrittenFile
from cloud_ingest.tables.store import TableStore
from tree_handler import batch
from tree_handler.batch import Header, Row
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals
from tree_handler.proof import Verdict
from tree_handler.seal import Seals

MAX_REASON: Final = 500
"""Characters of a reason in the quarantine."""


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """An order for one task: which stretches to decode, and by what.

    Attributes:
        stretches: what to decode.
        places: domain and group, by origin, of those that are known.
        telemetry: the table's folder.
        quarantine: the table's folder.
        now_us: when the trigger began.
        certificates: of gateways, as a collector keeps them; None: signatures are not checked.
        tree: the tree's name, if they are.
        mappings: how messages of other makes are read.
        births: what aliases of Sparkplug stand for.

    """

    stretches: list[SpoolStretch]
    places: Mapping[str, tuple[str, str]]
    telemetry: TableStore
    quarantine: TableStore
    now_us: int
    certificates: bytes | None = None
    tree: str = ""
    mappings: tuple[MappingRule, ...] = ()
    births: Births | None = None


@dataclass(slots=True)
class TaskResult:
    """The result of one task.

    Attributes:
        telemetry: files of readings.
        quarantine: files of what can't be read.
        quarantined: numbers of the messages in those.
        damaged: batches whose body is not what their origin made: spool, segment, position, why.
        facts: of the messages; without times of the commit.
        latencies: as they are added to the totals of gateways.
        to_table: fine buckets of the time up to ``now_us``: by gateway, minute and stage.
        untold: rows of telemetry of which the facts could not be told, by why.
        blamed: messages that went to quarantine since a task fails with them, by why.

    """

    telemetry: list[WrittenFile] = field(default_factory=list)
    quarantine: list[WrittenFile] = field(default_factory=list)
    quarantined: Numbered = field(default_factory=dict)
    damaged: list[tuple[str, str, int, str]] = field(default_factory=list)
    facts: BatchFacts | None = None
    latencies: dict[str, GatewayTotals] = field(default_factory=dict)
    to_table: dict[tuple[str, int, Stage], Counter[int]] = field(default_factory=dict)
    untold: Counter[str] = field(default_factory=Counter)
    blamed: Counter[str] = field(default_factory=Counter)

    def add(self, other: TaskResult) -> None:
        """Take in what another task did, of other messages."""
        self.telemetry += other.telemetry
        self.quarantine += other.quarantine
        for stream, numbers in other.quarantined.items():
            self.quarantined.setdefault(stream, Intervals()).update(numbers)
        self.damaged += other.damaged
        self.facts = merged(0, 0, [one for one in (self.facts, other.facts) if one is not None])
        for gateway, latency in other.latencies.items():
            self.latencies.setdefault(gateway, GatewayTotals()).add(latency)
        for key, counts in other.to_table.items():
            self.to_table.setdefault(key, Counter()).update(counts)
        self.untold.update(other.untold)
        self.blamed.update(other.blamed)

    def add_to(self, change: LedgerChange) -> None:
        """Add to the counts what only the payloads tell."""
        for stream, numbers in self.quarantined.items():
            change.of(stream.origin).undecodable += numbers.count()
        for gateway, latency in self.latencies.items():
            change.of(gateway).add(latency)


def batches(stretch: SpoolStretch) -> Iterator[tuple[int, bytes, Header]]:
    """Yield each batch of a stretch: where it stands, its bytes and header; the plan has checked
    them.

    Raises:
        OSError: the segment can't be read.
        BatchError: it is another one than was planned.

    """
    path = Path(stretch.spool) / stretch.segment
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data,
        memoryview(data) as view,
    ):
        at = stretch.start
        while at < stretch.end:
            header = batch.check(view, at)
            yield at, bytes(view[at : at + header.end]), header
            at += header.end


def proven_rows(frame: bytes, header: Header, seals: Seals | None) -> Sequence[Row]:
    """Return the rows of a batch.

    Args:
        frame: the batch.
        header: its header.
        seals: check it, if it came from another gateway; None: nothing is checked.

    Raises:
        BatchError: its body is not what its origin made, or nobody can prove that it is.

    """
    if seals is not None and not header.local:
        verdict = seals.check(frame, header)
        if verdict is not Verdict.PROVEN:
            raise BatchError("batch signature", verdict.value)
    return batch.rows(frame, header)


def reason(why: str) -> str:
    """Return the reason for quarantine in a form that a table can hold."""
    return why.encode(errors="backslashreplace").decode()[:MAX_REASON]
