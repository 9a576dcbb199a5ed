"""Prometheus' text format, version 0.0.4, of numbers that others have counted.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Literal

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from light_dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_FAMILIES: Mapping[str, type[CounterMetricFamily] | type[GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}


def counter(name: str, text: str, value: float) -> Metric:
    """Return a counter without labels; its name ends in ``_total``."""
    return CounterMetricFamily(name, text, value)


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, text, value)


def by_label(
    kind: Literal["counter", "gauge"],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    """Return a metric with one label; without values it has no samples yet."""
    family = _FAMILIES[kind](name, text, labels=(label,))
    for key, value in sorted(values.items()):
        family.add_metric((key,), value)
    return family


def histogram(
    name: str, text: str, bounds: Sequence[float], counts: Sequence[int], total: float
) -> Metric:
    """Return a histogram.

    Args:
        name: with its unit.
        text: what it is.
        bounds: upper bounds of the buckets, rising; a last one without bound follows.
        counts: observations in each bucket alone, one more than bounds.
        total: sum of all observations.

    """
    names = (*map(floatToGoString, bounds), "+Inf")
    buckets = list(zip(names, accumulate(counts), strict=True))
    return HistogramMetricFamily(name, text, buckets, total)


@dataclass(frozen=True, slots=True)
class _Collected:
    """A collection for `generate_latest`; it is no registry: nothing stays between scrapes."""

    metrics: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def render(metrics: Iterable[Metric]) -> bytes:
    """Return the exposition of all metrics, each name once."""
    return generate_latest(_Collected(metrics))
