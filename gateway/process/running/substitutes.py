"""Dials another gateway of the fleet in place of configured neighbours that are gone (A2).

Whom, and when, `tree_handler.members.substitution` decides; here it is told of links and of the
tree, and what a member says of its address is held to what may be dialled.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Sequence
from typing import ClassVar, Final

from gateway.base.printable import said
from gateway.node.links.neighbours import Neighbours
from gateway.node.links.node import TreeNode
from gateway.node.links.tcp import TcpAddress
from gateway.process.configuration.addresses import look_up
from gateway.process.configuration.config import TreeSection
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import is_host_name, may_be_dialled
from tree_handler.members.substitution import (
    CANDIDATES_MAX,
    DialSubstitute,
    Substitute,
    SubstituteAction,
    SubstituteTimes,
    Substitution,
    WaysHome,
    best_first,
)
from tree_handler.rate_limit import RateLimit

SETTLE_S: Final = 0.05
"""Changes within this time are looked at together."""
LOOK_S: Final = 5.0
"""So often it looks where it is told of no change: a neighbour may have dialled this one itself."""
LINES_PER_S, LINES_AT_ONCE = 1 / 60, 3
"""A fleet that is gone for good is tried for good."""

_log = logging.getLogger(__name__)


class SubstitutePart:
    """A `Part` without messages of its own on links.

    Args:
        node: this gateway's.
        members: the gateways of the fleet.
        neighbours: dials.
        tree: the configuration's section.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(
        self, node: TreeNode, members: Membership, neighbours: Neighbours, tree: TreeSection
    ) -> None:
        self._node = node
        self._members = members
        self._neighbours = neighbours
        self._own_id = node.tree.identity.gateway_id
        self._is_plain = tree.tls == "off"
        after_s = min(tree.substitute_after_s, tree.member_timeout_s / 2)
        self._core = Substitution(SubstituteTimes(after_s, home_s=after_s))
        self._is_on = after_s > 0
        self._own: TcpAddress | None = None
        self._look_at_s = math.inf
        self._dialled: TcpAddress | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._jitter = random.Random()
        self._lines = RateLimit(LINES_PER_S, LINES_AT_ONCE)

    def begin(self, own: TcpAddress) -> None:
        """Look from now on.

        Args:
            own: where this gateway takes links itself.

        """
        self._own = own
        if self._is_on:
            self._look_at_s = 0.0
            self._node.reschedule()

    async def stop(self) -> None:
        """Dial nobody any more."""
        self._own, self._look_at_s = None, math.inf
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Look soon whether a substitute is needed."""
        self._soon(now)

    def link_down(self, link: int, now: float) -> None:
        """Look soon whether a substitute is needed."""
        self._soon(now)

    def tree_changed(self, now: float) -> None:
        """Look soon whether a substitute is needed."""
        self._soon(now)

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Do nothing: nothing comes, as the part has no topic."""

    def next_timer(self) -> float:
        """Return when to look again; infinity before neighbours are known."""
        return min(self._look_at_s, self._core.next_timer()) if self._own else math.inf

    def handle_timer(self, now: float) -> None:
        """Dial a substitute, or leave one, as the links are now."""
        if self._own is None or now < self.next_timer():
            return
        self._look_at_s = now + LOOK_S
        links = {link.peer_id for link in self._node.links.values()}
        seen = WaysHome(self._neighbours.has_static_link, links, self._node.locator.reached)
        for action in self._core.look(seen, self._candidates, now, self._jitter.random()):
            self._do(action, now)

    def _soon(self, now: float) -> None:
        if self._own is not None and self._is_on:
            self._look_at_s = min(self._look_at_s, now + SETTLE_S)

    def _candidates(self) -> Sequence[Substitute]:
        found = list[Substitute]()
        for record in best_first(list(self._members), self._own_id):
            substitute = Substitute(record.id, record.address, self._port_of(record))
            if self._may_be(substitute):
                found.append(substitute)
                if len(found) == CANDIDATES_MAX:
                    break
        return found

    def _port_of(self, record: MemberRecord) -> int:
        # An earlier version does not say where it takes links; without TLS that is its one port.
        return record.link_port or (record.mqtt_port if self._is_plain else 0)

    def _may_be(self, one: Substitute) -> bool:
        return one.port > 0 and (is_host_name(one.host) or self._is_dialable(one.host, one.port))

    def _is_dialable(self, host: str, port: int) -> bool:
        address = TcpAddress(host, port)
        if self._own is None or address == self._own or self._neighbours.is_static(address):
            return False
        return may_be_dialled(host, self._own.host)

    def _do(self, action: SubstituteAction, now: float) -> None:
        one = action.substitute
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None
        if isinstance(action, DialSubstitute):
            if self._lines.allow("", now):
                _log.warning("no configured neighbour is linked: %s is dialled instead", one.id)
            self._beginning = asyncio.create_task(self._begin(one), name=f"dial {one.id} instead")
        elif self._dialled is not None:
            if one.id in {link.peer_id for link in self._node.links.values()}:
                _log.info("a configured neighbour is back: %s is left", one.id)
            self._neighbours.remove_substitute(self._dialled)
            self._dialled = None

    async def _begin(self, one: Substitute) -> None:
        try:
            hosts = await look_up(one.host) if is_host_name(one.host) else [one.host]
            may = [host for host in hosts if self._is_dialable(host, one.port)]
            if may:
                self._dialled = TcpAddress(may[0], one.port)
                self._neighbours.add_substitute(self._dialled, one.id)
            else:
                _log.info("%s is not dialled: %s is no address for that", one.id, one.host)
        except Exception as error:  # whatever it is, the next one is tried
            _log.info("%s is not dialled: %s: %s", one.id, one.host, said(error))
