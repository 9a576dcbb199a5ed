"""An hour of a thousand gateways through the job itself: spool, Spark, tables and dashboard.

What `tests/simulation/test_watched_fleet.py` hands to the watch as facts stands in a spool here, as
batches with the collector's times beside them, and the command that an operator runs reads them as
they come. Time passes as fast as the job takes it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import deltalake
import psutil
import pytest
from dashboard_server import complete, dashboard, visitor
from ingest_bed import Job, until
from troubled_fleet import HOUR_S, RULES, raised, troubled
from watched_fleet import Heard, at

from cloud_ingest.spool import receipts
from gateway.log.message_log import MessageLog
from record_formats.record import Record
from tree_handler import batch
from tree_handler.batch import Entry, Flags

GATEWAYS = 1_000
NO_TIME_US = 2**60
"""Beyond the calendar."""
PART_S = 600.0
_MIB = 2**20

pytestmark = [pytest.mark.timeout(0), pytest.mark.slow]


class Spool:
    """A collector's spool, and the time at which it had each frame on disk; a `Job` reads it.

    Args:
        folder: of the spool.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spools = [folder]
        self._log = MessageLog(folder, mark=self._note)
        self._log.open()
        self._ends: list[tuple[int, int]] = []

    def take(self, heard: list[Heard]) -> None:
        """Take what came, in the order of its times."""
        for one in sorted(heard, key=lambda one: one.come_us):
            frame = _frame(one)
            self._log.append(frame, batch.check(frame))
            self._ends.append((self._log.position, one.come_us))
        self._log.sync()

    def close(self) -> None:
        self._log.close()

    def _note(self, _segment: Path, _end: int) -> None:
        starts = sorted(int(path.stem) for path in self.folder.glob("*.log"))
        for end, come_us in self._ends:
            start = max(start for start in starts if start < end)
            times = self.folder / f"{start:020d}{receipts.SUFFIX}"
            with times.open("ab") as file:
                file.write(receipts.PAIR.pack(end - start, come_us))
        self._ends.clear()


def _frame(heard: Heard) -> bytes:
    """Encode what a gateway's clients sent, unless it is lost, and its status behind it."""
    sent = heard.sent
    first, last = heard.numbers
    place = f"campus/north/{sent.gateway}"
    reading = Record("water/level", "m", sent.value, at(sent.second) / 1e6, last).encode()
    entries = [Entry(f"{place}/water/level", reading, 1)]
    entries += [Entry(f"{place}/door/{n}", b"21.5", 1) for n in range(last - first - 1)]
    entries = [*entries[: last - first], Entry(f"{place}/$status", sent.payload, 1)]
    origin_us = NO_TIME_US if sent.origin_us is None else sent.origin_us
    return batch.encode(
        sent.gateway,
        sent.epoch,
        first,
        entries,
        flags=Flags.LOGGED,
        origin_time_us=origin_us,
    )


async def _slowest_ms(tables: Path) -> dict[str, float]:
    """Measure how long the dashboard takes for each of its answers, the slowest of five."""
    slowest: dict[str, float] = {}
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        _, moments = await someone.get("moments")
        _, sensors = await someone.get("sensors")
        window = {"start_ms": sensors["first_ms"][0], "end_ms": sensors["last_ms"][0] + 1}
        asked = [(name, {}) for name in ("fleet", "alerts", "gaps", "sensors", "moments", "tables")]
        asked += [
            ("gateway", {"name": "gw-0500"}),
            ("tree", {"time_ms": moments["last_ms"]}),
            ("sensor", {"gateway": "gw-0500", "sensor": "water/level", "points": 500, **window}),
            ("latency", {"hours": 168}),
            ("slowest", {"hours": 168}),
        ]
        for name, query in asked * 5:
            begin = time.perf_counter()
            status, _ = await someone.get(name, **query)
            took_ms = 1_000 * (time.perf_counter() - begin)
            assert status == 200, name
            slowest[name] = max(took_ms, slowest.get(name, 0.0))
    return slowest


async def test_an_hour_of_a_thousand_gateways_raises_each_alert_once_and_no_false_one(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if not request.config.getoption("--soak"):
        pytest.skip("takes minutes: --soak")
    fleet, wanted = troubled(GATEWAYS)
    spool = Spool(tmp_path / "spool")
    rules = tmp_path / "alerts.toml"
    rules.write_text(RULES)
    job = Job(spool, tmp_path / "tables", tmp_path / "checkpoint")
    process = job.start("--follow", "--trigger-s", "0.1", "--alerts", str(rules), "--compact")
    held: list[tuple[float, int, int]] = []
    messages = 0
    try:
        for heard in fleet.heard(HOUR_S):
            before = job.commits()
            spool.take(heard)
            messages += sum(one.numbers[1] - one.numbers[0] + 1 for one in heard)
            until(lambda: job.commits() > before, process)  # noqa: B023  # at once
            if fleet.second % PART_S == 0:
                driver = psutil.Process(process.pid)
                java = [one for one in driver.children(recursive=True) if one.name() == "java"]
                of_java = sum(one.memory_info().rss for one in java)
                held.append((fleet.second, driver.memory_info().rss, of_java))
        process.terminate()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    finally:
        process.kill()
        spool.close()
    tables = tmp_path / "tables"
    assert raised(deltalake.DeltaTable(tables / "alerts").to_pyarrow_table()) == wanted
    rows = deltalake.DeltaTable(tables / "gateways").to_pyarrow_table().to_pylist()
    gateways = {row["gateway"]: row for row in rows}
    assert len(gateways) == GATEWAYS
    assert gateways["gw-0001"]["health"] == "silent"
    assert gateways["gw-0020"]["health"] == "good"
    missing = sum(last - first + 1 for first, last in fleet[15].lost)
    assert gateways["gw-0015"]["gaps"] == missing > 0
    assert job.table("telemetry").to_pyarrow_dataset().count_rows() == messages
    # What grows with the messages would be thrice as much after thrice the time.
    assert held[-1][1] < 1.25 * held[1][1] + 50 * _MIB, held
    with capsys.disabled():
        sys.stdout.write(f"\n{messages} messages of {GATEWAYS} gateways; MiB of driver, Java:")
        for second, driver_bytes, java_bytes in held:
            told = f"{driver_bytes // _MIB}, {java_bytes // _MIB}"
            sys.stdout.write(f"\n  after {second / 60:.0f} minutes: {told}")
        slowest = await _slowest_ms(tables)
        told = ", ".join(f"{name} {ms:.0f} ms" for name, ms in slowest.items())
        sys.stdout.write(f"\ndashboard, slowest of five: {told}\n")
