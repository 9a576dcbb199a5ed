"""A collector has heard the tree up to a time that it states itself, and only while it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cloud_ingest.ingest.scan import scan
from cloud_ingest.ledger.number_ledger import NumberLedger
from cloud_ingest.spool import committed, receipts
from cloud_ingest.spool.progress import STATUS_NAME, progress_us
from cloud_ingest.spool.segments import SpoolRange
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags

QUERY = "ingest"
FORWARDING = {"neighbours": [{"forwarding": False}, {"forwarding": True}]}


def says(spool: Path, status: Any, at_s: int) -> None:
    path = spool / STATUS_NAME
    path.write_text(status if isinstance(status, str) else json.dumps(status))
    os.utime(path, (at_s, at_s))


def received(spool: Path) -> None:
    """A batch is on the collector's disk."""
    log = MessageLog(spool, mark=receipts.note)
    log.open()
    frame = batch.encode("gw", 1, 1, [Entry("t", b"x")], flags=Flags.LOGGED, origin_time_us=0)
    log.append(frame, batch.check(frame))
    log.sync()
    log.close()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


def test_a_collector_with_a_link_that_forwards_has_heard_until_it_last_said_so(spool: Path) -> None:
    says(spool, FORWARDING, 100)
    assert progress_us([spool], QUERY) == 100_000_000


@pytest.mark.parametrize(
    "status",
    [
        {"neighbours": []},
        {"neighbours": [{"forwarding": False}]},
        {"neighbours": [{}]},
        {"neighbours": 1},
        {},
        [],
        "",
        '{"neighbours": [',
    ],
)
def test_a_collector_that_hears_nobody_or_says_nothing_clear_has_heard_nothing(
    spool: Path, status: Any
) -> None:
    assert progress_us([spool], QUERY) is None
    says(spool, status, 100)
    assert progress_us([spool], QUERY) is None


def test_nothing_counts_as_heard_while_the_tables_lack_what_came(spool: Path) -> None:
    received(spool)
    says(spool, FORWARDING, 100)
    assert progress_us([spool], QUERY) is None
    (segment,) = spool.glob("*.log")
    committed.note([SpoolRange(str(spool), segment.name, 0, segment.stat().st_size)], QUERY)
    assert progress_us([spool], QUERY) == 100_000_000
    assert progress_us([spool], "another") is None


def test_of_several_collectors_the_one_that_heard_last_counts(spool: Path, tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("later", "deaf")]
    for other in others:
        other.mkdir()
    says(spool, FORWARDING, 100)
    says(others[0], FORWARDING, 200)
    says(others[1], {"neighbours": []}, 300)
    assert progress_us([spool, *others], QUERY) == 200_000_000


def test_a_collector_whose_spool_is_read_has_heard_nothing_while_another_one_s_is_not(
    spool: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    says(other, FORWARDING, 200)
    received(spool)
    (segment,) = spool.glob("*.log")
    length = segment.stat().st_size
    committed.note([SpoolRange(str(spool), segment.name, 0, length - 1)], QUERY)
    says(spool, FORWARDING, 100)
    assert progress_us([spool, other], QUERY) is None
    committed.note([SpoolRange(str(spool), segment.name, 0, length)], QUERY)
    assert progress_us([spool, other], QUERY) == 200_000_000


def test_a_spool_is_read_until_the_time_of_its_last_byte_that_is_or_whole(spool: Path) -> None:
    received(spool)
    (segment,) = spool.glob("*.log")
    length = segment.stat().st_size
    frame = segment.read_bytes()
    segment.write_bytes(frame * 2)
    (spool / "synced").write_text(f"{segment.name} {2 * length}\n")
    pairs = receipts.PAIR.pack(length, 5_000_000) + receipts.PAIR.pack(2 * length, 9_000_000)
    segment.with_suffix(receipts.SUFFIX).write_bytes(pairs)
    first, whole = (SpoolRange(str(spool), segment.name, 0, end) for end in (length, 2 * length))
    assert scan([first], NumberLedger(), {}).facts({"gw": 0}).read_until_us == 5_000_000
    assert scan([whole], NumberLedger(), {}).facts({"gw": 0}).read_until_us is None


def test_a_mark_that_is_none_leaves_what_another_collector_heard(
    spool: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    says(other, FORWARDING, 200)
    says(spool, FORWARDING, 300)
    (spool / "synced").write_text("no mark")
    assert progress_us([spool, other], QUERY) == 200_000_000
