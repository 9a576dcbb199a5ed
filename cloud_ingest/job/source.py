"""The spool as a stream that Spark reads: its rows say which bytes to read, and are no messages.

An offset is a position over all segments, by spool. A trigger ends where a segment ends, or at the
mark of what is synced: so it holds whole batches, and is the same whenever it is planned again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from cloud_ingest.spool.segments import (
    SpoolError,
    SpoolMark,
    SpoolSegment,
    position_of,
    ranges,
    read_mark,
    segments,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "hedgerow_spool"
SCHEMA = "spool string, segment string, start long, end long"


class SpoolSource(DataSource):
    """What Spark asks for by the format's name.

    Options: ``spools`` (a JSON list of folders) and ``max_bytes`` (of a trigger; at least one
    segment of each spool is read).
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """The columns of `cloud_ingest.spool.segments.SpoolRange`."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> SpoolStream:  # noqa: N802  # Spark's own name
        """A reader of the folders in option ``spools``."""
        return SpoolStream(json.loads(self.options["spools"]), int(self.options["max_bytes"]))


class SpoolPartition(InputPartition):
    """All ranges of one trigger: reading them is no work."""

    def __init__(self, rows: list[tuple[str, str, int, int]]) -> None:
        super().__init__(0)
        self.rows = rows


class SpoolStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far there is to read.

    Args:
        spools: their folders.
        max_bytes: of a trigger.

    """

    def __init__(self, spools: list[str], max_bytes: int) -> None:
        self._spools = spools
        self._max_bytes = max_bytes
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The beginning of each spool."""
        return dict.fromkeys(self._spools, 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As much as the option says."""
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end at what is synced now."""
        self._target = {spool: position_of(read_mark(Path(spool))) for spool in self._spools}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """How far this trigger reads.

        Raises:
            SpoolError: a spool is damaged, or is another one than was read before.

        """
        everything = isinstance(limit, ReadAllAvailable)
        left = None if everything else self._max_bytes
        end = {}
        for spool in self._spools:
            begin = int(start.get(spool, 0))
            end[spool], left = self._end(spool, begin, left)
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges between two offsets; none if they are alike.

        Raises:
            SpoolError: a segment is missing or too short.

        """
        rows = [
            (one.spool, one.segment, one.start, one.end)
            for spool in self._spools
            for one in self._ranges(spool, int(start.get(spool, 0)), int(end.get(spool, 0)))
        ]
        return [SpoolPartition(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str, int, int]]:
        """The ranges of a partition."""
        # Spark plans one empty partition of its own where `partitions` returns none.
        if isinstance(partition, SpoolPartition):
            yield from partition.rows

    def _ranges(self, spool: str, start: int, end: int) -> list[Any]:
        if start >= end:
            return []
        folder = Path(spool)
        return ranges(folder, _readable(folder), start, end)

    def _end(self, spool: str, start: int, left: int | None) -> tuple[int, int | None]:
        """Where to end in one spool, and how many bytes are then left to others."""
        folder = Path(spool)
        mark = read_mark(folder)
        there = position_of(mark)
        if there < start:
            what = f"says {there} bytes, but {start} were read: another spool in its place?"
            raise SpoolError(f"{spool}/synced", 0, what)
        if self._target is not None:
            there = max(start, min(there, self._target.get(spool, 0)))
        if left is None or there - start <= left:
            return there, None if left is None else left - (there - start)
        return _cut(segments(folder, mark), start, there, left), 0


def _cut(readable: Sequence[SpoolSegment], start: int, there: int, left: int) -> int:
    """The last end of a segment within ``left`` bytes from ``start``, or else the next one."""
    ends = [s.start + s.length for s in readable if start < s.start + s.length <= there]
    within = [end for end in ends if end - start <= left]
    return max(within) if within else min(ends, default=there)


def _readable(folder: Path) -> list[SpoolSegment]:
    mark: SpoolMark | None = read_mark(folder)
    return segments(folder, mark)
