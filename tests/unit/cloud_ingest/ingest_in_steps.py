"""The job's micro-batches without Spark, in a process that can be killed between two of its steps.

    python ingest_in_steps.py SPOOL TABLES STATE [MOMENT BATCH [MAPPINGS [GAPS]]]

Of a tree `t`, batches are checked where the environment names a file in `CERTIFICATES`.

It does with `Ingest` what Spark does: notes the end of a batch before it begins, calls it, and
notes that it is done; begun again, it repeats one that is not noted as done. A segment is a batch.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

from job_steps import Steps

from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.mapping import rules as mapping_rules
from cloud_ingest.spool.segments import ranges, read_mark, segments
from cloud_ingest.tables.store import TableStore


def killing(moment: str) -> Callable[[str], None]:
    def watch(now: str) -> None:
        if now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


def main(
    spool: Path,
    tables: str,
    state: Path,
    moment: str = "",
    batch: str = "-1",
    mappings: str = "",
    gaps: str = "16384",
) -> None:
    state.mkdir(exist_ok=True)
    query = state / "query"
    if not query.exists():
        query.write_text(str(uuid.uuid4()))
    rules = mapping_rules.read(Path(mappings).read_text()) if mappings else ()
    limits = LedgerLimits(int(gaps), 1)
    file = os.environ.get("CERTIFICATES")
    certificates = Path(file).read_bytes() if file else None
    store = TableStore(tables)
    ingest = Ingest(
        IngestSettings(store, "ingest", certificates, "t", mappings=rules, limits=limits)
    )
    whole = segments(spool, read_mark(spool))
    for number, segment in enumerate(whole):
        end = state / f"end-{number}"
        if not end.exists():
            end.write_text(str(segment.start + segment.length))
        done = state / f"done-{number}"
        if done.exists():
            continue
        if number == int(batch):
            ingest.watch = killing(moment)
        rows = ranges(spool, whole, segment.start, int(end.read_text()))
        ingest.take(cast(Any, Steps(query.read_text(), rows)), number)
        done.touch()
    ingest.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
