"""Metrics of the ingest job for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from alerts.state import WayFigures
from cloud_ingest.spool import committed
from cloud_ingest.spool.segments import SpoolError, position_of, read_mark


class JobMetrics:
    """Tells of one job; asked from another thread than the job's.

    Args:
        taken: gives how many micro-batches it has taken.
        aside: gives what it has set aside, by what it is.
        spools: that it reads.
        name: of the job, as collectors know it.
        ways: gives how the ways stand on which its alerts leave, by name.

    """

    def __init__(
        self,
        taken: Callable[[], int],
        aside: Callable[[], Mapping[str, int]],
        spools: Sequence[Path],
        name: str,
        ways: Callable[[], Mapping[str, WayFigures]] = dict,
    ) -> None:
        self._taken = taken
        self._aside = aside
        self._labels = _labels(spools)
        self._name = name
        self._ways = ways

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
        for spool, label in self._labels.items():
            try:
                mark = read_mark(spool)
            except (OSError, SpoolError):
                continue  # what is not known is not told
            if mark is not None:
                read = committed.position(spool, [self._name])
                end.add_metric((label,), position_of(mark))
                waiting.add_metric((label,), max(0, position_of(mark) - read))
        yield from (end, waiting)
        yield from _of_ways(self._ways())


def _labels(spools: Sequence[Path]) -> dict[Path, str]:
    """Return what each spool is called: its folder's name, or its path where two have that name."""
    paths = [spool.resolve() for spool in spools]
    names = Counter(path.name for path in paths)
    return {path: str(path) if names[path.name] > 1 else path.name for path in paths}


def _of_ways(ways: Mapping[str, WayFigures]) -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "hedgerow_ingest_alert_way_waiting_records",
        "Records of alerts that a way out has not taken yet.",
        labels=("way",),
    )
    failing = GaugeMetricFamily(
        "hedgerow_ingest_alert_way_failing",
        "1 while a way out does not take what it is given.",
        labels=("way",),
    )
    delivered = CounterMetricFamily(
        "hedgerow_ingest_alert_way_delivered_records_total",
        "Records that it has taken.",
        labels=("way",),
    )
    dropped = CounterMetricFamily(
        "hedgerow_ingest_alert_way_dropped_records_total",
        "Records that it never took.",
        labels=("way",),
    )
    for name, way in sorted(ways.items()):
        waiting.add_metric((name,), way.waiting)
        failing.add_metric((name,), float(way.is_failing))
        delivered.add_metric((name,), way.delivered)
        dropped.add_metric((name,), way.dropped)
    yield from (waiting, failing, delivered, dropped)
