"""Parts that requests to other gateways are served with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from coap_engine.message import CoapPeer
from gateway.coap.access import Introduction
from gateway.coap.remote.exchange import Executor, RemoteExchange
from light_dataclasses import dataclass
from tree_handler.members.hierarchy import Membership
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.routing.locator import GatewayLocation

DEADLINE_S: Final = 5.0


class RemoteAccess(Protocol):
    """Says who asks, and what that one may do; see `CoapAccess`."""

    def introduction(self, peer: CoapPeer) -> Introduction:
        """Return who a peer is, as another gateway is told."""

    def lets(self, peer: CoapPeer, method: str, path: Sequence[str]) -> bool:
        """Return whether a peer may do that."""

    def tell_of_changes(self, told: Callable[[], None]) -> None:
        """Call this when others may do something."""


class Reach(Protocol):
    """Says which gateways are in reach."""

    def epoch_of(self, gateway_id: str) -> int | None:
        """Return the boot epoch under which a gateway is in reach now; None if it is not."""

    def way_to(self, gateway_id: str) -> GatewayLocation | None:
        """Return how a gateway is reached now; None if it is not."""

    def tell_of_moves(self, told: Callable[[float], None]) -> None:
        """Call this, with the time, after somebody came into reach, left it or is elsewhere."""


@dataclass(frozen=True, slots=True)
class RemoteParts:
    """The parts with which requests for other gateways' resources are served.

    Attributes:
        gateway_id: this gateway; its own record must be in ``members``.
        members: who there is.
        executor: executes a request on this gateway's own resources.
        exchange: asks other gateways.
        access: says who asks, and what that one may do.
        reach: says who is in reach.
        limits: how much is asked and kept.
        deadline_s: how long to wait for another gateway.

    """

    gateway_id: str
    members: Membership
    executor: Executor
    exchange: RemoteExchange
    access: RemoteAccess
    reach: Reach
    limits: QueryLimits = DEFAULT_LIMITS
    deadline_s: float = DEADLINE_S

    def life_of(self, gateway_id: str) -> tuple[str, int]:
        """Return a gateway, and its latest life that is known here."""
        record = self.members.get(gateway_id)
        epoch = 0 if record is None else record.epoch
        return gateway_id, max(epoch, self.reach.epoch_of(gateway_id) or 0)
