"""Goal: the benchmark of the job measures what it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.ingest import (
    A_BATCH,
    COPIES,
    decode_at_once,
    decode_plainly,
    fill,
    frames,
    without_copies,
)
from cloud_ingest.spool.segments import read_mark, segments

MESSAGES = 40 * A_BATCH


def test_a_spool_holds_each_message_and_some_twice_and_its_peers_read_all_of_it(
    tmp_path: Path,
) -> None:
    made = list(frames(MESSAGES))
    stamps = Counter((header.origin, header.first) for _, header in made)
    assert len(stamps) * A_BATCH == MESSAGES
    assert sum(stamps.values()) - len(stamps) == len(stamps) // COPIES
    assert fill(tmp_path / "spool", made) > 0
    (segment,) = segments(tmp_path / "spool", read_mark(tmp_path / "spool"))
    plain = tmp_path / "plain"
    plain.mkdir()
    rows = decode_plainly((segment.path, plain / "0.parquet"))
    assert rows == pq.read_metadata(plain / "0.parquet").num_rows == len(made) * A_BATCH
    assert decode_at_once((segment.path, plain.with_suffix(".parquet"))) == rows
    told = [pq.read_table(path) for path in (plain / "0.parquet", plain.with_suffix(".parquet"))]
    assert told[0].equals(told[1])
    if without_copies(plain, tmp_path / "once.parquet") is not None:
        assert pq.read_metadata(tmp_path / "once.parquet").num_rows == MESSAGES
