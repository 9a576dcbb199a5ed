"""Targets of a look-up: whose directories it is about, and what each of them is asked."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from light_dataclasses import dataclass
from resource_directory.digest import may_have
from resource_directory.exchange import LINK_FORMAT
from resource_directory.link_format import LinkFormatError, WebLink, parse
from resource_directory.scoped import LookUpScope, ScopedQuery, ServingGateway
from tree_handler.members.hierarchy import ANY, Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

PAGE_LINKS: Final = 200
"""Links that a gateway is asked for at one time ..."""
FEWER_LINKS: Final = {PAGE_LINKS: 40, 40: 8, 8: 1}
"""... and the next number, where so many do not fit into an answer between gateways (64 KiB)."""
_CLIENT_ERROR: Final = 4
_FAILED: Final = 5 << 5


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A look-up in the directories of other gateways, and its asker.

    Attributes:
        path: of the look-up: of endpoints or of resources.
        query: whose directories, and what for.
        asker: who asks; what one may read is not told another.

    """

    path: tuple[str, ...]
    query: ScopedQuery
    asker: Hashable

    def key(self, gateway_id: str) -> Hashable:
        """Return the key under which the answer of a gateway is kept."""
        return gateway_id, self.path, self.query.asked, self.asker

    def request(
        self,
        page: int,
        identity: str | None = None,
        roles: tuple[str, ...] = (),
        *,
        count: int = PAGE_LINKS,
    ) -> ResourceRequest:
        """Return what a gateway is asked.

        Args:
            page: which part of its answer.
            identity: who asks, as other gateways are told.
            roles: theirs.
            count: links of a part.

        """
        query = (*self.query.asked, f"count={count}", f"page={page}")
        return ResourceRequest("GET", self.path, query, None, LINK_FORMAT, b"", identity, roles)


def targets(members: Membership, gateway_id: str, query: ScopedQuery) -> list[MemberRecord]:
    """Return the gateways that a look-up is about and that may have something of it, by id.

    Args:
        members: who there is.
        gateway_id: the one that was asked.
        query: the look-up.

    Raises:
        ProtocolError: a name in it is none.

    """
    own = members.get(gateway_id)
    place = Place() if own is None else own.place
    node = query.gateway or ANY
    if query.scope is LookUpScope.OWN and node == ANY:
        node = gateway_id
    narrow = query.scope in (LookUpScope.DOMAIN, LookUpScope.GROUP)
    return [
        record
        for record in members.find(query.domain or ANY, query.group or ANY, node)
        if (not narrow or record.domain == place.domain)
        and (query.scope is not LookUpScope.GROUP or record.group == place.group)
        and record.capability > 0
        and all(may_have(record.offers, criterion) for criterion in query.criteria)
    ]


def links_of(response: ResourceResponse) -> list[WebLink] | None:
    """Return what a gateway answered; None if that is no answer to a look-up.

    Where its policy does not let them read there, it has nothing for them.
    """
    if response.is_success:
        try:
            return parse(response.payload)
        except LinkFormatError:
            return None
    return [] if response.code >> 5 == _CLIENT_ERROR else None


def is_too_long(response: ResourceResponse) -> bool:
    """Return whether an answer may have been more than fits between gateways: 5.00 says so."""
    return response.code == _FAILED


def serving(record: MemberRecord, way: str) -> ServingGateway:
    """Return a gateway as links of its directory are told of at another one.

    Args:
        record: its own.
        way: what its paths begin with there; empty at itself.

    """
    ports = (("coap", record.coap_port), ("coaps", record.coaps_port))
    return ServingGateway(record.id, way, record.address, ports)
