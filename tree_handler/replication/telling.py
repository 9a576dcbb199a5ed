"""News for each neighbour of what this gateway has: all once, and then what has changed.

Each stream has the version at which it last changed; a link has the one up to which it was told.
So what was told costs a number for each link. A link keeps the order of what it is sent but for
what goes ahead of batches, and whoever is told merges: a part that comes late says nothing wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over
from tree_handler.replication.actions import SendSummary
from tree_handler.replication.repair import Summary, kept_from

NEVER: Final = -1
"""The version up to which a new link was told."""

_NOTHING = Intervals()


@dataclass(slots=True)
class Telling:
    """A record of what each neighbour was told of this gateway's streams.

    Args:
        have: what this gateway covers, by stream; kept up to date by its owner.
        is_told: whether neighbours are told of a stream.

    Attributes:
        version: grows with each change.
        changed: by stream, the version of its last change; none for those that a start found.
        kept_from: the lowest number that the log still holds, by stream.

    """

    have: Mapping[Epoch, Intervals]
    is_told: Callable[[Epoch], bool]
    version: int = 0
    changed: dict[Epoch, int] = field(default_factory=dict)
    kept_from: dict[Epoch, int] = field(default_factory=dict)
    _told: dict[int, int] = field(default_factory=dict)

    def link_up(self, link: int) -> None:
        """A neighbour is there that was told nothing."""
        self._told[link] = NEVER

    def link_down(self, link: int) -> None:
        """The neighbour is gone."""
        self._told.pop(link, None)

    def has_news_for(self, link: int) -> bool:
        """Return whether a neighbour was not told the latest."""
        return self._told[link] != self.version

    def tell(self, link: int) -> list[SendSummary]:
        """Tell a neighbour what it was not told; with nothing new, that there is none."""
        since, self._told[link] = self._told[link], self.version
        over = epochs_over.all_over(self.have)
        have = self.have.items()
        if since == NEVER:
            rows = ((key, numbers) for key, numbers in have if self.is_told(key))
        else:
            news = {key: None for key, version in self.changed.items() if version > since}
            rows = ((key, self.have[key]) for key in news if key in self.have and self.is_told(key))
            over = (
                (row for row in over if epochs_over.note_of(row[0]) in news) if news else iter(())
            )
        first = self.kept_from
        told = ((key, numbers, first.get(key, 1)) for key, numbers in rows)
        parts = Summary.parts(told, over, completes=since == NEVER)
        return [SendSummary(link, part) for part in parts]

    def has_changed(self, stream: Epoch) -> None:
        """There is more of a stream; those whose work this is on every batch do it themselves."""
        self.version += 1
        self.changed[stream] = self.version

    def trimmed(self, first: Mapping[Epoch, int]) -> None:
        """The log dropped its oldest: the lowest number it still holds, by stream."""
        before, self.kept_from = self.kept_from, dict(first)
        moved = [stream for stream, number in first.items() if before.get(stream, 1) != number]
        if moved:
            self.version += 1
            self.changed |= dict.fromkeys(moved, self.version)

    def forget(self, name: str, streams: list[Epoch]) -> None:
        """These streams of one name are over."""
        for stream in streams:
            self.changed.pop(stream, None)
            self.kept_from.pop(stream, None)
        self.has_changed(epochs_over.note_of(name))

    def kept(self, stream: Epoch) -> Intervals:
        """Return the numbers of a stream that this gateway's log can still send."""
        return kept_from(self.have.get(stream, _NOTHING), self.kept_from.get(stream, 1))
