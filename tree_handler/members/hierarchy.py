"""Members of the fleet, and the hierarchy that follows from their records (rows A1, A2).

Each gateway publishes one record of itself. `Membership` keeps the newest of each gateway;
`Hierarchy.of` is a pure function of that set. Gateways with the same set compute the same
hierarchy, so no gateway hands it out. Three levels: 0 the root (between domains), 1 a
domain, 2 a group of a domain.

The rule, stated here and nowhere else:

- one order: those not draining first, then the lower level, the higher capability, the lower
  id;
- the first of a group in this order is the head of the group, the first of a domain and its
  groups is the head of the domain, the first of all is the root. So heads nest: a head of a
  domain that belongs to a group is the head of that group too;
- a gateway of capability 0 (a collector) heads nothing, and neither does a suspect: one that
  the tree has lost (`members.suspicion`). Gateways that see the same tree suspect the same;
- a gateway's parent is the head of its group, else of its domain, else the root: the first
  of these that is not itself. Its substitutes are those that would be its parent in turn if
  each one before them were gone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field

from light_dataclasses import dataclass
from tree_handler.members.absence import MAX_BELIEVED, AbsenceNotice
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import NONE, check_name

__all__ = ["Hierarchy", "MemberRecord", "Membership", "is_wildcard"]

ONE = "+"
"""In `Membership.find`: any name, but there must be one."""
ANY = "*"
"""In `Membership.find`: any name, or none."""
MAX_MEMBERS = 100_000
"""Gateways remembered; a record of a new one beyond it is refused and counted."""
MAX_SUBSTITUTES = 8
_NEVER = (-1, -1)

_Group = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Root, heads, parents and children of one set of records.

    Attributes:
        root: id of the root; None if no gateway may be one.
        domain_heads: id of the head, by domain.
        group_heads: id of the head, by (domain, group).
        parents: id of the parent by id; None for the root.
        children: ids of the children by id, in the order of the rule.

    """

    root: str | None
    domain_heads: Mapping[str, str]
    group_heads: Mapping[_Group, str]
    parents: Mapping[str, str | None]
    children: Mapping[str, tuple[str, ...]]
    _records: Mapping[str, MemberRecord]
    _all: list[MemberRecord]
    _domains: Mapping[str, list[MemberRecord]]
    _groups: Mapping[_Group, list[MemberRecord]]
    _suspects: Collection[str]

    @classmethod
    def of(cls, records: Iterable[MemberRecord], suspects: Collection[str] = ()) -> Hierarchy:
        """Compute the hierarchy of a set of records, one for each gateway.

        Args:
            records: of all.
            suspects: ids of those that head nothing now.

        """
        ordered = sorted(records, key=_order)
        heads = [r for r in ordered if r.capability > 0 and r.id not in suspects]
        domains: dict[str, list[MemberRecord]] = {}
        groups: dict[_Group, list[MemberRecord]] = {}
        for record in heads:
            if record.domain:
                domains.setdefault(record.domain, []).append(record)
                if record.group:
                    groups.setdefault((record.domain, record.group), []).append(record)
        children: dict[str, tuple[str, ...]] = {record.id: () for record in ordered}
        parents: dict[str, str | None] = {}
        hierarchy = cls(
            root=heads[0].id if heads else None,
            domain_heads={domain: pool[0].id for domain, pool in domains.items()},
            group_heads={group: pool[0].id for group, pool in groups.items()},
            parents=parents,
            children=children,
            _records={record.id: record for record in ordered},
            _all=heads,
            _domains=domains,
            _groups=groups,
            _suspects=suspects,
        )
        found: dict[str, list[str]] = {}
        for record in ordered:
            parents[record.id] = parent = next(hierarchy._above(record), None)
            if parent is not None:
                found.setdefault(parent, []).append(record.id)
        children.update({parent: tuple(ids) for parent, ids in found.items()})
        return hierarchy

    def substitutes(self, gateway_id: str, limit: int = MAX_SUBSTITUTES) -> tuple[str, ...]:
        """Return who takes the place of a gateway's parent, best first.

        Raises:
            KeyError: no such gateway.

        """
        return tuple(itertools.islice(self._above(self._records[gateway_id]), 1, 1 + limit))

    def turned_to(self, gateway_id: str) -> Iterator[str]:
        """Give all other gateways: the parent, its substitutes, then the others by the rule.

        Raises:
            KeyError: no such gateway.

        """
        first = dict.fromkeys(self._above(self._records[gateway_id]))
        yield from first
        for other in self._records:  # they stand in the order of the rule
            if other not in first and other != gateway_id:
                yield other

    def _above(self, record: MemberRecord) -> Iterator[str]:
        """Yield the parent, then its substitutes: all that come first in the record's own pools."""
        given: set[str] = set()
        pools = (
            self._groups.get((record.domain, record.group), []),
            self._domains.get(record.domain, []),
            self._all,
        )
        order = _order(record)
        heads_nothing = record.capability == 0 or record.id in self._suspects
        for other in itertools.chain.from_iterable(
            itertools.takewhile(lambda other: heads_nothing or _order(other) < order, pool)
            for pool in pools
        ):
            if other.id not in given:
                given.add(other.id)
                yield other.id


