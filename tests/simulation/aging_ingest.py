"""The world of `restored_ingest` over months: wrong clocks, trimmed spools, copies that come late.

Time is the world's own. Each collector, the job and each gateway read it by a clock that may be
wrong; what a collector notes of its times stands beside its segments, as on a disk.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
from restored_ingest import ORIGINS, IngestWorld

from cloud_ingest.spool import committed
from cloud_ingest.spool.receipts import PAIR, SUFFIX

BEGIN_US = 1_760_000_000_000_000
STEP_S = (1.0, 5.0, 90.0)
DAY_S = 86_400.0
MONTHS_S = (40 * DAY_S, 100 * DAY_S)
WRONG_S = (0.0, 0.0, 60.0, -60.0, DAY_S, -DAY_S, 40 * 365 * DAY_S)
JOB = "ingest"


class AgingIngest(IngestWorld):
    """The world of `restored_ingest`, in which months pass and clocks are wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.now_us = BEGIN_US
        self._off_s: dict[Any, float] = {}
        self._frames: list[bytes] = []

    def clock_us(self, whose: Any) -> int:
        """Return the time of somebody's clock, in microseconds."""
        return max(0, self.now_us + round(self._off_s.get(whose, 0.0) * 1e6))

    def pass_time(self) -> None:
        self.now_us += round(self.draw.choice(STEP_S) * 1e6)

    def pass_months(self) -> None:
        self.now_us += round(self.draw.choice(MONTHS_S) * 1e6)

    def turn_a_clock(self) -> None:
        """A clock goes wrong, or right again: of a collector, the job, or all gateways."""
        self._off_s[self.draw.choice((0, 1, "job", "gateways"))] = self.draw.choice(WRONG_S)

    def sent_us(self) -> int:
        return self.clock_us("gateways")

    def spool(self, number: int, frame: bytes) -> Path:
        """Spool a frame as `IngestWorld` does, and note its time beside it."""
        segment = super().spool(number, frame)
        noted = PAIR.pack(len(frame), self.clock_us(number))
        segment.with_suffix(SUFFIX).write_bytes(noted)
        self._frames.append(frame)
        return segment

    def copy(self) -> None:
        """Spool once more what came before, however late."""
        if self._frames:
            self.spool(self.draw.randrange(2), self.draw.choice(self._frames))

    def trim(self) -> None:
        """Collectors delete what the tables have; tables are not set back behind that."""
        self.run()
        for spool in self.spools:
            had = committed.position(spool, [JOB])
            newest = max(spool.glob("*.log"), default=None)
            for segment in spool.glob("*.log"):
                if segment != newest and int(segment.stem) + segment.stat().st_size <= had:
                    segment.unlink()
        self.lean_on_tables()

    def run(self, killed_at: str = "", passes: int = 0, *, ends: bool = True) -> None:
        """Run as `IngestWorld` does, by the job's clock."""
        with mock.patch.object(time, "time_ns", lambda: self.clock_us("job") * 1_000):
            super().run(killed_at, passes, ends=ends)

    def check(self) -> None:
        """Each message once, and what has come is not told to be missing."""
        for _ in range(2):  # clocks are right again, and everybody says something
            self._off_s.clear()
            self.now_us += round(DAY_S * 1e6)
            for _ in ORIGINS * 4:
                self.publish()
                self.pass_time()
            self.run()
        super().check()
        told = deltalake.DeltaTable(self.place("alerts")).to_pyarrow_table().to_pylist()
        still = [row for row in told if row["kind"] == "gap" and row["cleared"] is None]
        assert not still, still
        gaps = deltalake.DeltaTable(self.place("gaps")).to_pyarrow_table().to_pylist()
        assert not [row for row in gaps if row["state"] == "missing"], gaps
