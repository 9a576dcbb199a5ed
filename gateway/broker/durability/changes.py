"""Changes since the last checkpoint that only the next one tells."""

from __future__ import annotations

from dataclasses import field

from light_dataclasses import dataclass


@dataclass(slots=True)
class Changes:
    """The changes that the next checkpoint has to note, besides sessions.

    Attributes:
        ended: numbers of sessions that have ended.
        retained: topics whose retained message has changed.
        wills: numbers of wills that are new or ended.

    """

    ended: list[int] = field(default_factory=list)
    retained: set[str] = field(default_factory=set)
    wills: set[int] = field(default_factory=set)

    def take(self) -> Changes:
        """Return what there is; it is said now."""
        taken = Changes(self.ended, self.retained, self.wills)
        self.ended, self.retained, self.wills = [], set(), set()
        return taken

    def again(self, taken: Changes) -> None:
        """These have still to be said."""
        self.ended[:0] = taken.ended
        self.retained |= taken.retained
        self.wills |= taken.wills
