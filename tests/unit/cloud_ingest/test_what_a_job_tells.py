"""Lines and figures of the job where a spool has nothing, or nothing that can be read."""

from __future__ import annotations

import json
from pathlib import Path

from cloud_ingest.evidence.signs import CollectorSign
from cloud_ingest.job import checkpoint
from cloud_ingest.job.collector_signs import MAX_UNTOLD, UntoldBeginnings, collector_signs
from cloud_ingest.job.job_metrics import JobMetrics
from cloud_ingest.job.report import spool_text
from cloud_ingest.spool import committed
from cloud_ingest.spool.progress import STATUS_NAME
from cloud_ingest.spool.segments import SpoolRange, SpoolSegment


def test_the_spool_is_told_with_what_was_trimmed_before_it(tmp_path: Path) -> None:
    assert spool_text([]) == "nothing to read yet"
    first, second = (SpoolSegment(tmp_path / f"{at:020d}.log", 10) for at in (0, 10))
    assert spool_text([first, second]) == "20 bytes in 2 segment(s)"
    assert spool_text([second]) == (
        "10 bytes in 1 segment(s); 10 bytes before them were trimmed: what no table has of them "
        "counts as gaps"
    )


def test_a_checkpoint_is_set_aside_in_the_place_of_the_one_before(tmp_path: Path) -> None:
    committed.note([SpoolRange(str(tmp_path), f"{0:020d}.log", 0, 9)], "ingest")
    folder = tmp_path / "checkpoint"
    for number in ("1", "2"):
        folder.mkdir()
        (folder / number).touch()
        aside = checkpoint.set_aside(folder, [tmp_path], "ingest")
        assert not folder.exists()
        assert [path.name for path in aside.iterdir()] == [number]
        assert aside.parent == tmp_path
    assert checkpoint.set_aside(folder, [tmp_path], "ingest") == aside
    assert committed.position(tmp_path, ["ingest"]) == 0


def test_of_a_spool_that_can_not_be_read_what_is_known_is_told(tmp_path: Path) -> None:
    """The words of its collector, though its mark is none."""
    refusals = {"batch refused by the log": 3, "wrong": -1, "text": "4", "large": 2**63}
    (tmp_path / STATUS_NAME).write_text(json.dumps({"refusals": refusals}))
    changed_us = (tmp_path / STATUS_NAME).stat().st_mtime_ns // 1_000
    (tmp_path / "synced").write_text("no mark")
    (sign,) = collector_signs([tmp_path], "ingest")
    known = {"batch refused by the log": 3}
    assert sign == CollectorSign(str(tmp_path), changed_us, known, 0, 0)


def test_figures_of_a_spool_that_can_not_be_read_are_left_out(tmp_path: Path) -> None:
    spools = [tmp_path / name for name in ("good", "bad", "new")]
    for spool in spools:
        spool.mkdir()
    (spools[0] / f"{0:020d}.log").write_bytes(bytes(100))
    (spools[0] / "synced").write_text(f"{0:020d}.log 100\n")
    committed.note([SpoolRange(str(spools[0]), f"{0:020d}.log", 0, 30)], "ingest")
    (spools[1] / "synced").write_text("no mark")
    metrics = JobMetrics(lambda: 7, lambda: {"facts": 2}, spools, "ingest")
    found = [
        (sample.name, sample.labels, sample.value)
        for metric in metrics.collect()
        for sample in metric.samples
    ]
    assert found == [
        ("hedgerow_ingest_micro_batches_total", {}, 7),
        ("hedgerow_ingest_set_aside_total", {"what": "facts"}, 2),
        ("hedgerow_ingest_spool_end_bytes", {"spool": "good"}, 100),
        ("hedgerow_ingest_waiting_bytes", {"spool": "good"}, 70),
    ]


def test_of_beginnings_the_latest_are_told_and_each_once() -> None:
    untold = UntoldBeginnings()
    for number in range(MAX_UNTOLD + 1):
        untold.begun_again(str(number))
    signs = untold.signs(())
    assert signs.begun_again == tuple(str(number) for number in range(1, MAX_UNTOLD + 1))
    assert signs.has_started
    untold.begun_again("later")
    untold.told(untold.signs(()))
    assert untold.signs(()).begun_again == ()
    assert not untold.signs(()).has_started
