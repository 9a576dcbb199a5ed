"""A look-up in many directories that is observed: where to subscribe, what is told (sans-I/O).

Each gateway that may have something of it tells of its part by a subscription. What one said last
stands, marked with its age, while it is silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from gateway.coap.fleet_directory.kept import STALE_S
from gateway.coap.fleet_directory.partial import partial_link
from gateway.coap.fleet_directory.search import UriOfMember
from gateway.coap.fleet_directory.targets import FEWER_LINKS, PAGE_LINKS, LookedUp, serving
from light_dataclasses import dataclass
from resource_directory.link_format import WebLink
from tree_handler.members.member import MemberRecord

GATEWAYS_MAX: Final = 64
"""Subscriptions of one look-up; what other gateways have is missing."""


@dataclass(slots=True)
class _Part:
    """The part of a look-up that one gateway has answered."""

    record: MemberRecord
    links: Sequence[WebLink] = ()
    is_told: bool = field(default=False)
    count: int = field(default=PAGE_LINKS)
    """So many links it is asked for."""
    silent_since: float | None = None


class ObservedLookUp:
    """One of them.

    Args:
        looked_up: what, for whom.
        way_to: what paths of a gateway begin with where it is observed.

    """

    def __init__(self, looked_up: LookedUp, way_to: UriOfMember) -> None:
        self.looked_up = looked_up
        self._way_to = way_to
        self._parts: dict[str, _Part] = {}
        self._left_out: list[str] = []

    def follow(self, targets: Sequence[MemberRecord]) -> tuple[list[MemberRecord], list[str]]:
        """These may have something of it now.

        Returns:
            Where to subscribe, and ids of those where a subscription is to be ended.

        """
        by_id = {record.id: record for record in targets}
        gone = [name for name in self._parts if name not in by_id]
        for name in gone:
            del self._parts[name]
        new, self._left_out = list[MemberRecord](), []
        for name, record in by_id.items():
            part = self._parts.get(name)
            if part is not None:
                part.record = record
            elif len(self._parts) < GATEWAYS_MAX:
                self._parts[name] = _Part(record)
                new.append(record)
            else:
                self._left_out.append(name)
        return new, gone

    def told(self, gateway_id: str, links: Sequence[WebLink] | None, now: float) -> None:
        """Take what one has now; None where it is silent from now on."""
        part = self._parts.get(gateway_id)
        if part is None:
            return
        part.is_told = True
        if links is not None:
            part.links, part.silent_since = links, None
        elif part.silent_since is None:
            part.silent_since = now

    def count_of(self, gateway_id: str) -> int:
        """Return how many links a gateway is asked for."""
        return self._parts[gateway_id].count

    def too_long(self, gateway_id: str) -> bool:
        """Note that so many do not fit between gateways; return whether to ask for fewer."""
        part = self._parts.get(gateway_id)
        fewer = None if part is None else FEWER_LINKS.get(part.count)
        if part is None or fewer is None:
            return False
        part.count = fewer
        return True

    @property
    def silent(self) -> list[MemberRecord]:
        """Those where to subscribe again when they are in reach."""
        return [one.record for one in self._parts.values() if one.silent_since is not None]

    @property
    def is_whole(self) -> bool:
        """Return whether all have told something, or that they can't."""
        return all(part.is_told for part in self._parts.values())

    def links(self, now: float) -> list[WebLink]:
        """Return what it finds now."""
        found, missing = list[WebLink](), list(self._left_out)
        for name, part in sorted(self._parts.items()):
            age_s = None if part.silent_since is None else int(now - part.silent_since)
            is_known = part.links and (age_s is None or age_s < STALE_S)
            if is_known:
                served = serving(part.record, self._way_to(part.record))
                found += [served.located(link, age_s) for link in part.links]
            if len(part.links) >= part.count or (age_s is not None and not is_known):
                missing.append(name)
        return [*found, *partial_link(self.looked_up.path, missing)]
