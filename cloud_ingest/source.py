"""The spool as a Spark data source: ``spark.read.format("hedgerow_spool").load(folder)``.

A partition a segment, a row a message, in the schema `cloud_ingest.tables.MESSAGES`. The option
``until`` (a `cloud_ingest.spool.Mark` as text) pins how far to read, so that every query of a
job sees the same messages while the collector writes on; without it the spool's own mark holds
at the time when Spark plans the read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from cloud_ingest.columns import arrow_batches
from cloud_ingest.proof import HandedCertificates, proven
from cloud_ingest.spool import SpoolMark, SpoolSegment, batches, read_mark, segments
from cloud_ingest.tables import MESSAGES
from tree_handler.seal import Seals

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "hedgerow_spool"


def messages(
    spark: SparkSession,
    spool: Path,
    until: SpoolMark | None,
    certificates: Path | None = None,
    tree: str = "",
) -> DataFrame:
    """The messages of a spool, as `cloud_ingest.tables.MESSAGES`.

    Args:
        spark: a session; the data source is registered with it.
        spool: the spool's folder.
        until: how far to read; None: there is nothing to read.
        certificates: of gateways, by which each batch is checked (`cloud_ingest.proof`).
        tree: the tree's name, if they are.

    """
    if until is None:
        return spark.createDataFrame([], MESSAGES)
    spark.dataSource.register(SpoolSource)
    reader = spark.read.format(FORMAT).option("until", str(until))
    if certificates is not None:
        reader = reader.option("certificates", str(certificates.resolve())).option("tree", tree)
    return reader.load(str(spool.resolve()))


class SpoolSource(DataSource):
    """What Spark asks for by the format's name."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """`cloud_ingest.tables.MESSAGES`, always."""
        return MESSAGES

    def reader(self, schema: StructType) -> SpoolReader:
        """A reader of the folder in option ``path``.

        Raises:
            SpoolError: option ``until`` is no mark.

        """
        spool = Path(self.options["path"])
        until = self.options.get("until")
        mark = SpoolMark.parse(until) if until else read_mark(spool)
        return SpoolReader(spool, mark, self.options.get("certificates"), self.options.get("tree"))


@dataclass
class SegmentPartition(InputPartition):
    """The readable part of one segment: what one task reads."""

    segment: SpoolSegment


class SpoolReader(DataSourceReader):
    """Plans a task for each segment, and reads one in each task."""

    def __init__(
        self, spool: Path, until: SpoolMark | None, certificates: str | None, tree: str | None
    ) -> None:
        self._spool = spool
        self._until = until
        self._certificates = certificates
        self._tree = tree or ""

    def partitions(self) -> list[InputPartition]:
        """The segments up to the mark.

        Raises:
            SpoolError: a segment is missing or too short.

        """
        return [SegmentPartition(segment) for segment in segments(self._spool, self._until)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one segment.

        Raises:
            SpoolError: torn or corrupt data, with segment and position.

        """
        # Spark plans one empty partition of its own where `partitions` returns none.
        if isinstance(partition, SegmentPartition):
            schema = to_arrow_schema(MESSAGES, timezone="UTC")
            found = batches(partition.segment)
            if self._certificates is not None:
                ring = HandedCertificates(Path(self._certificates))
                found = proven(found, Seals(None, ring, self._tree))
            yield from arrow_batches(found, schema)
