"""A value and a key as people type them in a command."""

from __future__ import annotations

import tomllib
from typing import Any, Final

_MARK: Final = 71_829
"""The value behind a key that is looked at, and behind no comment in it."""


class WrittenKeyError(ValueError):
    """The text that was typed is no key of TOML.

    Args:
        written: what was typed.

    """

    def __init__(self, written: str) -> None:
        super().__init__(f"{written[:80]!r} is no key, such as tree.hello_s")
        self.written = written


def value(text: str) -> Any:
    """Return the value of TOML that a text is, or else the text itself.

    Args:
        text: as it was typed; ``5``, ``true``, ``["a"]`` and ``"5"`` are values.

    """
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if found.keys() == {"value"} else text


def key(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted key; a part with other characters stands in quotes (TOML 1.0).

    Args:
        text: as it was typed, such as ``tree.hello_s`` or ``mqtt.plugins."a.B".x``.

    Raises:
        WrittenKeyError: it is none.

    """
    try:
        inner: Any = tomllib.loads(f"{text} = {_MARK}")
    except (ValueError, RecursionError) as error:
        raise WrittenKeyError(text) from error
    parts: list[str] = []
    while isinstance(inner, dict) and len(inner) == 1:
        ((part, inner),) = inner.items()
        parts.append(part)
    if inner != _MARK or len(text.splitlines()) != 1:
        raise WrittenKeyError(text)
    return tuple(parts)
