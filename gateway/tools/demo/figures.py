"""The drawings of a run as figures of the page, from what `report.json` holds."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from gateway.tools.demo.drawing import lanes, latency, rates, readings
from gateway.tools.demo.drawing import network as network_drawing
from gateway.tools.demo.drawing.chart import Scene
from gateway.tools.demo.drawing.markup import element, written
from gateway.tools.demo.drawing.readings import Curve
from gateway.tools.demo.network import COLLECTOR, DemoNetwork

WIDE, NARROW = 800.0, 340.0
"""A chart is drawn twice, for a desktop and for a phone, so that its letters are as large."""
_STYLES = ("g0", "g1", "g2")
_MOMENTS = (
    ("before", "Before", "One tree, {converged_s} s after the first process was started."),
    ("healed", "{killed} is killed", "Messages flowed again after {heal_s} s."),
    ("after", "{killed} is back", "Root again {rejoin_s} s after it was started."),
)
_LINKS = (("link carries", "carries messages"), ("link reserve", "stands by"))


def trees(result: Mapping[str, Any]) -> str:
    """Return the tree before, during and after, each with its lines of text."""
    return "".join(
        _tree(result, name, title.format_map(result), text.format_map(result))
        for name, title, text in _MOMENTS
        if name in result["networks"]
    )


def network_legend() -> str:
    """Return what the lines of a tree mean."""
    return _legend((text, _line(style)) for style, text in _LINKS)


def gateway_legend(result: Mapping[str, Any]) -> str:
    """Return which colour is which gateway."""
    return _legend((gateway, _swatch(style)) for gateway, style in _classes(result).items())


def charts(result: Mapping[str, Any]) -> str:
    """Roots, readings and rates over one axis of time."""
    scene = _scene(result)
    if scene is None:
        return ""
    classes = _classes(result)
    timeline = result["timeline"]
    told = timeline["told"]
    arrived = {
        gateway: [
            each["arrived_s"]
            for each in timeline["deliveries"]
            if each["gateway"] == gateway and each["arrived_s"] is not None
        ]
        for gateway in classes
    }
    return "".join(
        (
            _chart(
                "The gateway that each one called the root",
                "Each was asked five times a second.",
                lambda name, width: lanes.draw(name, told, classes, scene, width),
                "roots",
            ),
            *(_readings(at, curve, classes, scene) for at, curve in enumerate(result["curves"])),
            _chart(
                f"Messages a second that arrived at a subscriber of {result['subscriber']}",
                f"From the devices of all gateways. What {result['killed']} had acknowledged and "
                "not handed on before it was killed comes when it is back.",
                lambda name, width: rates.draw(name, arrived, classes, scene, width),
                "rates",
            ),
        )
    )


def latency_chart(result: Mapping[str, Any]) -> str:
    """Return how long messages from other gateways took to the subscriber."""
    scene = _scene(result)
    if scene is None:
        return ""
    took = [
        (each["sent_s"], (each["arrived_s"] - each["sent_s"]) * 1000)
        for each in result["timeline"]["deliveries"]
        if each["arrived_s"] is not None and each["gateway"] != result["subscriber"]
    ]
    legend = _legend(
        [
            ("half of a second's messages took no longer (p50)", _line("curve p50")),
            ("99 of 100 (p99)", _line("curve p99")),
            ("one message", _dot()),
        ]
    )
    return _chart(
        f"From the device to a subscriber of {result['subscriber']}, through the tree",
        "Each message of the other gateways' devices at the moment of its publication, by the one "
        "clock of this machine. The axis is logarithmic.",
        lambda name, width: latency.draw(name, took, scene, width),
        "latency",
        legend,
    )


def _tree(result: Mapping[str, Any], name: str, title: str, text: str) -> str:
    network = DemoNetwork.from_json(result["networks"][name])
    drawn = written(network_drawing.draw(f"tree-{name}", title, network))
    lines = html.escape("\n".join(result["trees"].get(name, ())))
    return (
        f"<figure>{_caption(title, text)}{drawn}"
        f"<details><summary>As lines of text</summary><pre>{lines}</pre></details></figure>"
    )


def _readings(at: int, told: Mapping[str, Any], classes: Mapping[str, str], scene: Scene) -> str:
    gateway = told["gateway"]
    curve = Curve(
        told["sensor"],
        gateway,
        told["unit"],
        [(at_s, value) for at_s, value in told["points"]],
        classes.get(gateway, ""),
    )
    fate = (
        "Its gateway is the one that was killed: the device can't publish until it is back."
        if gateway == scene.killed
        else "Its gateway went on, and so did the readings."
    )
    return _chart(
        f"Readings of {curve.sensor} at {gateway}",
        f"As they stand in the telemetry table. {fate}",
        lambda name, width: readings.draw(name, curve, scene, width),
        f"readings-{at}",
    )


def _chart(
    title: str, text: str, draw: Callable[[str, float], Element], name: str, legend: str = ""
) -> str:
    wide, narrow = draw(f"{name}-wide", WIDE), draw(f"{name}-narrow", NARROW)
    said = html.escape(wide.findtext("desc", ""))
    return (
        f'<figure>{_caption(title, text)}<div class="wide">{written(wide)}</div>'
        f'<div class="narrow">{written(narrow)}</div>{legend}'
        f"<details><summary>In words</summary><p>{said}</p></details></figure>"
    )


def _caption(title: str, text: str) -> str:
    return f"<figcaption><h3>{html.escape(title)}</h3><p>{html.escape(text)}</p></figcaption>"


def _scene(result: Mapping[str, Any]) -> Scene | None:
    """Return the time to show; None where the run did not get so far."""
    moments = result["timeline"].get("moments", {})
    if "killed_s" not in moments or "until_s" not in moments:
        return None
    return Scene(moments["until_s"], result["killed"], moments["killed_s"], moments.get("back_s"))


def _classes(result: Mapping[str, Any]) -> dict[str, str]:
    """Return a style for each gateway, by its id."""
    nodes = result["networks"].get("before", {"nodes": ()})["nodes"]
    gateways = [node["id"] for node in nodes if node["kind"] != COLLECTOR]
    return {gateway: _STYLES[at % len(_STYLES)] for at, gateway in enumerate(gateways)}


# -- legends ---------------------------------------------------------------------------------------


def _legend(entries: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<li>{mark}{html.escape(text)}</li>" for text, mark in entries)
    return f'<ul class="legend">{items}</ul>'


def _line(style: str) -> str:
    return _mark(element("line", x1=0, x2=24, y1=6, y2=6, class_=style))


def _swatch(style: str) -> str:
    return _mark(element("rect", width=24, height=12, rx=3, class_=f"bar {style}"))


def _dot() -> str:
    return _mark(element("path", d="M12 6h0", class_="dots"))


def _mark(drawn: Element) -> str:
    return written(element("svg", drawn, viewBox="0 0 24 12", aria_hidden="true"))
