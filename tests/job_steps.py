"""A frame as Spark hands it to `Ingest.take`, without Spark: its tasks run here, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cloud_ingest.spool.segments import SpoolRange


class Steps:
    """Stands in for a frame, its session and its context; runs tasks here."""

    defaultParallelism = 2  # noqa: N815  # Spark's own name

    def __init__(
        self, query: str, rows: Sequence[SpoolRange], items: Sequence[Any] | None = None
    ) -> None:
        self._query = query
        self._rows = [(one.spool, one.segment, one.start, one.end) for one in rows]
        self._items: list[Any] = self._rows if items is None else list(items)

    @property
    def sparkSession(self) -> Steps:  # noqa: N802
        return self

    @property
    def sparkContext(self) -> Steps:  # noqa: N802
        return self

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        assert name == "sql.streaming.queryId"
        return self._query

    def parallelize(self, items: Sequence[Any], parts: int) -> Steps:
        assert parts == len(items)
        return Steps(self._query, (), items)

    def map(self, act: Callable[[Any], Any]) -> Steps:
        self._items = [act(item) for item in self._items]
        return self

    def collect(self) -> list[Any]:
        return self._items
