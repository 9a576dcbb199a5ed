"""Goal: the benchmark of ingest as a fleet grows measures the fleets that it names."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.ingest import A_BATCH, COPIES, GATEWAYS, JobRun
from benchmarks.ingest_growth import SPOOL, Drained, Fleet, fill, fleets, measure, told
from cloud_ingest.spool.segments import read_mark, segments
from record_formats import record
from tree_handler import batch


def spooled(folder: Path) -> dict[str, list[str]]:
    """The sensors of each gateway's messages, copies included, as they stand in a spool."""
    found: dict[str, list[str]] = defaultdict(list)
    for segment in segments(folder, read_mark(folder)):
        data = segment.path.read_bytes()
        for at, header in batch.frames(data):
            for row in batch.rows(data[at : at + header.end], header):
                found[header.origin].append(record.decode(row[2]).name)
    return found


@pytest.mark.parametrize("fleet", [Fleet(4_000, 20), Fleet(4_000, 5, 10), Fleet(4_000, 1)])
def test_a_spool_has_the_messages_of_the_fleet_that_it_is_named_after(
    fleet: Fleet, tmp_path: Path
) -> None:
    fill(tmp_path, fleet)
    found = spooled(tmp_path / SPOOL)
    assert len(found) == fleet.gateways
    assert all(len(set(sensors)) == fleet.sensors for sensors in found.values())
    copies = -(-fleet.messages // A_BATCH // COPIES) * A_BATCH
    assert sum(map(len, found.values())) == fleet.messages + copies


@pytest.mark.parametrize("quick", [False, True])
def test_each_gateway_of_each_fleet_has_messages_and_one_thing_grows_at_a_time(
    quick: bool,
) -> None:
    most, least, *more = fleets(quick=quick)
    assert all(fleet.messages // A_BATCH >= fleet.gateways for fleet in (most, least, *more))
    assert most.messages > least.messages
    assert {fleet.messages for fleet in more} == {least.messages}
    assert most.gateways == max(fleet.gateways for fleet in more) == 1_000
    assert all(fleet.sensors == 1 or fleet.gateways == GATEWAYS for fleet in more)


def test_a_line_tells_the_rate_the_memory_and_the_ledger() -> None:
    found = Drained(JobRun(2.0, 4_000, 1_234), 216.4, 415.6)
    line = told(Fleet(4_000, 20, 3), found)
    assert line.startswith("4,000 messages, 20 gateways, 3 sensors each: 2,000 messages/s; ")
    assert line.endswith("216 MiB at most, its Java 416 MiB; ledger 1,234 bytes")


@pytest.mark.parametrize("rows", [3_999, 4_001])
def test_a_message_that_is_missing_or_doubled_is_an_error_and_no_figure(rows: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows"):
        told(Fleet(4_000), Drained(JobRun(2.0, rows, 1), 1.0, 1.0))


@pytest.mark.slow
@pytest.mark.soak("drains real spools; what it measures is tested above")
def test_a_case_is_drained_in_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(2_000, 20)
    run = measure(tmp_path, fleet)
    assert run.rows == fleet.messages
    assert 0 < run.ledger_bytes < 100 * fleet.gateways
    assert len(spooled(tmp_path / SPOOL)) == fleet.gateways
    line = capsys.readouterr().out
    assert str(fleet) in line
    peaks_mib = re.search(r"Python ([\d.]+) MiB at most, its Java ([\d.]+) MiB", line)
    assert peaks_mib is not None
    assert all(float(each) > 1 for each in peaks_mib.groups())
