"""Chart of delays over time: a dot a message, and lines of two percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element

from gateway.base.percentiles import percentile
from gateway.tools.demo.drawing.chart import Plot, Point, Scene, path
from gateway.tools.demo.drawing.markup import drawing, element, number

INTERVAL_S = 1.0
"""Percentiles are of the messages of so long."""
_HEIGHT = 236.0
_LINES = ((50, "p50"), (99, "p99"))


def draw(name: str, took: Sequence[Point], scene: Scene, width: float) -> Element:
    """Return the dots and both lines, on a logarithmic axis.

    Args:
        name: unique on the page.
        took: seconds since the devices began when a message was sent, and how many ms it took.
        scene: the time to show.
        width: of the drawing.

    """
    plot = Plot(scene, width, _HEIGHT)
    y = plot.log_y(ms for _, ms in took)
    dots = "".join(f"M{number(plot.x(at_s))} {number(y(ms))}h0" for at_s, ms in took)
    data = [element("path", d=dots, class_="dots")] if dots else []
    for percent, style in _LINES:
        steps = [
            (plot.x(at_s), y(ms))
            for start_s, ms in over_time(took, percent)
            for at_s in (start_s, start_s + INTERVAL_S)
        ]
        if steps:
            data.append(element("path", d=path(steps), class_=f"curve {style}"))
    return drawing(
        name,
        "Time that messages took from their device to a subscriber of another gateway",
        in_words(took, scene),
        plot.width,
        plot.height,
        *plot.under(),
        *plot.value_axis(y.ticks(), y, "ms"),
        *data,
        *plot.over(),
    )


def over_time(took: Sequence[Point], percent: float) -> Iterator[Point]:
    """Yield the start of each interval that has messages, and the percentile of these."""
    for at, within in groupby(sorted(took), key=lambda point: point[0] // INTERVAL_S):
        yield at * INTERVAL_S, percentile([ms for _, ms in within], percent)


def in_words(took: Sequence[Point], scene: Scene) -> str:
    """Median, 99th percentile and slowest of all."""
    if not took:
        return f"No message arrived. {scene.text}"
    all_ms = [ms for _, ms in took]
    return (
        f"{len(took)} messages: half of them within {percentile(all_ms, 50):.1f} ms, "
        f"99 of 100 within {percentile(all_ms, 99):.1f} ms, the slowest {max(all_ms):.1f} ms. "
        f"{scene.text}"
    )
