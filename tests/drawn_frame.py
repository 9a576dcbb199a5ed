"""A frame of `hedgerow top` as a picture, for documents: SVG, as a terminal would show it."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from gateway.tools.top.cells import width_of
from gateway.tools.top.styled_text import Style, TopFrame

CELL, ROW, EDGE = 8.4, 18, 12
"""In pixels, of a font of 14."""
_PAPER, _INK = "#15191f", "#d7dce2"
_INKS: Final = {
    Style.STRONG: "#ffffff",
    Style.FAINT: "#8b95a3",
    Style.GOOD: "#7fd48a",
    Style.LOOK: "#f0c35e",
    Style.WRONG: "#ff7b72",
}
_SPACE: Final = "\u00a0"
"""One that no reader of SVG leaves out."""
_TURNED: Final = (Style.HEAD, Style.CHOSEN)


def svg(frame: TopFrame, title: str) -> str:
    """Return the picture.

    Args:
        frame: what is drawn.
        title: what a screen reader says.

    """
    cells = max(sum(width_of(text) for text, _ in line) for line in frame.lines)
    width, height = cells * CELL + 2 * EDGE, len(frame.lines) * ROW + 2 * EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" role="img" aria-label="{escape(title)}">',
        f'<rect width="100%" height="100%" rx="8" fill="{_PAPER}"/>',
        "<g font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" "
        'font-size="14">',
    ]
    for number, line in enumerate(frame.lines):
        at, top = float(EDGE), EDGE + number * ROW
        for text, style in line:
            wide = width_of(text) * CELL
            if style in _TURNED:
                lines.append(
                    f'<rect x="{at:.1f}" y="{top}" width="{wide:.1f}" height="{ROW}" '
                    f'fill="#aab4c0"/>'
                )
            ink = _PAPER if style in _TURNED else _INKS.get(style, _INK)
            if text.strip():
                lines.append(
                    f'<text x="{at:.1f}" y="{top + 14}" textLength="{wide:.1f}" '
                    f'fill="{ink}">{escape(text).replace(" ", _SPACE)}</text>'
                )
            at += wide
    return "\n".join([*lines, "</g>", "</svg>"]) + "\n"
