"""A disk of the tables that is full at any step holds an alert back, and never loses it.

Each write of the job is refused, one or several in a row, around the batch that holds a reading out
of range. The job goes on by itself, or is killed after each failure and each of these batches, and
starts again with its checkpoint or without.
"""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import deltalake
import pytest
from job_steps import Steps

from cloud_ingest.fleet import rules
from cloud_ingest.fleet import writer as writing
from cloud_ingest.fleet.state_file import StateFile
from cloud_ingest.fleet.writer import WRITE_INTERVAL_S
from cloud_ingest.ingest import set_aside
from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.spool.segments import SpoolRange, ranges, read_mark, segments
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.store import TableStore
from record_formats.record import Record

EACH = 4
ODD_BATCH = 1
BATCHES = 4
ODD = "odd"
RULES = rules.read(f"""
[gap]
on = false
[[override]]
sensor = "{ODD}"
sensor-range = {{high = 100}}
[ingest]
behind = {{on = false}}
failing = {{on = false}}
quarantine-growing = {{on = false}}
collector-silent = {{on = false}}
""")
READINGS = BATCHES * EACH
"""Their numbers come first, then those of what is no reading."""


class Disk:
    """Refuses writes while it is full, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.full: range = range(0)
        for owner, name in (
            (StateFile, "replace"),
            (TableStore, "write"),
            (TableFiles, "finish"),
            (IngestTable, "_check_there"),  # before a commit
            (
                IngestTable,
                "sync_log",
            ),  # behind it: it stands, and whoever made it is told of a failure
            (writing, "write_deltalake"),
        ):
            monkeypatch.setattr(owner, name, self._guarded(getattr(owner, name)))

    def _guarded(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*given: Any, **named: Any) -> Any:
            self.writes += 1
            if self.writes - 1 in self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return act(*given, **named)

        return guarded


class Clock:
    """Of the job; it stands still but for what a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now_ns = 1_760_000_000_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda: self._now_ns)

    def pass_s(self, seconds: float) -> None:
        self._now_ns += round(seconds * 1e9)


class Job:
    """A job over one spool, begun again as Spark does when a batch fails."""

    def __init__(self, spool: Any, tables: Path, clock: Clock) -> None:
        self._spool = spool
        self._clock = clock
        self.tables = tables
        self.query = "q"
        self.ends: list[int] = []
        self._done = 0
        self.ingest = self.start()

    def start(self) -> Ingest:
        self.ingest = Ingest(IngestSettings(TableStore(str(self.tables)), rules=RULES))
        return self.ingest

    def lose_checkpoint(self) -> None:
        """Read all again, and count batches anew."""
        self.query, self._done, self.ends = f"{self.query}'", 0, []

    def publish(self, number: int) -> None:
        first = 1 + EACH * number
        self._spool.readings("gw-a", 1, first, EACH - 1)
        value = 1_000.0 if number == ODD_BATCH else 1.0
        sensor = ODD if number == ODD_BATCH else "even"
        record = Record(sensor, "", value, 1_760_000_000.0, number).encode()
        self._spool.payloads("gw-a", 1, first + EACH - 1, [record])
        self._spool.payloads("gw-a", 1, READINGS + 1 + number, [b"no reading"])
        self._spool.roll()
        self._spool.sync()

    def run(self) -> None:
        """Take what there is; what fails comes again with the same end."""
        self._clock.pass_s(WRITE_INTERVAL_S)  # the fleet's tables are written each time
        whole = segments(self._spool.folder, read_mark(self._spool.folder))
        if self._done == len(self.ends):
            self.ends.append(whole[-1].start + whole[-1].length)
        while self._done < len(self.ends):
            begin = self.ends[self._done - 1] if self._done else 0
            part: list[SpoolRange] = ranges(self._spool.folder, whole, begin, self.ends[self._done])
            self.ingest.take(cast(Any, Steps(self.query, part)), self._done)
            self._done += 1

    def rows(self, name: str) -> list[dict[str, Any]]:
        table = deltalake.DeltaTable(self.tables / name).to_pyarrow_table()
        return cast(list[dict[str, Any]], table.to_pylist())

    def check(self) -> None:
        """Each message is there once, and the alert is open, once."""
        self.ingest.close()
        for name, first, count in (
            ("telemetry", 1, READINGS),
            ("quarantine", READINGS + 1, BATCHES),
        ):
            found = Counter(row["sequence"] for row in self.rows(name))
            assert found == Counter(range(first, first + count)), name
        alerts = [(row["kind"], row["cleared"]) for row in self.rows("alerts")]
        assert alerts == [("sensor-range", None)]
        assert {row["messages"] for row in self.rows("gateways")} == {READINGS + BATCHES}
        assert set_aside.FACTS not in self.ingest.set_aside.counts


def play(job: Job, disk: Disk, first: int, count: int, then: Callable[[Job], None]) -> int:
    """Take batches with a disk that refuses some writes; return how many there are."""
    disk.full = range(disk.writes + first, disk.writes + first + count)
    begun = disk.writes
    for number in range(BATCHES):
        job.publish(number)
        for _ in range(count + 1):
            try:
                job.run()
                break
            except OSError:
                then(job)
        if number <= ODD_BATCH:
            then(job)
    return disk.writes - begun


def goes_on(job: Job) -> None:
    """The disk has room again by itself."""


def is_killed(job: Job) -> None:
    job.start()


def is_killed_and_loses_its_checkpoint(job: Job) -> None:
    job.lose_checkpoint()
    job.start()


STEPS = 24


@pytest.mark.drawn(6)
@pytest.mark.parametrize("then", [goes_on, is_killed, is_killed_and_loses_its_checkpoint])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("first", range(STEPS))
def test_an_alert_is_raised_once_whichever_writes_a_full_disk_refuses(
    spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, count: int, then: Any
) -> None:
    disk, clock = Disk(monkeypatch), Clock(monkeypatch)
    job = Job(spool, tmp_path / "tables", clock)
    assert play(job, disk, first, count, then) > STEPS
    job.check()
