"""A text as a QR code for a terminal (ISO/IEC 18004), to be read from the screen by a telephone."""

from __future__ import annotations

import io

import segno


def code(text: str) -> str:
    """Return the lines of a code, two of its rows in each line of the terminal."""
    lines = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(lines, compact=True)
    return lines.getvalue()


def picture(text: str) -> bytes:
    """Return the code as a file of SVG, black on white whatever stands behind it."""
    file = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        file, kind="svg", scale=4, border=4, light="white"
    )
    return file.getvalue()


def drawing(text: str) -> str:
    """Return the code as SVG, to stand in a page."""
    return segno.make(text, error="m", micro=False).svg_inline(scale=4, border=2)
