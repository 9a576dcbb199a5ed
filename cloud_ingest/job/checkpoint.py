"""Check that Spark's checkpoint of the spools fits the tables that they went into.

A checkpoint says which micro-batches are begun and done, and a table up to which one of a query it
has them (`cloud_ingest.tables.delta.IngestTable.last_batch`). One that has more done than the
tables have is of other tables, or of later ones than a backup brought back: what it has read would
be in no table. One that has less begun was itself brought back, and would number what is new as
what the tables have. It is set aside then, and the spools are read from their beginning; what the
tables have is dropped by the ledger.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from cloud_ingest.spool import committed
from cloud_ingest.spool.place import SpoolPlace
from cloud_ingest.spool.segments import read_mark

SET_ASIDE: Final = ".set-aside"


def query_of(spark_id: str) -> str:
    """Return the name of a query's transactions in the tables."""
    return f"hedgerow/{spark_id}"


def fits(folder: Path, last_batch: Callable[[str], int]) -> bool:
    """Return whether tables have what a checkpoint has done, and no more than it has begun.

    Args:
        folder: of the checkpoint; it need not be there.
        last_batch: of a query, the last micro-batch that the tables have, or -1.

    """
    try:
        spark_id = json.loads((folder / "metadata").read_text())["id"]
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return True  # nothing is done yet, or Spark says itself what it can't read
    done, begun = (_last(folder / name) for name in ("commits", "offsets"))
    return done <= last_batch(query_of(spark_id)) <= begun


def places(folder: Path) -> dict[str, SpoolPlace]:
    """Return how far each spool was read, by its folder; empty where that is not known.

    Args:
        folder: of the checkpoint; it need not be there.

    """
    newest = folder / "offsets" / str(_last(folder / "offsets"))
    try:
        *_, offset = newest.read_text().splitlines()  # Spark's version and settings stand before
        return {
            str(spool): SpoolPlace.of_plain(place) for spool, place in json.loads(offset).items()
        }
    except (OSError, ValueError, AttributeError):
        return {}


def emptied(folder: Path, spools: Iterable[Path]) -> Iterator[str]:
    """Tell of each spool that was read and holds nothing now; each is one line.

    Args:
        folder: of the checkpoint; it need not be there.
        spools: folders that collectors fill.

    Raises:
        SpoolError: a spool's mark is not what a collector writes.

    """
    known = places(folder)
    for spool in spools:
        place = known.get(str(spool.resolve()))
        if place is not None and place.position and read_mark(spool) is None:
            yield (
                f"spool {spool}: holds nothing, though {place.position} bytes of it were read "
                "before: mount its disk; if the disk is new, start its collector"
            )


def _last(folder: Path) -> int:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def set_aside(folder: Path, spools: Iterable[Path], job: str) -> Path:
    """Have the spools read from their beginning; return where the checkpoint is now.

    What the job has noted as committed is withdrawn first: collectors keep what no table has.

    Args:
        folder: of the checkpoint; it need not be there.
        spools: folders that collectors fill.
        job: its name.

    Raises:
        OSError: it can't be moved.

    """
    for spool in spools:
        committed.withdraw(spool, job)
    aside = folder.with_name(f"{folder.name}{SET_ASIDE}")
    if folder.exists():
        if aside.exists():
            shutil.rmtree(aside)
        folder.rename(aside)
    return aside
