"""Printable form of what others chose (names, topics, reasons), for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sized
from reprlib import repr as _short
from typing import Any, Final

SAID_CHARACTERS_MAX: Final = 300
"""The longest text of an error that is told, in characters."""
_OF_PYTHON: Final = ("builtins", "collections", "array")
"""Modules whose containers write all that they hold."""


def printable(text: str) -> str:
    """Return the text with its line breaks, control characters and the like as Python escapes
    them."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def printable_in(document: Any) -> Any:
    """Return a document of JSON that another machine told, with all its texts printable."""
    if isinstance(document, str):
        return printable(document)
    if isinstance(document, list):
        return [printable_in(one) for one in document]
    if isinstance(document, dict):
        return {printable(name): printable_in(value) for name, value in document.items()}
    return document


def shortly(value: object, most: int) -> str:
    """Return how Python writes a value, of a long one as much as is shown.

    A repr is made of all of a value before it is cut, which of a picture or a million samples takes
    seconds.

    Args:
        value: any.
        most: characters.

    """
    if isinstance(value, str | bytes | bytearray):
        return repr(value[:most])[:most]
    if isinstance(value, Sized) and type(value).__module__ in _OF_PYTHON:
        is_long = len(value) > most
        return f"a {type(value).__name__} of {len(value)}" if is_long else _short(value)[:most]
    return repr(value)[:most]


def told(error: BaseException) -> str:
    """Return what an error says, in one line; its type if it says nothing or can't be told."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # an error of a driver's own may raise whenever it is looked at
        return name
    return printable(text[:SAID_CHARACTERS_MAX]) or name


def said(error: BaseException) -> str:
    """Return an error's type and what it says, in one line; its type alone if it can't be told."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # as above
        return name
    return printable(f"{name}: {text}"[:SAID_CHARACTERS_MAX])
