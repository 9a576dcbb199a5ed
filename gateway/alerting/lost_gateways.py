"""Gateways that the tree has lost, and who is to tell of each of them. Pure.

A lost gateway is told of by the one that would be its parent now, by the hierarchy without those
that are lost: so by one alone, and by the substitute if a head dies. Whoever has told of one says
so to the others: it goes on though another one would be the parent by now, as a head that is back,
and they leave it alone while it is there and in the same life. Which alert hides which is another
question: who is above whom when all are there.

The root takes a gateway out of the fleet's records minutes after it was lost. That is no return:
it is lost until its record is back and the tree reaches it, or until somebody says that it will not
come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Entry, Header
from tree_handler.members.absence import AbsenceNotice
from tree_handler.members.hierarchy import Hierarchy, Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place

MAX_LOST: Final = 4_096
"""Lost gateways that are remembered; of more the one that was lost first is forgotten. Likewise
words of who has told of them."""
TOLD_TOPIC: Final = "$hedgerow/told/"
"""Of a lost gateway: whoever says this has told of it. The payload is an `AbsenceNotice`."""


@dataclass(frozen=True, slots=True)
class FleetLook:
    """The fleet, as a gateway sees it; those that see the same tree see the same.

    Attributes:
        sites: where each stands that is known, lost or not.
        above: of each gateway, the one above it when all are there; empty while none is lost.
        lost: ids of those that the tree has lost.
        told_by: who is to tell of each of them; those that left by a drain are not told of.
        forgotten: ids of those that will not come back.
        have_told: who has told of lost ones, is there, and goes on.

    """

    sites: Mapping[str, str] = field(default_factory=dict)
    above: Mapping[str, str | None] = field(default_factory=dict)
    lost: Collection[str] = frozenset()
    told_by: Mapping[str, str | None] = field(default_factory=dict)
    forgotten: Collection[str] = frozenset()
    have_told: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Word:
    """Somebody has told of a lost gateway.

    Attributes:
        teller: who.
        epoch: in which life of its own.
        mark: of the last record of the lost one.

    """

    teller: str
    epoch: int
    mark: tuple[int, int]


class LostGateways:
    """Follows which members are lost.

    Args:
        members: all that this gateway knows.

    """

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._last: FleetLook | None = None
        self._suspects: frozenset[str] = frozenset()
        self._records: dict[str, MemberRecord] = {}
        """Of those that were suspects, as they were last known."""
        self._words: dict[str, _Word] = {}
        members.listen(self._changed)
        self._changed()

    def _changed(self) -> None:
        self._last = None
        suspects = self._members.suspects
        for one in suspects - self._suspects:
            if (record := self._members.get(one)) is not None:
                self._records.pop(one, None)
                self._records[one] = record
        self._suspects = suspects
        while len(self._records) > MAX_LOST:
            del self._records[next(iter(self._records))]

    def receive(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; other topics are not this module's.

        Raises:
            ProtocolError: it names no gateway.

        """
        if entry.topic.startswith(TOLD_TOPIC):
            self._hear(AbsenceNotice.decode(entry.payload), header.origin, header.epoch)

    def to_say(self, lost: Iterable[str], teller: str, epoch: int) -> list[Entry]:
        """Return what a gateway that has told of lost ones has not said of it yet.

        Args:
            lost: of which its alerts stand.
            teller: its id.
            epoch: its life.

        """
        entries: list[Entry] = []
        for one in lost:
            record = self._records.get(one)
            if record is None:
                continue
            word = _Word(teller, epoch, (record.epoch, record.version))
            if self._words.get(one) != word:
                notice = AbsenceNotice.of(record)
                self._hear(notice, teller, epoch)
                entries.append(Entry(TOLD_TOPIC + one, notice.encode(), qos=1))
        return entries

    def _hear(self, notice: AbsenceNotice, teller: str, epoch: int) -> None:
        self._words.pop(notice.id, None)
        self._words[notice.id] = _Word(teller, epoch, notice.mark)
        while len(self._words) > MAX_LOST:
            del self._words[next(iter(self._words))]
        self._last = None

    def look(self) -> FleetLook:
        """Return how it stands now; it costs something only after a change."""
        if self._last is None:
            self._last = self._looked()
        return self._last

    def _looked(self) -> FleetLook:
        members, suspects = self._members, self._members.suspects
        forgotten = members.forgotten
        for one in self._records.keys() & forgotten:
            del self._records[one]
        for one in list(self._records):
            record = members.get(one)
            if record is not None:
                self._records[one] = record
                if one not in suspects:
                    del self._records[one]
        gone = [record for one, record in self._records.items() if one not in members]
        known = [*members, *gone]
        sites = {one.id: site_of(one.place) for one in known}
        if not self._records:
            return FleetLook(sites, forgotten=forgotten)
        lost = frozenset(self._records)
        now = Hierarchy.of(known, lost) if gone else members.hierarchy()
        have_told = {
            one: word.teller
            for one in lost
            if (word := self._words.get(one)) is not None and self._goes_on(one, word)
        }
        told_by = {
            one: have_told.get(one, now.parents.get(one))
            for one, record in sorted(self._records.items())
            if not record.draining
        }
        above = Hierarchy.of(known).parents
        return FleetLook(sites, above, lost, told_by, forgotten, have_told)

    def _goes_on(self, lost: str, word: _Word) -> bool:
        """Return whether who has told of a gateway is there, and of this loss of it."""
        teller, record = self._members.get(word.teller), self._records[lost]
        is_there = teller is not None and teller.id not in self._records
        is_same_life = teller is not None and teller.epoch == word.epoch
        return is_there and is_same_life and word.mark == (record.epoch, record.version)


def site_of(place: Place) -> str:
    """Return a place as alerts have it: ``DOMAIN/GROUP``; empty for none."""
    return f"{place.domain}/{place.group}" if place.domain else ""
