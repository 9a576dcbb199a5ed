"""Exit codes of all commands: a code has one meaning, and stands here alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
CARD_REFUSED: Final = 3
CARD_FAILED: Final = 4
CARD_DIFFERS: Final = 5
NO_JAVA: Final = 6
UNREACHABLE: Final = 7
NO_CERTIFICATE: Final = 8
REFUSED: Final = 22
NO_ANSWER: Final = 28
NO_SESSION: Final = 35
INTERRUPTED: Final = 130

MEANINGS: Final[Mapping[int, str]] = {
    DONE: "done",
    FAILED: "it did not work out: no answer, a violated invariant, a lost message; at a start, "
    "what may pass: a full disk, an address in use",
    WRONG_USE: "a wrong argument or configuration, or an output that takes nothing; one line names "
    "it",
    CARD_REFUSED: "a disk, image or device to write a card or system to is refused; nothing is "
    "written",
    CARD_FAILED: "the card could not be written; it is of no use",
    CARD_DIFFERS: "what was read back from a card differs: the card is damaged",
    NO_JAVA: "there is no Java for Spark",
    UNREACHABLE: "nobody listens there (as curl has it)",
    NO_CERTIFICATE: "the authority has no certificate of that name, or it is revoked: issue one",
    REFUSED: "the answer is an error: 4.xx or 5.xx (as curl has it)",
    NO_ANSWER: "no answer in time (as curl has it)",
    NO_SESSION: "the key was refused (as curl has it)",
    INTERRUPTED: "Ctrl-C",
}
"""By code."""


def told() -> str:
    """Return all of them in one line."""
    return "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())
