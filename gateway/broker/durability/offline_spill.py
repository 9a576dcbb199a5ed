"""Finds what sessions still wait for in the part of the log that goes next.

The log's size is bounded, and everybody's messages stand in it. So that one user's do not cost
another those that were acknowledged and wait for a client that is away, they are put by with the
checkpoint before the log lets them go, within a share of each user.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from gateway.broker.durability.history import History, LogToTrim
from gateway.broker.durability.slices import others, slice_ends_s
from gateway.broker.hooks import Owner
from gateway.broker.limits import Limits
from gateway.broker.sessions.places import Places
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Entry, Epoch
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals

AHEAD_BYTES: Final = 16 << 20
"""The log grows by less between two checkpoints; where it grows by more, it goes later."""

WantedOfOrigins = dict[Epoch, dict[str, Intervals]]
"""Numbers that wait, by stream and by whose sessions."""


@dataclass(frozen=True, slots=True)
class SpillCandidates:
    """The messages that sessions wait for, and those that leave the log, at one moment.

    Attributes:
        places: what waits in the log, by whose sessions.
        going: what goes.
        user_bytes, all_bytes: what may be put by, for one user and for all.

    """

    places: list[tuple[Owner, Places]]
    going: LogToTrim
    user_bytes: int
    all_bytes: int

    def wanted(self) -> WantedOfOrigins:
        """Return all that waits; for a thread, for it may be much."""
        found: WantedOfOrigins = defaultdict(lambda: defaultdict(Intervals))
        for owner, places in self.places:
            of = label(owner)
            for run in places.runs():
                found[run.way[0]][of].add(run.first, run.last)
        return found

    def messages(self, key: Epoch, wanted: Intervals) -> Iterator[tuple[int, Entry]]:
        """Yield the messages of a stream that go and are wanted; of a batch that is damaged, none.

        Raises:
            OSError: the log can't be read.

        """
        for frame, header in self.going.read(key, wanted):
            if header.passed:
                continue
            try:
                entries = batch.decode(frame, header)
            except BatchError:
                continue  # who reads it when its turn comes tells of it
            for number, entry in enumerate(entries, header.first):
                if number in wanted:
                    yield number, entry


class OfflineSpill:
    """Puts what waits for clients by before the log lets it go, with each checkpoint.

    Args:
        sessions: those of the broker.
        history: its log.
        limits: how much is put by.

    Attributes:
        behind: before this position the log may let go of what waits.
        sessions: as given.

    """

    def __init__(self, sessions: Sessions, history: History, limits: Limits) -> None:
        self.behind = 0
        self.sessions = sessions
        self._history = history
        self._limits = limits
        self._ahead: dict[Session, tuple[int, int, list[Places]]] = {}
        """The places that waited for sessions when `prepare` looked."""

    async def prepare(self, *, has_any: bool) -> None:
        """Find out ahead, over many turns, who waits for what; see `look`."""
        self._ahead = {}
        until_s = slice_ends_s()
        if not has_any and not len(self._history.goes_next(self.behind, AHEAD_BYTES)):
            return
        for session in list(self.sessions.values()):
            backlog = session.outgoing.backlog
            if backlog.count:
                self._ahead[session] = backlog.taken, backlog.count, backlog.places()
            until_s = await others(until_s)

    def _places(self, session: Session) -> list[Places]:
        backlog, found = session.outgoing.backlog, self._ahead.get(session)
        if found is not None and found[:2] == (backlog.taken, backlog.count):
            return found[2]  # as they were: what waits is only taken, or added
        return backlog.places()

    def look(self, *, has_any: bool) -> SpillCandidates | None:
        """Return what goes next and who waits.

        Args:
            has_any: whether anything is put by, which nobody may wait for any more.

        Returns:
            None where nothing goes and nothing is put by.

        """
        going = self._history.goes_next(self.behind, AHEAD_BYTES)
        if not has_any and not len(going):
            return None
        places = [
            (session.client.owner, item)
            for session in self.sessions.values()
            if session.outgoing.backlog.count
            for item in self._places(session)
        ]
        self._ahead = {}
        limits = self._limits
        return SpillCandidates(places, going, limits.spared_bytes_per_user, limits.spared_bytes)


def label(owner: Owner) -> str:
    """Return a user as the file names him: one by certificate is another than one by name."""
    name, is_proven = owner
    return "" if name is None else f"{'certificate' if is_proven else 'user'}:{name}"
