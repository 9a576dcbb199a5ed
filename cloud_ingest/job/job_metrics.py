"""Metrics of the ingest job for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from cloud_ingest.spool import committed
from cloud_ingest.spool.segments import SpoolError, position_of, read_mark


class JobMetrics:
    """Tells of one job; asked from another thread than the job's.

    Args:
        taken: gives how many micro-batches it has taken.
        aside: gives what it has set aside, by what it is.
        spools: that it reads.
        name: of the job, as collectors know it.

    """

    def __init__(
        self,
        taken: Callable[[], int],
        aside: Callable[[], Mapping[str, int]],
        spools: Sequence[Path],
        name: str,
    ) -> None:
        self._taken = taken
        self._aside = aside
        self._spools = spools
        self._name = name

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics now."""
        text = "Micro-batches since the start."
        yield CounterMetricFamily("hedgerow_ingest_micro_batches_total", text, self._taken())
        text = "Things that were set aside so that the rest went on, by kind."
        aside = CounterMetricFamily("hedgerow_ingest_set_aside_total", text, labels=("what",))
        for what, count in sorted(self._aside().items()):
            aside.add_metric((what,), count)
        yield aside
        end = GaugeMetricFamily(
            "hedgerow_ingest_spool_end_bytes",
            "Bytes of a spool that may be read, over all of its segments.",
            labels=("spool",),
        )
        waiting = GaugeMetricFamily(
            "hedgerow_ingest_waiting_bytes",
            "Bytes of a spool that are not in the tables yet.",
            labels=("spool",),
        )
        for spool in self._spools:
            try:
                mark = read_mark(spool)
            except (OSError, SpoolError):
                continue  # what is not known is not told
            if mark is not None:
                read = committed.position(spool, [self._name])
                end.add_metric((spool.name,), position_of(mark))
                waiting.add_metric((spool.name,), max(0, position_of(mark) - read))
        yield from (end, waiting)