@dataclass(slots=True)
class Membership:
    """The newest record of each gateway; the order in which they come makes no difference.

    Attributes:
        refused: records of new gateways beyond `MAX_MEMBERS`.

    """

    refused: int = 0
    _absent: dict[str, tuple[int, int]] = field(default_factory=dict)
    _records: dict[str, MemberRecord] = field(default_factory=dict)
    _hierarchy: Hierarchy | None = None
    _suspects: frozenset[str] | None = None
    _claimed: dict[str, AbsenceNotice] = field(default_factory=dict)
    _forgotten: dict[str, tuple[int, int]] = field(default_factory=dict)
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    @property
    def absences(self) -> int:
        """Return the number of gateways that are known to be absent."""
        return len(self._absent)

    @property
    def suspects(self) -> frozenset[str]:
        """Ids of those that head nothing, since the tree has lost them."""
        return self._suspects or frozenset()

    @property
    def forgotten(self) -> frozenset[str]:
        """Ids of those that somebody has said will not come back, and that have not.

        It was said of one absence: of one that was there then, and went later, it says nothing.
        """
        return frozenset(
            one
            for one, mark in self._forgotten.items()
            if one not in self._records and self._absent.get(one, mark) == mark
        )

    def listen(self, changed: Callable[[], None]) -> None:
        """Call this after each change of what `hierarchy` follows from."""
        self._listeners.append(changed)

    def suspect(self, suspects: frozenset[str]) -> None:
        """These head nothing from now on, and all others may; see `members.suspicion`."""
        if suspects != self._suspects:
            self._suspects = suspects
            self._changed()
        for gateway_id in self._claimed.keys() & suspects:
            self.is_absent(self._claimed[gateway_id])

    def is_said_absent(self, notice: AbsenceNotice) -> bool:
        """Take another gateway's word for an absence; tell whether it is news and counts.

        Of one that is there, as far as this gateway knows, it counts only when it is suspect: it
        has been told as well, and tells its record anew.
        """
        if self._suspects is None or notice.id in self._suspects or notice.id not in self._records:
            return self.is_absent(notice)
        claimed = self._claimed.get(notice.id)
        is_news = claimed is None or notice.mark > claimed.mark
        if is_news and notice.mark > self._absent.get(notice.id, _NEVER) and self.may_be_so(notice):
            self._claimed[notice.id] = notice
        return False

    def update(self, record: MemberRecord) -> bool:
        """Take a record; tell whether it is news.

        Of two records with the same epoch and version, which no gateway makes, the greater
        bytes win, so that all gateways keep the same one.
        """
        if (record.epoch, record.version) <= self._absent.get(record.id, _NEVER):
            return False
        known = self._records.get(record.id)
        if known is None:
            if len(self._records) >= MAX_MEMBERS:
                self.refused += 1
                return False
        elif (record.epoch, record.version) < (known.epoch, known.version) or (
            (record.epoch, record.version) == (known.epoch, known.version)
            and record.encode() <= known.encode()
        ):
            return False
        self._records[record.id] = record
        if (record.epoch, record.version) > self._forgotten.get(record.id, _NEVER):
            self._forgotten.pop(record.id, None)
        claimed = self._claimed.get(record.id)
        if claimed is not None and (record.epoch, record.version) > claimed.mark:
            # Everywhere else it is void as well, whatever comes first.
            self._absent[record.id] = self._claimed.pop(record.id).mark
        self._changed()
        return True

    def latest_epoch(self, gateway_id: str) -> int:
        """Return the latest life of a gateway of which a record or an absence tells; 0 if none
        does."""
        record, (absent, _) = self._records.get(gateway_id), self._absent.get(gateway_id, _NEVER)
        return absent if record is None else max(record.epoch, absent)

    def replace(self, record: MemberRecord) -> bool:
        """Take a record in the place of what is known of a later life; see `newest_records`."""
        self._records.pop(record.id, None)
        self._absent.pop(record.id, None)
        self._claimed.pop(record.id, None)
        self._forgotten.pop(record.id, None)
        return self.update(record)

    def is_absent(self, notice: AbsenceNotice) -> bool:
        """Drop the records that a notice makes void; tell whether that is news."""
        if notice.mark <= self._absent.get(notice.id, _NEVER) or not self.may_be_so(notice):
            return False
        if notice.id not in self._absent and len(self._absent) >= MAX_MEMBERS:
            self._forget_absence()
        self._absent[notice.id] = notice.mark
        self._claimed.pop(notice.id, None)
        known = self._records.get(notice.id)
        if known is not None and (known.epoch, known.version) <= notice.mark:
            del self._records[notice.id]
            self._changed()
        return True

    def may_be_so(self, notice: AbsenceNotice) -> bool:
        """Return whether there may be the record that a notice tells of."""
        known = self._records.get(notice.id)
        is_here = known is not None and notice.mark <= (known.epoch, known.version)
        return is_here or notice.version <= MAX_BELIEVED

    def absence(self, gateway_id: str) -> AbsenceNotice | None:
        """Return the last absence that is known of a gateway without a record."""
        mark = self._absent.get(gateway_id)
        if mark is None or gateway_id in self._records:
            return None
        return AbsenceNotice(gateway_id, *mark)

    def is_forgotten(self, notice: AbsenceNotice) -> None:
        """Note that a gateway will not come back, once its records are void; one that does, has."""
        known = self._records.get(notice.id)
        is_back = known is not None and (known.epoch, known.version) > notice.mark
        said = self._forgotten.get(notice.id, _NEVER)
        is_of_last_absence = notice.mark == self._absent.get(notice.id)
        if is_back or notice.mark == said or (notice.mark < said and not is_of_last_absence):
            return
        if len(self._forgotten) >= MAX_MEMBERS:
            del self._forgotten[next(iter(self._forgotten))]
        self._forgotten[notice.id] = notice.mark
        self._changed()

    def _forget_absence(self) -> None:
        """Make room for one more: what a newer record has made void goes first, then the oldest.

        Of a gateway that went so long ago an old record comes again at worst, and it is taken out
        again; but one that could not be taken out would stay for good.
        """
        void = (one for one in self._absent if one in self._records)
        del self._absent[next(void, next(iter(self._absent)))]

    def get(self, gateway_id: str) -> MemberRecord | None:
        """Return the newest record of a gateway; None if it has none."""
        return self._records.get(gateway_id)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, gateway_id: object) -> bool:
        return gateway_id in self._records

    def __iter__(self) -> Iterator[MemberRecord]:
        return iter(sorted(self._records.values(), key=lambda record: record.id))

    def find(self, domain: str, group: str, node: str) -> list[MemberRecord]:
        """Return the gateways that a path names, by id.

        Args:
            domain: a name, ``-`` for none, ``+`` for any name, ``*`` for any name or none.
            group: the same.
            node: a gateway id, or ``+`` or ``*`` for all.

        Raises:
            ProtocolError: a segment is none of these; the message names it.

        """
        for what, segment in (("domain", domain), ("group", group), ("gateway", node)):
            if segment not in (ONE, ANY) and (segment != NONE or what == "gateway"):
                check_name(what, segment)
        if node not in (ONE, ANY):
            record = self._records.get(node)
            candidates = [] if record is None else [record]
        else:
            candidates = list(self)
        return [
            record
            for record in candidates
            if _matches(domain, record.domain) and _matches(group, record.group)
        ]

    def hierarchy(self) -> Hierarchy:
        """Return the hierarchy of the records; computed once for each change of the set."""
        if self._hierarchy is None:
            self._hierarchy = Hierarchy.of(self._records.values(), self.suspects)
        return self._hierarchy

    def _changed(self) -> None:
        self._hierarchy = None
        for changed in self._listeners:
            changed()


def is_wildcard(*segments: str) -> bool:
    """Return whether a segment of a path to `Membership.find` may stand for several gateways."""
    return ONE in segments or ANY in segments


def _order(record: MemberRecord) -> tuple[bool, int, float, str]:
    return (record.draining, record.place.level, -record.capability, record.id)


def _matches(segment: str, name: str) -> bool:
    if segment == ANY:
        return True
    if segment == ONE:
        return name != ""
    return segment == (name or NONE)
