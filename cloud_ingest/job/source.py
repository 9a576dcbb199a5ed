"""The spool as a stream that Spark reads: its rows say which bytes to read, and are no messages.

An offset is a place (`cloud_ingest.spool.place`) by spool: a spool that does not fit its place is
another one than was read, and is read from its beginning. A trigger ends where a segment ends, or
at the mark of what is synced: so it holds whole batches, and is the same whenever it is planned
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from cloud_ingest.spool import identity
from cloud_ingest.spool.place import SpoolPlace
from cloud_ingest.spool.segments import (
    SpoolRange,
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
_BEGINNING = SpoolPlace(0)


class SpoolSource(DataSource):
    """A data source that Spark finds by the format's name.

    Options: ``spools`` (a JSON list of folders) and ``max_bytes`` (of a trigger; at least one
    segment of each spool is read).
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of `cloud_ingest.spool.segments.SpoolRange`."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> SpoolStream:  # noqa: N802  # Spark's own name
        """Return a reader of the folders in option ``spools``."""
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

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning of each spool."""
        return {spool: _BEGINNING.plain() for spool in self._spools}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the option sets."""
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end at what is synced now."""
        self._target = {spool: position_of(read_mark(Path(spool))) for spool in self._spools}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far this trigger reads: of each spool an equal share, and what others leave.

        Raises:
            SpoolError: a spool is damaged.

        """
        unread = {spool: self._unread(spool, start.get(spool)) for spool in self._spools}
        shares = {spool: one.length for spool, one in unread.items()}
        if not isinstance(limit, ReadAllAvailable):
            shares = fair_shares(shares, self._max_bytes)
        return {spool: one.place_after(shares[spool]).plain() for spool, one in unread.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offsets; none if they are alike.

        Raises:
            SpoolError: a segment is missing or too short.

        """
        rows = [
            (one.spool, one.segment, one.start, one.end)
            for spool in self._spools
            for one in self._ranges(spool, start.get(spool), end.get(spool))
        ]
        return [SpoolPartition(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str, int, int]]:
        """Yield the ranges of a partition."""
        # Spark plans one empty partition of its own where `partitions` returns none.
        if isinstance(partition, SpoolPartition):
            yield from partition.rows

    def _ranges(self, spool: str, start: Any, end: Any) -> list[SpoolRange]:
        readable = _readable(spool)
        begin = _begin(_place(start), readable, identity.read(Path(spool))).position
        until = _place(end).position
        return ranges(Path(spool), readable, begin, until) if begin < until else []

    def _unread(self, spool: str, start: Any) -> _Unread:
        readable, name = _readable(spool), identity.read(Path(spool))
        begin = _begin(_place(start), readable, name)
        until = readable[-1].start + readable[-1].length if readable else 0
        if self._target is not None:
            until = min(until, self._target.get(spool, 0))
        return _Unread(begin, max(begin.position, until), readable, name)


@dataclass(frozen=True, slots=True)
class _Unread:
    """The unread part of one spool."""

    begin: SpoolPlace
    until: int
    readable: Sequence[SpoolSegment]
    name: str

    @property
    def length(self) -> int:
        return self.until - self.begin.position

    def place_after(self, share: int) -> SpoolPlace:
        """Return the place where some bytes end; at least one segment is read."""
        if not self.length:
            return self.begin
        end = self.until
        if share < self.length:
            end = _cut(self.readable, self.begin.position, self.until, share)
        return SpoolPlace.at(self.readable, end, self.name)


def fair_shares(wanted: Mapping[str, int], total: int) -> dict[str, int]:
    """Share a total out evenly; what one does not want is shared among the others.

    Args:
        wanted: what each could take.
        total: what all may take together.

    """
    shares = {}
    for behind, name in enumerate(sorted(wanted, key=wanted.__getitem__)):
        shares[name] = min(wanted[name], total // (len(wanted) - behind))
        total -= shares[name]
    return shares


def _place(plain: Any) -> SpoolPlace:
    return _BEGINNING if plain is None else SpoolPlace.of_plain(plain)


def _begin(place: SpoolPlace, readable: Sequence[SpoolSegment], name: str) -> SpoolPlace:
    """Return where to read on: at the beginning, if another spool than this was read before."""
    return place if place.fits(readable, name) else _BEGINNING


def _cut(readable: Sequence[SpoolSegment], start: int, there: int, left: int) -> int:
    """Return the last end of a segment within ``left`` bytes from ``start``, or else the next
    one."""
    ends = [s.start + s.length for s in readable if start < s.start + s.length <= there]
    within = [end for end in ends if end - start <= left]
    return max(within) if within else min(ends, default=there)


def _readable(spool: str) -> list[SpoolSegment]:
    folder = Path(spool)
    return segments(folder, read_mark(folder))
