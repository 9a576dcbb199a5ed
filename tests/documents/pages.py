"""Blocks of the documents that a reader types, and what comments in the page say of them.

Just before a block may stand HTML comments, one a line:

    not run: WHY            the block can't be run here
    tried by: TEST          nor need it be: this test does what it says (a path, and ::a test)
    on: MACHINE, ...        where a test with machines of their own types it; all others have one
    run with: NAME, ...     what of `surroundings.py` must be there before
    typed: TEXT             what is typed while it runs; \\n ends a line
    goes on: TEXT           lines with this text go on beside the following ones
    shows: TEXT             the block's output has this text, at its end or soon afterwards
    exits with: CODE        of the last command; 0 unless said otherwise
    saved as: FILE          no program, but a file that the next blocks use
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = (
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    PROJECT / "deploy" / "ansible" / "README.md",
)
WORDS = (
    *("not run", "tried by", "on", "run with", "typed", "goes on"),
    *("shows", "exits with", "saved as"),
)
SHELLS = ("sh", "bash", "shell", "console")

_FENCE = re.compile(r"```(\S*)$")
_COMMENT = re.compile(r"<!-- (?:([a-z ]+): )?(.+?) -->$")
_INDENTED = re.compile(
    r" {4}(\$ |(\.venv/bin/)?(hedgerow|python3?|pytest|pip|make|sudo|systemctl|mosquitto_\w+)\s)"
)


class PageError(Exception):
    """A page that can't be run as it stands; the message has its name and line."""


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: its file.
        line: of its first fence.
        language: as the fence says.
        text: what is between the fences.
        said: what the comments before it say, by their first words.

    """

    page: Path
    line: int
    language: str
    text: str
    said: dict[str, list[str]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"

    @property
    def is_transcript(self) -> bool:
        """Return whether commands stand behind "$ ", with what they print below them."""
        return self.language in ("console", "") and self.text.startswith("$ ")

    @property
    def is_shell(self) -> bool:
        return self.language in SHELLS or self.is_transcript

    @property
    def is_left_out(self) -> bool:
        return "not run" in self.said or "tried by" in self.said

    def one(self, word: str) -> str | None:
        """Return what a comment says that may stand once, or None if there is none."""
        values = self.said.get(word, [])
        if len(values) > 1:
            raise PageError(f"{self.place}: {word!r} stands {len(values)} times")
        return values[0] if values else None


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, from its top.

    Raises:
        PageError: an unknown comment before a block, or commands that are not fenced.

    """
    said: dict[str, list[str]] = {}
    start, language, text, before = 0, "", list[str](), ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line.strip())
        if start:
            if fence:
                yield Block(page, start, language, "\n".join(text) + "\n", said)
                start, said = 0, {}
            else:
                text.append(line)
        elif fence:
            start, language, text = number, fence[1], []
        elif comment := _COMMENT.match(line.strip()):
            word, value = comment.groups()
            if word not in WORDS:
                raise PageError(f"{page}:{number}: {line.strip()!r} is none of {', '.join(WORDS)}")
            said.setdefault(word, []).append(value)
        else:
            if said:
                raise PageError(f"{page}:{number}: no block begins here, and a comment says how")
            if not before and _INDENTED.match(line):
                raise PageError(f"{page}:{number}: commands stand between fences: {line.strip()}")
        before = line.strip()
