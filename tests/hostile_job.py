"""The whole of a job's steps, without Spark, over everything that anybody can publish."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

from hostile_feed import RULES, HostileFeed, missing_and_doubled
from job_steps import Steps

from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.mapping import rules as mapping_rules
from cloud_ingest.spool.segments import ranges, read_mark, segments
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.store import TableStore


def run(folder: Path, seed: int, *, triggers: int = 6, batches: int = 30) -> int:
    """Feed a job, begun anew now and then, also from the first byte; return how many messages.

    Each is in telemetry or in quarantine, once, also after files were joined; and nothing had to be
    set aside, since that would hide what the job fails with.
    """
    chance = random.Random(seed)
    feed = HostileFeed(folder / "spool", random.Random(seed))
    tables = folder / "tables"
    limits = chance.choice((LedgerLimits(), LedgerLimits(), LedgerLimits(6, 3, 40)))
    settings = IngestSettings(
        TableStore(str(tables)), mappings=mapping_rules.read(RULES), limits=limits
    )
    ingest = Ingest(settings)
    query = at = number = 0
    for _ in range(triggers):
        feed.segment(batches)
        if chance.random() < 0.3:
            _end(ingest)
            ingest = Ingest(settings)
        if chance.random() < 0.1:  # its checkpoint is lost
            query, at, number = query + 1, 0, 0
        whole = segments(feed.folder, read_mark(feed.folder))
        end = whole[-1].start + whole[-1].length
        frame = Steps(f"q{query}", ranges(feed.folder, whole, at, end))
        ingest.take(cast(Any, frame), number)
        at, number = end, number + 1
    _end(ingest)
    _check(tables, feed)
    upkeep.compact(settings.tables)
    _check(tables, feed)
    return len(feed.published)


def _end(ingest: Ingest) -> None:
    ingest.close()
    assert not ingest.set_aside.counts, ingest.set_aside.counts


def _check(tables: Path, feed: HostileFeed) -> None:
    missing, doubled = missing_and_doubled(tables, feed.published)
    assert not missing, f"in no table: {sorted(missing)[:3]} of {len(missing)}"
    assert not doubled, f"more than once: {sorted(doubled)[:3]} of {len(doubled)}"
