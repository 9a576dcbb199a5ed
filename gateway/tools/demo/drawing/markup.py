"""SVG as a tree of elements: whatever names and values are in it, it is well-formed XML."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, tostring

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that no XML document can hold, escaped or not (XML 1.0, production 2)."""


def element(name: str, *children: Element | str, **attributes: str | float) -> Element:
    """Return an element; text among its children is escaped when it is written.

    Args:
        name: of the element.
        children: elements and text, in their order.
        attributes: ``stroke_width`` stands for ``stroke-width`` and ``class_`` for ``class``.

    """
    made = Element(
        name,
        {key.rstrip("_").replace("_", "-"): _value(value) for key, value in attributes.items()},
    )
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + _clean(child)
        else:
            made.text = (made.text or "") + _clean(child)
    return made


def drawing(
    name: str, title: str, text: str, width: float, height: float, *children: Element
) -> Element:
    """Return an ``svg`` that reads as one picture with a name and a text (SVG accessibility,
    section 5).

    Args:
        name: unique on the page; the ids of title and text are made of it.
        title: what it is.
        text: what a reader sees in it.
        width: in its own units.
        height: in its own units.
        children: what is drawn.

    """
    title_id, text_id = f"{name}-title", f"{name}-text"
    return element(
        "svg",
        element("title", title, id=title_id),
        element("desc", text, id=text_id),
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_labelledby=f"{title_id} {text_id}",
    )


def label(text: str, x: float, y: float, *, anchor: str = "start", class_: str = "") -> Element:
    """Return a line of text: ``anchor`` is start, middle or end."""
    classes = {"class_": class_} if class_ else {}
    return element("text", text, x=x, y=y, text_anchor=anchor, **classes)


def written(root: Element) -> str:
    """Return the element as text, for a page."""
    return tostring(root, encoding="unicode")


def number(value: float) -> str:
    """Return a coordinate with at most one decimal place, which is what a screen can show."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _value(value: str | float) -> str:
    return _clean(value) if isinstance(value, str) else number(value)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
