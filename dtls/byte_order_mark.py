"""Byte order marks that editors put before a text: which one stands there, and what to do."""

from __future__ import annotations

import codecs

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def why_marked(data: bytes) -> str:
    """Return why a text that begins with a byte order mark is refused; empty if it has none.

    Args:
        data: all of the file, or its first bytes.

    """
    if data.startswith(codecs.BOM_UTF8):
        return "begins with a byte order mark: save it as UTF-8 without one"
    return why_utf_16(data)


def why_utf_16(data: bytes) -> str:
    """Return why a text with the byte order mark of UTF-16 is refused; empty for any other."""
    if data.startswith(_UTF_16):
        return "begins with a byte order mark of UTF-16: save it as UTF-8"
    return ""


def text_of(data: bytes) -> str:
    """Return a text of UTF-8 without the mark that an editor may put before it.

    Raises:
        ValueError: it is UTF-16, or no text; the message says which.

    """
    if why := why_utf_16(data):
        raise ValueError(why)
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise ValueError("is not UTF-8") from error


def first_line(data: bytes) -> bytes:
    """Return the first line of a text without its end, nor the mark of UTF-8 before it."""
    return data.removeprefix(codecs.BOM_UTF8).partition(b"\n")[0].removesuffix(b"\r")
