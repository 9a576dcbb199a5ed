"""Which gateways the tree has lost, and who is to tell of each of them. Pure.

A lost gateway is told of by the one that would be its parent now, by the hierarchy without those
that are lost: so by one alone, by the substitute if a head dies, and without a message between
them. Which alert hides which is another question: who is above whom when all are there.

The root takes a gateway out of the fleet's records minutes after it was lost. That is no return:
it is lost until its record is back and the tree reaches it, or until somebody says that it will not
come back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.members.hierarchy import Hierarchy, Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place

MAX_LOST: Final = 4_096
"""Lost gateways that are remembered; of more the one that was lost first is forgotten."""


@dataclass(frozen=True, slots=True)
class FleetLook:
    """The fleet, as a gateway sees it; those that see the same tree see the same.

    Attributes:
        sites: where each stands that is known, lost or not.
        above: of each gateway, the one above it when all are there; empty while none is lost.
        lost: ids of those that the tree has lost.
        told_by: who is to tell of each of them; those that left by a drain are not told of.
        forgotten: ids of those that will not come back.

    """

    sites: Mapping[str, str] = field(default_factory=dict)
    above: Mapping[str, str | None] = field(default_factory=dict)
    lost: Collection[str] = frozenset()
    told_by: Mapping[str, str | None] = field(default_factory=dict)
    forgotten: Collection[str] = frozenset()


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
        told_by = {
            one: now.parents.get(one)
            for one, record in sorted(self._records.items())
            if not record.draining
        }
        return FleetLook(sites, Hierarchy.of(known).parents, lost, told_by, forgotten)


def site_of(place: Place) -> str:
    """Return a place as alerts have it: ``DOMAIN/GROUP``; empty for none."""
    return f"{place.domain}/{place.group}" if place.domain else ""
