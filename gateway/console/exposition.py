"""Prometheus' text format, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """A value; ``suffix`` is what a histogram's samples add to the name."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with all its samples.

    Attributes:
        name: with its unit, and ``_total`` for a counter.
        kind: its type.
        help: what it is, in one line.
        samples: one for each set of labels, or those of a histogram.

    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


def counter(name: str, text: str, value: float) -> Metric:
    """A counter without labels."""
    return Metric(name, "counter", text, (Sample(value),))


def gauge(name: str, text: str, value: float) -> Metric:
    """A gauge without labels."""
    return Metric(name, "gauge", text, (Sample(value),))


def by_label(
    kind: Literal["counter", "gauge"],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    """A metric with one label; without values it has no samples yet."""
    samples = [Sample(value, {label: key}) for key, value in sorted(values.items())]
    return Metric(name, kind, text, samples)


def histogram(
    name: str, text: str, bounds: Sequence[float], counts: Sequence[int], total: float
) -> Metric:
    """A histogram.

    Args:
        name: with its unit.
        text: what it is.
        bounds: upper bounds of the buckets, rising; a last one without bound follows.
        counts: observations in each bucket alone, one more than bounds.
        total: sum of all observations.

    """
    samples = []
    below = 0
    for bound, count in zip((*map(_number, bounds), "+Inf"), counts, strict=True):
        below += count
        samples.append(Sample(below, {"le": bound}, "_bucket"))
    samples += [Sample(total, suffix="_sum"), Sample(below, suffix="_count")]
    return Metric(name, "histogram", text, samples)


def render(metrics: Iterable[Metric]) -> bytes:
    """The exposition of all metrics, each name once."""
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for sample in metric.samples:
            labels = ",".join(
                f'{key}="{_escaped(value, quote=True)}"' for key, value in sample.labels.items()
            )
            labels = f"{{{labels}}}" if labels else ""
            lines.append(f"{metric.name}{sample.suffix}{labels} {_number(sample.value)}")
    return ("\n".join(lines) + "\n").encode()


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(value) if isinstance(value, int) else repr(float(value))
