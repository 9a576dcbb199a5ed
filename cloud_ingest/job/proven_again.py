"""Batches in quarantine whose signature is proven by now are ingested, as if they came today.

A spool is made of them for as long as it takes. The ledger knows which of their numbers the tables
have, so each message is in the tables once however often they are read; they leave the quarantine
when they are committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from cloud_ingest.ingest.halving import BLAMED
from cloud_ingest.job.micro_batches import Ingest
from cloud_ingest.job.scratch import scratch
from cloud_ingest.spool import receipts
from cloud_ingest.spool.segments import SpoolRange
from cloud_ingest.tables.rewriting import delete_keys
from cloud_ingest.tables.schemas import QUARANTINE, micros_of
from tree_handler import batch
from tree_handler.errors import BatchError
from tree_handler.proof import Verdict
from tree_handler.seal import Seals

MOST_BYTES: Final = 64 << 20
"""Of batches that are read in one step; then the next is begun."""
SOME_ROWS: Final = 16
"""Rows of quarantine that are in memory at once; each has up to 1 MiB."""

_GONE: Final = pa.schema(
    [QUARANTINE.field(name) for name in ("spool", "segment", "position", "found_time", "reason")]
)


@dataclass(slots=True)
class _Proven:
    """Batches, one behind the other, and the keys of their rows."""

    frames: bytearray = field(default_factory=bytearray)
    receipts: bytearray = field(default_factory=bytearray)
    gone: list[dict[str, Any]] = field(default_factory=list)


def read_again(ingest: Ingest, seals: Seals) -> int:
    """Ingest them; return how many.

    Args:
        ingest: into the tables; no other job writes them.
        seals: by which they are checked, as ``ingest`` does.

    Raises:
        TableError: a table can't be read or written.
        OSError: a spool can't be made.

    """
    count = 0
    while True:
        found = _found(ingest, seals)
        if not found.gone:
            return count
        with scratch("again") as folder:
            segment = folder / f"{0:020d}.log"
            segment.write_bytes(found.frames)
            segment.with_suffix(receipts.SUFFIX).write_bytes(found.receipts)
            ingest.take_restored([SpoolRange(str(folder), segment.name, 0, len(found.frames))])
        ingest.watch("taken")
        delete_keys(ingest.quarantine.store, pa.Table.from_pylist(found.gone, _GONE))
        ingest.quarantine.refresh()
        ingest.watch("removed")
        count += len(found.gone)


def _found(ingest: Ingest, seals: Seals) -> _Proven:
    found = _Proven()
    for row in _damaged(ingest):
        frame = row["bytes"]
        if _is_proven(frame, seals):
            found.frames += frame
            collected_us = micros_of(row["collected_time"])
            found.receipts += receipts.PAIR.pack(len(found.frames), collected_us)
            found.gone.append({name: row[name] for name in _GONE.names})
            if len(found.frames) >= MOST_BYTES:
                break
    return found


def _damaged(ingest: Ingest) -> Iterator[dict[str, Any]]:
    """Return rows that are no message."""
    columns = ("origin", "collected_time", "bytes", *_GONE.names)
    rows = ingest.quarantine.rows(columns, at_once=SOME_ROWS)
    # With which the driver failed, it would fail again.
    return (r for r in rows if r["origin"] is None and not r["reason"].startswith(BLAMED))


def _is_proven(frame: bytes, seals: Seals) -> bool:
    """Return whether bytes are a whole batch of whom it says."""
    try:
        header = batch.check(frame)
        if header.end != len(frame) or header.local:
            return False
        if seals.check(frame, header) is not Verdict.PROVEN:
            return False
        if not header.passed:
            batch.rows(frame, header)
    except BatchError:
        return False
    return True
