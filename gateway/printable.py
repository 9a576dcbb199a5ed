"""What others chose (names, topics, reasons), as a terminal or a log may be given it."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with its line breaks, control characters and the like as Python escapes them."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
