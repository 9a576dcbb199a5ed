"""Sources of a rule's texts: a template over the topic's levels, or a path into JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from cloud_ingest.mapping.values import bounded
from record_formats.record import RecordError

MAX_SOURCE_LENGTH: Final = 1_000
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


class Template:
    """A text with names in braces: ``{line}/temperature``.

    Raises:
        ValueError: a brace without its other, or a name that is not known.

    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        _check_length(text)
        # Texts and names in turns.
        self._pieces = _BRACES.split(text)
        for piece in self._pieces[::2]:
            if "{" in piece or "}" in piece:
                raise ValueError(f"{text!r}: a brace without its other")
        for name in self._pieces[1::2]:
            if name not in names:
                known = ", ".join(f"{{{each}}}" for each in names) or "none"
                raise ValueError(f"{{{name}}} is not known: {known}")

    def fill(self, parts: Mapping[str, str]) -> str:
        """Return the text with what the names stand for."""
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces[0]
        return "".join(parts[each] if at % 2 else each for at, each in enumerate(pieces))


class JsonPath:
    """Keys of objects, and numbers of items from 0, with dots between: ``$.readings.0.value``.

    Raises:
        ValueError: it is no such path.

    """

    def __init__(self, text: str) -> None:
        _check_length(text)
        head, *self._keys = text.split(".")
        if head != "$" or not all(self._keys):
            raise ValueError(f"{text!r} is no path such as $.reading.value")
        self.text = text

    def find(self, document: Any) -> Any:
        """Return what stands there; None for null and for nothing."""
        for key in self._keys:
            if isinstance(document, dict):
                document = document.get(key)
            elif isinstance(document, list) and key.isascii() and key.isdecimal():
                at = int(key)
                document = document[at] if at < len(document) else None
            else:
                return None
        return document


class TextSource:
    """A template, or, where the text begins with ``$``, a path.

    Raises:
        ValueError: it is neither.

    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        is_path = text[:1] == "$"
        self._path = JsonPath(text) if is_path else None
        self._template = None if is_path else Template(text, names)

    def text(self, where: str, document: Any, parts: Mapping[str, str], limit: int) -> str | None:
        """Return the text; None if a path leads nowhere. Numbers and truth values read as in JSON.

        Raises:
            RecordError: an array or object, or longer than ``limit`` characters.

        """
        if self._template is not None:
            return bounded(where, self._template.fill(parts), limit)
        assert self._path is not None
        found = self._path.find(document)
        if isinstance(found, dict | list):
            raise RecordError(f"{where} ({self._path.text}): {type(found).__name__} is no text")
        if found is None or isinstance(found, str):
            return found if found is None else bounded(where, found, limit)
        return bounded(where, json.dumps(found), limit)


def _check_length(text: str) -> None:
    if len(text) > MAX_SOURCE_LENGTH:
        raise ValueError(f"longer than {MAX_SOURCE_LENGTH} characters")
