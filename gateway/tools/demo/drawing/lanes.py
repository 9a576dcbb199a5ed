"""Lanes of the roots over time: a lane a gateway shows which one it called the root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element

from gateway.tools.demo.drawing.chart import BOTTOM, TOP, Plot, Scene
from gateway.tools.demo.drawing.markup import drawing, element, label
from light_dataclasses import dataclass

_LANE = 30.0
_BAR = 20.0
_LETTER = 7.5
"""About the width of a letter of a label."""


RootAnswers = Sequence[tuple[float, str | None]]
"""The times when a gateway was asked, and whom it called the root; None: no answer. In order."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time for which a gateway went on calling one the root; ``root`` is None: no answer."""

    start_s: float
    end_s: float
    root: str | None


def stretches(answers: RootAnswers, until_s: float) -> Iterator[Stretch]:
    """Yield the stretches of one gateway, in order; each lasts until an answer that differs."""
    start_s, root = 0.0, answers[0][1] if answers else None
    for at_s, said in answers:
        if said != root:
            if at_s > start_s:
                yield Stretch(start_s, at_s, root)
            start_s, root = at_s, said
    if until_s > start_s:
        yield Stretch(start_s, until_s, root)


def draw(
    name: str,
    told: Mapping[str, RootAnswers],
    classes: Mapping[str, str],
    scene: Scene,
    width: float,
) -> Element:
    """Return the lanes of the gateways that ``classes`` names.

    Args:
        name: unique on the page.
        told: what each gateway answered, by its id.
        classes: the style of each gateway, by its id.
        scene: the time to show.
        width: of the drawing.

    """
    plot = Plot(scene, width, TOP + _LANE * len(classes) + BOTTOM, left=76.0)
    lanes: list[Element] = []
    for row, gateway in enumerate(classes):
        y = TOP + row * _LANE
        lanes.append(label(gateway, 0, y + 19, class_="name"))
        for stretch in stretches(told.get(gateway, ()), scene.until_s):
            lanes += _bar(plot, stretch, y + (_LANE - _BAR) / 2, classes)
    return drawing(
        name,
        "The gateway that each one called the root",
        in_words(told, list(classes), scene),
        plot.width,
        plot.height,
        *plot.under(),
        *lanes,
        *plot.over(),
    )


def in_words(told: Mapping[str, RootAnswers], gateways: Sequence[str], scene: Scene) -> str:
    """Return the lanes as sentences."""
    said = [scene.text]
    for gateway in gateways:
        parts = (
            f"{each.root or 'no answer'} until {each.end_s:.1f} s"
            for each in stretches(told.get(gateway, ()), scene.until_s)
        )
        said.append(f"{gateway} said: {', '.join(parts)}.")
    return " ".join(said)


def _bar(plot: Plot, stretch: Stretch, y: float, classes: Mapping[str, str]) -> list[Element]:
    start, end = plot.x(stretch.start_s), plot.x(stretch.end_s)
    width = end - start
    if stretch.root is None:
        middle = y + _BAR / 2
        return [element("line", x1=start, x2=end, y1=middle, y2=middle, class_="silent")]
    style = f"bar {classes.get(stretch.root, '')}".rstrip()
    made = [element("rect", x=start, y=y, width=width, height=_BAR, rx=3, class_=style)]
    if width > len(stretch.root) * _LETTER + 8:
        made.append(label(stretch.root, start + 6, y + 14, class_="on-bar"))
    return made
