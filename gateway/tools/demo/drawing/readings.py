"""The readings of one sensor over time, with the gaps that it had."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from xml.etree.ElementTree import Element

from gateway.tools.demo.drawing.chart import Plot, Point, Scene, path
from gateway.tools.demo.drawing.markup import drawing, element
from light_dataclasses import dataclass

GAP_S = 0.5
"""A line is not drawn over a longer silence."""
_HEIGHT = 168.0
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """A sensor and its readings.

    Attributes:
        sensor: its name.
        gateway: where it is.
        unit: of its values.
        points: seconds since the devices began and value, in order.
        style: class of the line.

    """

    sensor: str
    gateway: str
    unit: str
    points: Sequence[Point]
    style: str


def draw(name: str, curve: Curve, scene: Scene, width: float) -> Element:
    """Return a line through the readings, broken where none came for `GAP_S`.

    Args:
        name: unique on the page.
        curve: what to draw; values that are not finite are left out.
        scene: the time to show.
        width: of the drawing.

    """
    plot = Plot(scene, width, _HEIGHT)
    points = [point for point in curve.points if math.isfinite(point[1])]
    low, high = _range(value for _, value in points)
    y = plot.y(high, low)
    lines = [
        element(
            "path",
            d=path((plot.x(at_s), y(value)) for at_s, value in run),
            class_=f"curve {curve.style}",
        )
        for run in unbroken(points)
    ]
    return drawing(
        name,
        f"{curve.sensor} at {curve.gateway}, in {curve.unit}",
        in_words(points, curve.unit, scene),
        plot.width,
        plot.height,
        *plot.under(),
        *plot.value_axis(y.ticks(_TICKS), y, curve.unit),
        *lines,
        *plot.over(),
    )


def unbroken(points: Iterable[Point]) -> Iterator[list[Point]]:
    """Yield the points in runs without a silence of more than `GAP_S`."""
    run: list[Point] = []
    for point in points:
        if run and point[0] - run[-1][0] > GAP_S:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def in_words(points: Sequence[Point], unit: str, scene: Scene) -> str:
    """Return how many readings there are, their range, and the longest silence."""
    if not points:
        return f"No reading came. {scene.text}"
    values = [value for _, value in points]
    said = f"{len(points)} readings from {min(values):g} to {max(values):g} {unit}."
    runs = list(unbroken(points))
    gaps = [
        f"none between {before[-1][0]:.1f} and {after[0][0]:.1f} s"
        for before, after in pairwise(runs)
    ]
    return " ".join([said, *(f"{gap.capitalize()}." for gap in gaps), scene.text])


def _range(values: Iterable[float]) -> tuple[float, float]:
    """Return what the axis spans: from 0 where that is near, else around the values."""
    found = list(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    if low == high:
        return low - 1, high + 1
    return (min(low, 0.0) if low < (high - low) else low), high
