"""The tree at one moment: who is there, which links carry messages, and which stand by.

Each gateway keeps its place from one drawing to the next, so that what changed is what is seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from gateway.tools.demo.drawing.chart import Point
from gateway.tools.demo.drawing.markup import drawing, element, label
from gateway.tools.demo.network import COLLECTOR, ROOT, SILENT, DemoNetwork, DemoNode

_WIDTH, _HEIGHT = 270.0, 225.0
_CARD, _CARD_HEIGHT = 100.0, 44.0
_LEAF, _LEAF_HEIGHT = 84.0, 28.0
_LETTERS = 13
"""A longer name is cut in the drawing; its text has all of it."""


def draw(name: str, title: str, network: DemoNetwork) -> Element:
    """Return the gateways on a ring, the first one on top, and collectors inside it.

    Args:
        name: unique on the page.
        title: which moment it is.
        network: what the gateways told.

    """
    at = places(network.nodes)
    links = [
        element(
            "line",
            x1=at[link.one][0],
            y1=at[link.one][1],
            x2=at[link.other][0],
            y2=at[link.other][1],
            class_="link carries" if link.carries else "link reserve",
        )
        for link in sorted(network.links, key=lambda link: link.carries)
        if link.one in at and link.other in at
    ]
    cards = [_card(node, at[node.id]) for node in network.nodes]
    return drawing(name, title, in_words(network), _WIDTH, _HEIGHT, *links, *cards)


def places(nodes: Sequence[DemoNode]) -> dict[str, Point]:
    """Return where the middle of each node is, by its id."""
    ring = [node.id for node in nodes if node.kind != COLLECTOR]
    inside = [node.id for node in nodes if node.kind == COLLECTOR]
    left, right = _CARD / 2 + 2, _WIDTH - _CARD / 2 - 2
    top, bottom = _CARD_HEIGHT / 2 + 2, _HEIGHT - _CARD_HEIGHT / 2 - 2
    made = {}
    units = [_on_circle(at, len(ring)) for at in range(len(ring))]
    low = max((y for _, y in units), default=1.0)
    for who, (x, y) in zip(ring, units, strict=True):
        down = (y + 1) / (low + 1) if low > -1 else 0.0
        made[who] = ((left + right) / 2 + x * (right - left) / 2, top + down * (bottom - top))
    middle = top + (bottom - top) * 0.62
    for place, who in enumerate(inside):
        share = (place + 1) / (len(inside) + 1)
        made[who] = (left + share * (right - left), middle)
    return made


def in_words(network: DemoNetwork) -> str:
    """Return who is root, which links carry messages, which stand by, and who does not answer."""
    roots = [node.id for node in network.nodes if node.kind == ROOT]
    silent = [node.id for node in network.nodes if node.kind == SILENT]
    carries = [f"{link.one} and {link.other}" for link in network.links if link.carries]
    reserve = [f"{link.one} and {link.other}" for link in network.links if not link.carries]
    said = (
        ("The root is", roots),
        ("Messages go between", carries),
        ("Standing by, between", reserve),
        ("No answer from", silent),
    )
    return " ".join(f"{what} {'; '.join(who)}." for what, who in said if who)


def _on_circle(at: int, of: int) -> Point:
    """Return a place on the unit circle, from the top and against the clock."""
    angle = -math.pi / 2 - 2 * math.pi * at / of
    # Stretched, so that three reach both sides of the drawing.
    return max(-1.0, min(1.0, math.cos(angle) * 1.16)), math.sin(angle)


def _card(node: DemoNode, at: Point) -> Element:
    leaf = node.kind == COLLECTOR
    width, height = (_LEAF, _LEAF_HEIGHT) if leaf else (_CARD, _CARD_HEIGHT)
    x, y = at
    shape = element(
        "rect", x=x - width / 2, y=y - height / 2, width=width, height=height, rx=8 if leaf else 10
    )
    shown = node.id if len(node.id) <= _LETTERS else node.id[: _LETTERS - 1] + "…"
    name = label(shown, x, y + (4 if leaf else -3), anchor="middle", class_="node-name")
    below = [] if leaf else [label(node.note, x, y + 14, anchor="middle", class_="node-note")]
    return element("g", element("title", node.id), shape, name, *below, class_=f"node {node.kind}")
