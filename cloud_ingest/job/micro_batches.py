"""One micro-batch after the other: plan, decode, commit. Each number of a stream comes once.

The order of steps makes it exactly once, wherever the job dies: what was decoded and not committed
is decoded again, what was committed is in the ledger, which the same commit carries.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from cloud_ingest.evidence.facts import BatchFacts, Delays, merged
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.way_out_thread import WayOutThread
from cloud_ingest.ingest import after_commit, set_aside
from cloud_ingest.ingest.delay_buckets import shifted
from cloud_ingest.ingest.had_numbers import had_numbers
from cloud_ingest.ingest.kept_births import KeptBirths
from cloud_ingest.ingest.kept_ledger import KeptLedger
from cloud_ingest.ingest.plan import shared_out
from cloud_ingest.ingest.range_halves import take_in_parts
from cloud_ingest.ingest.scan import BadBatches, DamageFound, ScanResult, scan
from cloud_ingest.ingest.tasks import TaskOrder, TaskResult
from cloud_ingest.job.checkpoint import query_of
from cloud_ingest.job.collector_signs import UntoldBeginnings, collector_signs
from cloud_ingest.job.task_runners import (
    LocalTasks,
    SparkTasks,
    TaskRunner,
    carried_out,
)
from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.mapping.rules import MappingRule, SparkplugRule
from cloud_ingest.spool import committed
from cloud_ingest.spool.progress import progress_us
from cloud_ingest.spool.proof import HandedCertificates
from cloud_ingest.spool.segments import SpoolRange
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from tree_handler.intervals import Intervals
from tree_handler.seal import Seals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGAIN = "hedgerow/again"
"""The query whose batches are what `Ingest.take_restored` takes."""
BYTES_A_TASK = 1 << 18
"""Less is not worth a task of its own."""
MOMENTS = (
    "planned",
    "decoded",
    "quarantined",
    "before commit",
    "committed",
    "told",
    "noted",
)
"""Between them a job may die; each is told to `Ingest.watch`."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The settings of a job.

    Attributes:
        tables: the folder of all tables.
        name: of the job, for collectors.
        certificates: of gateways, by which batches are checked; None: they are not.
        tree: the tree's name, if they are.
        rules: when alerts are raised; None: as they are by themselves.
        mappings: how messages of other makes are read.
        limits: how large the ledger may grow.
        way_out: is told of alerts; None: nobody is.

    """

    tables: TableStore
    name: str = "ingest"
    certificates: bytes | None = None
    tree: str = ""
    rules: AlertRules | None = None
    mappings: tuple[MappingRule, ...] = ()
    limits: LedgerLimits | None = None
    way_out: WayOutThread | None = None


class Ingest:
    """The function that Spark calls with each micro-batch, and its state.

    Raises:
        TableError: a table can't be opened.
        CertificatesError: the certificates are none.

    """

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings
        tables = settings.tables
        self.telemetry = IngestTable(tables.at("telemetry"), TELEMETRY, PARTITIONS)
        self.quarantine = IngestTable(tables.at("quarantine"), QUARANTINE)
        self._kept = KeptLedger(tables, self.telemetry, self.quarantine, settings.limits)
        self._seals: Seals | None = None
        if settings.certificates is not None:
            self._seals = Seals(None, HandedCertificates(settings.certificates), settings.tree)
        self._births: KeptBirths | None = None
        self._query = ""
        self._bad: dict[tuple[str, str, int], str] = {}
        self._told_before: list[BatchFacts] = []
        """Of parts that are committed, of the micro-batch `_parts_of`."""
        self._parts_of = ("", -1)
        self.beginnings = UntoldBeginnings()
        """Of the query: noted by who begins it again."""
        self.set_aside = set_aside.AsideCounts()
        """The counts of what this run has set aside."""
        self._teller = after_commit.teller(
            tables,
            settings.rules,
            self.telemetry.last_batch,
            lambda: had_numbers(self.ledger),
            self.set_aside,
            settings.way_out,
        )
        self.taken = 0
        """Micro-batches, in this run."""
        self.busy = threading.Lock()
        """Held while a micro-batch is at work."""
        self.watch: Callable[[str], None] = lambda moment: None
        self.after: Callable[[], None] = lambda: None
        """Called when a micro-batch is done."""

    @property
    def ledger(self) -> NumberLedger:
        """Return the ledger of what the tables have."""
        return self._kept.ledger

    @property
    def is_restored(self) -> bool:
        """Return whether the tables lack what they once had."""
        return self._kept.is_restored

    def reads_spools_again(self) -> None:
        """The spools are read from their beginning now: what the tables lack comes again."""
        self._kept.reads_spools_again()

    def take(self, frame: DataFrame, batch_id: int) -> None:
        """Take one micro-batch, as ``foreachBatch`` hands it over.

        Raises:
            TableError: a table can't be written; nothing is lost, the batch comes again.

        """
        with self.busy:
            context = frame.sparkSession.sparkContext
            self._begin(query_of(str(context.getLocalProperty("sql.streaming.queryId"))))
            ranges = [SpoolRange(*row) for row in frame.collect()]
            self._kept.catch_up()
            if self.telemetry.last_batch(self._query) >= batch_id:
                self._teller.committed_before(batch_id)
            else:
                self._ingest(SparkTasks(context), ranges, batch_id)
            committed.note(ranges, self._settings.name)
            self.taken += 1
            self._look_after(self._kept.keep)
            self.watch("noted")
            self._look_after(self.after)

    def take_restored(self, ranges: Sequence[SpoolRange]) -> None:
        """Take batches of a spool that goes away again, here; what the tables have is dropped.

        Raises:
            TableError: a table can't be written; nothing is lost.

        """
        with self.busy:
            self._begin(AGAIN)
            self._kept.catch_up()
            self._ingest(
                LocalTasks(), ranges, self.telemetry.last_batch(AGAIN) + 1, is_restored=True
            )

    def nothing_came(self, spools: Sequence[Path]) -> None:
        """Have the fleet's tables go on without a micro-batch: a gateway's silence is none.

        Args:
            spools: folders that collectors fill.

        """
        if self._query and self.busy.acquire(blocking=False):
            try:
                name, now_us = self._settings.name, time.time_ns() // 1_000
                signs = self.beginnings.signs(collector_signs(spools, name))
                if self._teller.nothing_came(progress_us(spools, name), now_us, signs):
                    self.beginnings.told(signs)
            finally:
                self.busy.release()

    def close(self) -> None:
        """Keep what saves the next start from reading all commits, and end the fleet's tables.

        Raises:
            OSError: something can't be written.

        """
        self._kept.keep(now=True)
        self._teller.ingest_ends()

    def _look_after(self, act: Callable[[], None]) -> None:
        """Do what rows do not depend on, and what is done again another time."""
        try:
            act()
        except Exception as error:
            self.set_aside.note(set_aside.UPKEEP, f"{type(error).__name__}: {error}")

    def _begin(self, query: str) -> None:
        self._query = query
        self._teller.begin(query)

    def _ingest(
        self,
        tasks: TaskRunner,
        ranges: Sequence[SpoolRange],
        batch_id: int,
        *,
        is_restored: bool = False,
    ) -> None:
        """Take what ranges hold; what the driver fails with is found by halving and set aside.

        A part is committed as if the job had been killed behind it: the ledger knows its numbers,
        and the last part alone says that the micro-batch is done.
        """
        if self._parts_of != (self._query, batch_id):  # else storage failed behind a part of it
            self._told_before, self._parts_of = [], (self._query, batch_id)
        self._bad.clear()
        is_begun = False

        def take(part: list[SpoolRange], is_last: bool) -> None:
            nonlocal is_begun
            if is_begun:  # what failed may have committed before
                self._kept.catch_up()
            is_begun = True
            done_id = batch_id if is_last else None
            self._ingest_part(tasks, part, done_id, batch_id, is_restored=is_restored)

        note = functools.partial(self.set_aside.note, set_aside.BATCHES)
        take_in_parts(ranges, take, self._bad, note)

    def _ingest_part(
        self,
        tasks: TaskRunner,
        ranges: Sequence[SpoolRange],
        done_id: int | None,
        batch_id: int,
        *,
        is_restored: bool,
    ) -> None:
        """Take some ranges.

        Args:
            tasks: carry out what it orders.
            ranges: of the spools.
            done_id: the micro-batch that is done with them; None: more of it comes.
            batch_id: whose they are.
            is_restored: whether the spool goes away again.

        """
        now_us = time.time_ns() // 1_000
        bad: BadBatches = self._bad
        while True:
            scanned = scan(ranges, self.ledger, bad, self._seals)
            self.watch("planned")
            results = self._decode(tasks, scanned, now_us)
            damaged = {damage[:3]: damage[3] for one in results for damage in one.damaged}
            if not damaged:
                break
            bad = {**bad, **damaged}  # a copy elsewhere must not have been dropped for it
        self.watch("decoded")
        change = scanned.plan.change
        if is_restored:
            change.done.clear()
        held_before = {name: totals.undecodable for name, totals in change.totals.items()}
        self._put_aside(scanned.damage, results, done_id, now_us)
        self.watch("quarantined")
        for result in results:
            result.add_to(change)
        parts = [one.facts for one in results if one.facts is not None]
        parts.append(scanned.facts(held_before))
        parts += self._told_before
        facts = self._facts(batch_id, now_us, parts, results)
        if done_id is not None and facts is not None:
            self._teller.before_commit(facts)
        self.watch("before commit")
        files = [file for one in results for file in one.telemetry]
        self.telemetry.commit(files, change, self._query, done_id, self.quarantine.mark())
        self.watch("committed")
        self._kept.followed(self.telemetry, change)
        self._note_set_aside(results)
        facts = self._facts(batch_id, now_us, parts, results)
        if done_id is None:
            self._told_before = [] if facts is None else [facts]
        elif facts is not None:
            self._teller.committed(facts)
        self.watch("told")

    def _note_set_aside(self, results: Sequence[TaskResult]) -> None:
        for what, counted in (
            (set_aside.MESSAGES, [one.blamed for one in results]),
            (set_aside.FACTS, [one.untold for one in results]),
        ):
            for counts in counted:
                for why, count in counts.items():
                    self.set_aside.note(what, why, count)

    def _decode(self, tasks: TaskRunner, scanned: ScanResult, now_us: int) -> list[TaskResult]:
        stretches = scanned.plan.stretches
        if not stretches:
            return []
        total = sum(stretch.length for stretch in stretches)
        count = min(tasks.at_once, math.ceil(total / BYTES_A_TASK))
        settings = self._settings
        known = self.ledger.all.places | scanned.plan.change.places
        places = {name: (told.domain, told.group) for name, told in known.items()}
        orders = [
            TaskOrder(
                share,
                places,
                self.telemetry.store,
                self.quarantine.store,
                now_us,
                settings.certificates,
                settings.tree,
                settings.mappings,
            )
            for share in shared_out(stretches, count)
        ]
        if any(isinstance(rule, SparkplugRule) for rule in settings.mappings):
            # A birth names the aliases behind it, in whichever task they are.
            self._births = self._births or KeptBirths(settings.tables)
            self._births.take(one for found in tasks.births(orders) for one in found)
            orders = [replace(order, births=self._births.births) for order in orders]
        return carried_out(tasks, orders)

    def _put_aside(
        self,
        damage: Sequence[DamageFound],
        results: Sequence[TaskResult],
        batch_id: int | None,
        now_us: int,
    ) -> None:
        """Commit what can't be read, before what can."""
        files = [file for one in results for file in one.quarantine]
        if damage:
            rows = [one.row(now_us) for one in damage]
            written = TableFiles(self.quarantine.store, QUARANTINE)
            written.write(pa.Table.from_pylist(rows, QUARANTINE))
            files += written.finish()
        if not files:
            return
        change = LedgerChange()
        for result in results:
            for stream, numbers in result.quarantined.items():
                change.held.setdefault(stream, Intervals()).update(numbers)
        for found in damage:
            place = found.place
            change.damage.setdefault(place.spool, {})[place.position] = found.crc
        self.quarantine.commit(files, change, self._query, batch_id)
        self._kept.followed(self.quarantine, change)

    def _facts(
        self,
        batch_id: int,
        now_us: int,
        parts: Sequence[BatchFacts],
        results: Sequence[TaskResult],
    ) -> BatchFacts | None:
        """Return what the fleet's tables are told.

        None if that can't be made out, which is counted.
        """
        committed_us = time.time_ns() // 1_000
        try:
            delays = tuple(
                Delays(*key, shifted(counts, committed_us - now_us))
                for one in results
                for key, counts in one.to_table.items()
            )
            own = BatchFacts(delays=delays)
            return merged(batch_id, committed_us, [*parts, own])
        except Exception as error:  # rows do not wait for what is told about them
            self.set_aside.note(set_aside.FACTS, f"{type(error).__name__}: {error}")
            return None
