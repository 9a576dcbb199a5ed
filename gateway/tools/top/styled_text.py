"""Lines of a frame: text with what it is meant to look like, and no word about a terminal."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from gateway.tools.top.cells import clip, width_of
from light_dataclasses import dataclass


class Style(StrEnum):
    """A style of text; the terminal chooses a colour for it, and text alone says the same."""

    PLAIN = "plain"
    STRONG = "strong"
    HEAD = "head"
    CHOSEN = "chosen"
    FAINT = "faint"
    GOOD = "good"
    LOOK = "look"
    WRONG = "wrong"


Span: TypeAlias = tuple[str, Style]
StyledLine: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class TopFrame:
    """The content of a terminal at one time.

    Attributes:
        lines: as many as it has rows, none of them wider than it.

    """

    lines: tuple[StyledLine, ...]

    def as_text(self) -> str:
        """Return it without its styles."""
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)


def clipped(line: StyledLine, cells: int) -> StyledLine:
    """Return a line that takes no more than so many cells."""
    kept, left = list[Span](), cells
    for text, style in line:
        shown = clip(text, left)
        if shown:
            kept.append((shown, style))
        left -= width_of(shown)
        if left <= 0:
            break
    return tuple(kept)
