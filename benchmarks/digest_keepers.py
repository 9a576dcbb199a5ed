"""The keepers of each directory's digest: the head and the substitute of each scope.

They follow from the hierarchy that runs in production. A group's keepers are its head and who would
head it without that one; so are a domain's and the fleet's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tree_handler.members.hierarchy import Hierarchy, Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place

Scope = tuple[str, str]
"""Domain and group; `WHOLE`, ``(domain, "")`` or ``(domain, group)``."""
WHOLE: Final[Scope] = ("", "")


def scopes_of(place: Place) -> list[Scope]:
    """Return the scopes that a gateway is in, the narrowest first."""
    found = [(place.domain, place.group)] if place.group else []
    return [*found, *([(place.domain, "")] if place.domain else []), WHOLE]


@dataclass(frozen=True, slots=True)
class Keepers:
    """Head and substitute of each scope, as one gateway sees them.

    Attributes:
        of_scope: the head, and behind it the substitute if there is one.

    """

    of_scope: dict[Scope, tuple[str, ...]]

    @classmethod
    def seen_by(cls, members: Membership) -> Keepers:
        """Return those of the hierarchy of a membership."""
        hierarchy = members.hierarchy()
        within: dict[Scope, list[MemberRecord]] = {}
        for record in members:
            if record.capability > 0 and record.id not in members.suspects:
                for scope in scopes_of(record.place):
                    within.setdefault(scope, []).append(record)
        heads: dict[Scope, str] = dict(hierarchy.group_heads)
        heads.update({(domain, ""): head for domain, head in hierarchy.domain_heads.items()})
        if hierarchy.root is not None:
            heads[WHOLE] = hierarchy.root
        return cls(
            {
                scope: (head, *_next_to(head, within[scope], hierarchy))
                for scope, head in heads.items()
            }
        )

    def above(self, place: Place) -> list[tuple[str, ...]]:
        """Return the keepers of each scope that a gateway of a place is in, the narrowest first."""
        return [self.of_scope.get(scope, ()) for scope in scopes_of(place)]

    def fed_by(self, gateway_id: str, origin: MemberRecord) -> set[str]:
        """Return those that a gateway passes the digest of another one on to, or its own.

        The origin tells the keepers of its narrowest scope; the head of a scope those of the next.
        Nobody is told twice.
        """
        levels = self.above(origin.place)
        told: set[str] = {origin.id}
        found: set[str] = set()
        is_his = gateway_id == origin.id
        for keepers in levels:
            if is_his:
                found.update(set(keepers) - told)
            told.update(keepers)
            is_his = bool(keepers) and keepers[0] == gateway_id
        return found - {gateway_id}


def _next_to(head: str, scope: Iterable[MemberRecord], hierarchy: Hierarchy) -> tuple[str, ...]:
    """Return the next head of a scope: the one for whom nobody else of it comes first."""
    of_scope = {record.id for record in scope}
    for one in sorted(of_scope - {head}):
        if hierarchy.parents[one] == head:
            others = hierarchy.substitutes(one, 1)
            if not others or others[0] not in of_scope:
                return (one,)
    return ()
