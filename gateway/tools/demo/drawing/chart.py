"""Axis that all charts of a run share: one of time, and on it when the gateway was away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from gateway.tools.demo.drawing.markup import element, label, number
from gateway.tools.demo.drawing.scales import LogScale, Scale
from light_dataclasses import dataclass

LEFT, RIGHT, TOP, BOTTOM = 44.0, 10.0, 22.0, 34.0
"""Margins of a chart, in its own units: the scales' labels stand there."""
_BETWEEN_TICKS = 36.0
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scene:
    """The time that charts show, in seconds since the devices began to publish.

    Attributes:
        until_s: its end.
        killed: who was killed.
        killed_s: when.
        back_s: when it was root again; None if it never was.

    """

    until_s: float
    killed: str
    killed_s: float
    back_s: float | None

    @property
    def text(self) -> str:
        """The marks in words."""
        back = "" if self.back_s is None else f", and is back at {self.back_s:.1f} s"
        return f"{self.killed} is killed at {self.killed_s:.1f} s{back}."


@dataclass(frozen=True, slots=True)
class Plot:
    """The area of a chart in which its data is drawn.

    Attributes:
        scene: the time that it shows.
        width: of the whole chart.
        height: of the whole chart.
        left: margin for labels of the vertical axis.

    """

    scene: Scene
    width: float
    height: float
    left: float = LEFT

    @property
    def x(self) -> Scale:
        """Seconds to coordinates."""
        return Scale(0, self.scene.until_s, self.left, self.width - RIGHT)

    @property
    def bottom(self) -> float:
        """Return the height of the axis of time."""
        return self.height - BOTTOM

    def y(self, high: float, low: float = 0.0) -> Scale:
        """Return values from a lowest to a highest to coordinates."""
        return Scale(low, high, self.bottom, TOP)

    def log_y(self, values: Iterable[float]) -> LogScale:
        """Return values to coordinates, logarithmically."""
        return LogScale.of(values, self.bottom, TOP)

    def under(self) -> list[Element]:
        """Return what lies under the data: when the gateway was away, and the axis of time."""
        return [*self._away(), *self._time_axis()]

    def over(self) -> list[Element]:
        """Return what lies over the data: the moment of the kill and that of the return."""
        scene, x = self.scene, self.x(self.scene.killed_s)
        made = [
            element("line", x1=x, x2=x, y1=TOP - 6, y2=self.bottom, class_="kill"),
            label(f"{scene.killed} killed", x, TOP - 10, anchor=self._side(x), class_="kill-text"),
        ]
        if scene.back_s is not None:
            x = self.x(scene.back_s)
            made += [
                element("line", x1=x, x2=x, y1=TOP - 6, y2=self.bottom, class_="back"),
                label("root again", x, TOP - 10, class_="note"),
            ]
        return made

    def value_axis(self, ticks: Sequence[float], at: Scale | LogScale, unit: str) -> list[Element]:
        """Return lines across the plot with their values, the highest with its unit."""
        made = []
        for value in ticks:
            y = at(value)
            made += [
                element("line", x1=self.left, x2=self.width - RIGHT, y1=y, y2=y, class_="grid"),
                label(_plain(value), self.left - 6, y + 4, anchor="end", class_="tick"),
            ]
        return [*made, label(unit, 0, TOP - 10, class_="note")]

    def _away(self) -> list[Element]:
        scene, x = self.scene, self.x
        end_s = scene.until_s if scene.back_s is None else scene.back_s
        start, end = x(scene.killed_s), x(end_s)
        size = {"width": end - start, "height": self.bottom - TOP + 6}
        return [element("rect", x=start, y=TOP - 6, **size, class_="away")]

    def _time_axis(self) -> list[Element]:
        ticks = self.x.ticks(int((self.width - self.left - RIGHT) // _BETWEEN_TICKS))
        made = [
            label(_plain(at_s), self.x(at_s), self.bottom + 15, anchor="middle", class_="tick")
            for at_s in ticks
        ]
        legend = "seconds since the devices began"
        end = self.width - RIGHT
        return [*made, label(legend, end, self.bottom + 30, anchor="end", class_="note")]

    def _side(self, x: float) -> str:
        """Return where the kill's label goes, so that the return's has the other side."""
        return "end" if x > self.left + 130 else "start"


def path(points: Iterable[Point]) -> str:
    """Return the data of a ``path`` through points, in straight lines."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:g}"
