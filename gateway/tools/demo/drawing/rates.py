"""Messages a second over time, by gateway: a stack of bars for each interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from gateway.tools.demo.drawing.chart import Plot, Scene
from gateway.tools.demo.drawing.markup import drawing, element

INTERVAL_S = 0.5
_HEIGHT = 204.0
_TICKS = 4
_GAP = 1.0
"""Between two bars."""


def per_second(times_s: Sequence[float], until_s: float) -> list[float]:
    """Return messages a second in each interval from 0 on; times beyond the ends are left out."""
    counts = [0] * max(1, math.ceil(until_s / INTERVAL_S))
    for at_s in times_s:
        at = math.floor(at_s / INTERVAL_S)
        if 0 <= at < len(counts):
            counts[at] += 1
    return [count / INTERVAL_S for count in counts]


def draw(
    name: str,
    arrived: Mapping[str, Sequence[float]],
    classes: Mapping[str, str],
    scene: Scene,
    width: float,
) -> Element:
    """Return a stack of bars for each half second.

    Args:
        name: unique on the page.
        arrived: when messages arrived, by the gateway that they came from.
        classes: the style of each gateway, by its id: stacked from below in this order.
        scene: the time to show.
        width: of the drawing.

    """
    plot = Plot(scene, width, _HEIGHT)
    rates = {gateway: per_second(arrived.get(gateway, ()), scene.until_s) for gateway in classes}
    stacks = list(zip(*rates.values(), strict=True))
    y = plot.y(max(map(sum, stacks), default=0.0) or 1.0)
    bars: list[Element] = []
    for at, stack in enumerate(stacks):
        start, end = plot.x(at * INTERVAL_S), plot.x((at + 1) * INTERVAL_S)
        below = 0.0
        for rate, style in zip(stack, classes.values(), strict=True):
            if rate:
                size = {"width": max(end - start - _GAP, 0.5), "height": y(below) - y(below + rate)}
                bars.append(
                    element("rect", x=start, y=y(below + rate), **size, class_=f"bar {style}")
                )
            below += rate
    return drawing(
        name,
        "Messages a second that arrived",
        in_words(rates, scene),
        plot.width,
        plot.height,
        *plot.under(),
        *plot.value_axis(y.ticks(_TICKS), y, "messages/s"),
        *bars,
        *plot.over(),
    )


def in_words(rates: Mapping[str, Sequence[float]], scene: Scene) -> str:
    """Return the mean rates before the kill, while the gateway was away and after."""
    back_s = scene.until_s if scene.back_s is None else scene.back_s
    spans = (
        ("before the kill", 0.0, scene.killed_s),
        (f"while {scene.killed} was away", scene.killed_s, back_s),
        ("after its return", back_s, scene.until_s),
    )
    said = [scene.text]
    for gateway, series in rates.items():
        parts = (
            f"{mean_rate(series, start_s, end_s):.0f} {when}"
            for when, start_s, end_s in spans
            if end_s > start_s
        )
        said.append(f"Messages a second from {gateway}: {', '.join(parts)}.")
    return " ".join(said)


def mean_rate(series: Sequence[float], start_s: float, end_s: float) -> float:
    """Return the mean of the intervals that begin in a span of time; 0 where none does."""
    within = [rate for at, rate in enumerate(series) if start_s <= at * INTERVAL_S < end_s]
    return sum(within) / len(within) if within else 0.0
