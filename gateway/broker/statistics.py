"""How much there is of what, and how much has passed: what ``$SYS`` and the metrics tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.server import BrokerCore


@dataclass(frozen=True, slots=True)
class Waiting:
    """QoS 1 and 2 messages on their way to clients; one for several clients counts for each."""

    queued_messages: int
    queued_bytes: int
    inflight_messages: int
    inflight_bytes: int


def waiting(core: BrokerCore) -> Waiting:
    """Look at every session."""
    queued = queued_bytes = inflight = inflight_bytes = 0
    for session in core.sessions.values():
        queued += session.queued_count
        queued_bytes += session.queued_bytes
        inflight += session.inflight_count
        inflight_bytes += session.inflight_bytes
    return Waiting(queued, queued_bytes, inflight, inflight_bytes)
