"""Report of what the broker holds and has passed on: ``$SYS`` and the metrics tell it."""

from __future__ import annotations

from typing import Any

from gateway.broker.data_plane import DataPlane
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """QoS 1 and 2 messages on their way to clients; one for several clients counts for each."""

    queued_messages: int
    queued_bytes: int
    inflight_messages: int
    inflight_bytes: int


def waiting(core: DataPlane) -> QueueTotals:
    """Look at every session."""
    queued = queued_bytes = inflight = inflight_bytes = 0
    for session in core.sessions.values():
        outgoing = session.outgoing
        queued += outgoing.backlog.count
        queued_bytes += outgoing.backlog.size_bytes + outgoing.backlog.places_bytes
        inflight += len(outgoing.inflight)
        inflight_bytes += outgoing.inflight_bytes
    return QueueTotals(queued, queued_bytes, inflight, inflight_bytes)


def use_of_limits(core: DataPlane) -> dict[str, int]:
    """Return how much there is of what all clients share, by the limit's name in `Limits`."""
    return {
        "connections": len(core.connections),
        "sessions": len(core.sessions),
        "subscriptions_bytes": core.subscriptions.bytes_held,
        "retained_messages": len(core.retention),
        "retained_bytes": core.retention.bytes_held,
        "retained_tombstones": core.retention.versions.tombstones,
        "all_queues_bytes": core.budget.used_bytes,
        "all_wills_bytes": core.wills.bytes_held,
        "all_unreleased_messages": core.budget.unreleased,
        "all_buffers_bytes": core.upkeep.buffers_bytes,
        "uncommitted_bytes": core.commit_queue.waiting_bytes,
    }


def report(core: DataPlane) -> dict[str, Any]:
    """Return the broker's part of a gateway's status, ready for JSON."""
    traffic, now = core.traffic, waiting(core)
    return {
        "clients": {
            "connected": core.sessions.connected,
            "disconnected": core.sessions.offline_count,
            "maximum": core.sessions.connected_max,
            "expired": core.sessions.expired,
        },
        "messages": {
            "received": traffic.published,
            "sent": traffic.delivered,
            "dropped": core.dropped,
            "queued": now.queued_messages,
            "inflight": now.inflight_messages,
            "retained": len(core.retention),
        },
        "bytes": {"received": traffic.bytes_read, "sent": traffic.bytes_sent},
        "subscriptions": len(core.subscriptions),
        "acknowledgement_delays": core.commit_queue.delays.as_json(core.now()),
        "limits": {
            name: {"used": used, "limit": getattr(core.limits, name)}
            for name, used in use_of_limits(core).items()
        },
        "refusals": dict(core.refusals.counts),
    }
