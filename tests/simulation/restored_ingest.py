"""The ingest job in one process: spools, tables, checkpoint, all of which a backup may bring back.

It drives the job's own classes as Spark does: the offsets of `SpoolStream` are noted before a
micro-batch begins, and that it is done behind it.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, cast

import deltalake
from pyspark.sql.streaming.datasource import ReadMaxBytes

from cloud_ingest.job import checkpoint
from cloud_ingest.job.micro_batches import MOMENTS, Ingest, IngestSettings
from cloud_ingest.job.source import SpoolStream
from cloud_ingest.spool.segments import SpoolRange
from cloud_ingest.tables.store import TableStore
from tree_handler import batch
from tree_handler.batch import Entry, Flags

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "cloud_ingest"))

from ingest_in_steps import Steps

ORIGINS = ("gw-a", "gw-b", "gw-c")
PARTS = ("telemetry", "quarantine", "_ledger", "checkpoint")
TRIGGER_BYTES = 2_000


class KilledError(BaseException):
    """The job was killed."""


class IngestWorld:
    """Two spools, which overlap, and a job that is started, killed, and given back what was."""

    trigger_bytes = TRIGGER_BYTES

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.tables = folder / "tables"
        self.spools = [folder / f"spool-{number}" for number in range(2)]
        self.backup = folder / "backup"
        self.published: set[tuple[str, int, bool]] = set()
        self._next = dict.fromkeys(ORIGINS, 1)
        for spool in self.spools:
            spool.mkdir(parents=True)
        self._starts = [0, 0]
        self._oldest = {"telemetry": 0, "quarantine": 0}

    def publish(self) -> None:
        """A batch of an origin comes to one spool or both; each batch is a segment."""
        origin = self.draw.choice(ORIGINS)
        first = self._next[origin]
        readable = [self.draw.random() < 0.8 for _ in range(self.draw.randint(1, 6))]
        self._next[origin] += len(readable)
        self.published |= {(origin, first + n, one) for n, one in enumerate(readable)}
        entries = [Entry("a/t", b"7" if one else b"no reading", 1) for one in readable]
        frame = batch.encode(
            origin, 1, first, entries, flags=Flags.LOGGED, origin_time_us=self.sent_us()
        )
        for number in self.draw.choice(((0,), (1,), (0, 1))):
            self.spool(number, frame)

    def sent_us(self) -> int:
        """Return the time at which a gateway sends, by its clock, in microseconds."""
        return 1_760_000_000_000_000

    def spool(self, number: int, frame: bytes) -> Path:
        """Have a collector take a batch; its segment."""
        segment = self.spools[number] / f"{self._starts[number]:020d}.log"
        segment.write_bytes(frame)
        (self.spools[number] / "synced").write_text(f"{segment.name} {len(frame)}\n")
        self._starts[number] += len(frame)
        return segment

    def place(self, part: str) -> Path:
        return self.tables / part

    def run(self, killed_at: str = "", passes: int = 0, *, ends: bool = True) -> None:
        """Start the job, and have it read all, or be killed at a moment, after some passes.

        If it does not end by itself, it is killed when it has read all.
        """
        ingest, left = self.start_job(), passes

        def watch(moment: str) -> None:
            nonlocal left
            if moment == killed_at:
                left -= 1
                if left < 0:
                    raise KilledError

        ingest.watch = watch
        try:
            self.read_all(ingest)
        except KilledError:
            return
        if ends:
            ingest.close()

    def start_job(self) -> Ingest:
        """Start the job on what there is of tables and checkpoint."""
        ingest = Ingest(self.settings())
        place = self.place("checkpoint")
        if ingest.is_restored or not checkpoint.fits(place, ingest.telemetry.last_batch):
            checkpoint.set_aside(place, self.spools, "ingest")
            ingest.reads_spools_again()
        return ingest

    def settings(self) -> IngestSettings:
        """Return the settings that the job goes by."""
        return IngestSettings(TableStore(str(self.tables)))

    def read_all(self, ingest: Ingest) -> None:
        """Have the job take micro-batches until nothing is left."""
        place = self.place("checkpoint")
        for name in ("offsets", "commits"):
            (place / name).mkdir(parents=True, exist_ok=True)
        if not (place / "metadata").exists():
            (place / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        query = json.loads((place / "metadata").read_text())["id"]
        stream = SpoolStream([str(spool) for spool in self.spools], self.trigger_bytes)
        start, number = stream.initialOffset(), 0
        if done := [int(each.name) for each in (place / "commits").iterdir()]:
            start = json.loads((place / "offsets" / str(max(done))).read_text())
            number = max(done) + 1
        while True:
            planned = place / "offsets" / str(number)
            if planned.exists():
                end = json.loads(planned.read_text())
            else:
                end = stream.latestOffset(start, ReadMaxBytes(self.trigger_bytes))
                if end == start:
                    return
                planned.write_text(json.dumps(end))
            done = place / "commits" / str(number)
            if not done.exists():
                parts = stream.partitions(start, end)
                rows = [SpoolRange(*row) for part in parts for row in stream.read(part)]
                ingest.take(cast(Any, Steps(query, rows)), number)
                done.touch()
            start, number = end, number + 1

    def kill(self) -> None:
        self.run(self.draw.choice(MOMENTS), self.draw.randint(0, 2))

    def back_up(self) -> None:
        shutil.rmtree(self.backup, ignore_errors=True)
        for part in PARTS:
            if self.place(part).exists():
                shutil.copytree(self.place(part), self.backup / part)

    def restore(self, part: str) -> None:
        """One part alone comes from the backup."""
        if (self.backup / part).exists():
            self.lose(part)
            shutil.copytree(self.backup / part, self.place(part))

    def lose(self, part: str) -> None:
        shutil.rmtree(self.place(part), ignore_errors=True)

    def restore_in_delta(self, part: str) -> None:
        if self.place(part).exists():
            table = deltalake.DeltaTable(self.place(part))
            if table.version() > self._oldest[part]:
                table.restore(self.draw.randrange(self._oldest[part], table.version()))

    def replace_disk(self) -> None:
        """A spool's disk goes when the tables have all; they are not set back before that."""
        self.run()
        number = self.draw.randrange(2)
        shutil.rmtree(self.spools[number])
        self.spools[number].mkdir()
        self._starts[number] = 0
        self.lean_on_tables()

    def lean_on_tables(self) -> None:
        """Rule out older backups: what the tables have now may be in no spool any more."""
        self.back_up()
        for part in self._oldest:
            self._oldest[part] = deltalake.DeltaTable(self.place(part)).version()

    def check(self) -> None:
        """Each message once, in the table that it belongs to."""
        self.run()
        found: Counter[tuple[str, int, bool]] = Counter()
        for part in ("telemetry", "quarantine"):
            table = deltalake.DeltaTable(self.place(part)).to_pyarrow_dataset()
            for row in table.to_table(["origin", "sequence"]).to_pylist():
                found[row["origin"], row["sequence"], part == "telemetry"] += 1
        missing, extra = self.published - set(found), set(found) - self.published
        doubled = [one for one, times in found.items() if times > 1]
        assert not (missing or extra or doubled), (missing, extra, doubled)
