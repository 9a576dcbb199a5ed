"""Search for the known word that somebody may have meant who typed another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LIKENESS: Final = 0.6
"""Of two words, for one to be taken for a slip of the other (`difflib`)."""


def near(word: str, known: Iterable[str]) -> str | None:
    """Find the known word that is nearest; None if none is near.

    Args:
        word: as it was typed.
        known: those that would be right.

    """
    import difflib  # noqa: PLC0415  # most words are right

    return next(iter(difflib.get_close_matches(word, list(known), 1, LIKENESS)), None)
