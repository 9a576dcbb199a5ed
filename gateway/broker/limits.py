"""Limits on what a client of the broker may take.

A limit that is reached never raises into the data path: the thing is refused or dropped, a
counter tells how often, and the log says so now and then (`CountedLines`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.toml.toml_file import LimitRangeError
from light_dataclasses import dataclass

_log = logging.getLogger(__name__)

UNREAD: Final = "QoS 0 message for a client that does not read"
TOO_LARGE: Final = "message over the client's maximum packet size"
NOT_TOLD: Final = "connection closed: an answer over the client's maximum packet size"
NOT_QUEUED: Final = "message dropped: queue full, expired or too large"
NO_LONGER_LOGGED: Final = "message dropped: the log no longer has it"
NOT_READ: Final = "queue held up: the log can't be read now"
DROPS = (UNREAD, TOO_LARGE, NOT_QUEUED, NO_LONGER_LOGGED)
"""The reasons by which messages that do not reach a subscriber are counted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The broker's limits; sizes in bytes, times in seconds."""

    connections: int = 1_000
    """Of them one in 32 is for operators, and for those who have not said yet who they are."""
    connections_per_address: int = 1_000
    connections_per_user: int = 800
    """Clients of one user that are connected; of all without a user name as well."""
    unaccepted_per_address: int = 100
    """Connections of one address (IPv6: of a /64) that have not been accepted yet; with more the
    oldest of them is closed."""
    connects_per_s: int = 2_000
    """New connections in a second; more are closed at once."""
    connect_s: float = 10.0
    """A connection that has not been accepted by then is closed; the hand-shakes of TLS and
    websockets are within it."""
    failures_at_once: int = 10
    """Failed authentications of one address; with as many it has to wait."""
    failures_per_s: float = 0.1
    """So many of them are forgiven in a second."""
    connects_per_minute_of_client: int = 600
    """A client that is accepted more often is held back, until it comes less often."""
    received_bytes_per_s_per_user: int = 0
    """A user's clients are not read from beyond it, all together; 0 for any."""
    connect_bytes: int = 128 * 1024
    """A larger packet is refused until the client is accepted."""
    request_bytes: int = 64 * 1024
    """A larger packet that is neither PUBLISH nor (UN)SUBSCRIBE is refused from then on."""
    packet_bytes: int = (1 << 20) + (1 << 17)
    """At least 129: shorter packets are not looked at."""
    payload_bytes: int = 1 << 20
    topic_bytes: int = 4_096
    topic_levels: int = 64
    sessions: int = 10_000
    sessions_per_user: int = 5_000
    """Of all clients without a user name as well."""
    session_expiry_s: int = 7 * 24 * 3600
    """A session is kept at most so long after its client has gone."""
    subscriptions_per_session: int = 1_000
    """Of one session, and of one SUBSCRIBE or UNSUBSCRIBE."""
    subscriptions_bytes: int = 64 << 20
    """Memory of all subscriptions, as estimated."""
    subscriptions_bytes_per_user: int = 48 << 20
    """Of one user's, as if none of their levels were shared with another's."""
    retained_messages: int = 100_000
    retained_bytes: int = 64 << 20
    """Of all retained messages, their topics and index."""
    retained_messages_per_user: int = 50_000
    """The most messages that a user's clients have retained here since the start."""
    retained_bytes_per_user: int = 32 << 20
    retained_messages_per_gateway: int = 75_000
    """The most that came into the tree by one gateway, this one or another."""
    retained_bytes_per_gateway: int = 48 << 20
    retained_tombstones: int = 100_000
    """Deleted topics that are remembered, so that no older message brings them back."""
    retained_tombstones_per_user: int = 50_000
    """Deleted by a user's clients here since the start; beyond it they delete what is retained, and
    have nothing new retained."""
    retained_tombstones_per_gateway: int = 75_000
    """Deleted by way of one gateway; beyond it its own oldest are forgotten."""
    retained_tombstone_s: float = 7 * 24 * 3600.0
    """So long; a gateway that was away for longer may bring back what was deleted."""
    all_wills_bytes: int = 16 << 20
    inflight_messages: int = 1_000
    """QoS 1 and 2 messages on their way to one client; a 5.0 client may ask for fewer."""
    inflight_bytes: int = 4 << 20
    """Their size in all; one more may begin below it."""
    receive_maximum: int = 1_000
    """QoS 1 and 2 messages that a 5.0 client may have on their way to the broker."""
    unreleased_messages: int = 10_000
    """QoS 2 messages of one session whose PUBREL has not come."""
    all_unreleased_messages: int = 250_000
    """Of all sessions: beyond it no session may begin one that has a hundred."""
    topic_aliases: int = 64
    """Topic aliases in each direction of a connection."""
    queue_messages: int = 1_000_000
    """Waiting for one session; the newest are dropped beyond it. Most wait in the log."""
    queue_bytes: int = 16 << 20
    """Waiting in memory for one session: a few, and what the log does not have. As much again for
    where the others stand in the log."""
    all_queues_bytes: int = 256 << 20
    """Of all sessions; a quarter of it again for places in the log."""
    spared_bytes: int = 128 << 20
    """The most that waits for clients and is put by on the disk before the log lets it go."""
    spared_bytes_per_user: int = 16 << 20
    """Of one user's clients; the oldest first. Beyond it what the log has let go is dropped."""
    held_bytes: int = 1 << 20
    """Kept for a client that does not read: QoS 0 beyond it is dropped, and its own requests
    are no longer read."""
    write_buffer_bytes: int = 1 << 20
    """Written for a client that does not read; beyond it counts as held."""
    all_buffers_bytes: int = 128 << 20
    """The most that all connections have written and held for clients, and read in part. Those
    with the most are closed beyond it."""
    uncommitted_bytes: int = 8 << 20
    """Published and not yet in the log; publishers are not read from beyond it."""
    keep_alive_s: int = 60
    """The longest keep-alive of a 5.0 client that wants one; it is told. 0 for any."""
    decided_topics: int = 10_000
    """Decisions on topics that are remembered for one connection."""
    close_s: float = 5.0
    """A connection being closed that has not read its last bytes by then is aborted."""

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise LimitRangeError(name, value, least, most)


_COUNT = (1, 1_000_000)
_BYTES = (1, 1 << 40)
RANGES: dict[str, tuple[float, float]] = {
    "connections": _COUNT,
    "connections_per_address": _COUNT,
    "connections_per_user": _COUNT,
    "unaccepted_per_address": _COUNT,
    "connects_per_s": _COUNT,
    "connect_s": (0.1, 3600),
    "connects_per_minute_of_client": _COUNT,
    "received_bytes_per_s_per_user": (0, 1 << 40),
    "connect_bytes": (1024, 1 << 28),
    "request_bytes": (1024, 1 << 28),
    "packet_bytes": (129, 1 << 28),
    "payload_bytes": (1, 1 << 28),
    "topic_bytes": (1, 65_535),
    "topic_levels": (1, 1_000),
    "sessions": _COUNT,
    "sessions_per_user": _COUNT,
    "session_expiry_s": (0, 0xFFFF_FFFF),
    "subscriptions_per_session": _COUNT,
    "subscriptions_bytes": _BYTES,
    "subscriptions_bytes_per_user": _BYTES,
    "retained_messages": (0, 100_000_000),
    "retained_bytes": (0, 1 << 40),
    "retained_messages_per_user": (0, 100_000_000),
    "retained_bytes_per_user": (0, 1 << 40),
    "retained_messages_per_gateway": (0, 100_000_000),
    "retained_bytes_per_gateway": (0, 1 << 40),
    "retained_tombstones": (0, 100_000_000),
    "retained_tombstones_per_user": (1, 100_000_000),
    "retained_tombstones_per_gateway": (0, 100_000_000),
    "retained_tombstone_s": (1, 3650 * 24 * 3600),
    "all_wills_bytes": (0, 1 << 40),
    "inflight_messages": (1, 65_535),
    "inflight_bytes": _BYTES,
    "receive_maximum": (1, 65_535),
    "unreleased_messages": (1, 65_535),
    "all_unreleased_messages": (1, 100_000_000),
    "topic_aliases": (0, 65_535),
    "queue_messages": (0, 100_000_000),
    "queue_bytes": (0, 1 << 40),
    "all_queues_bytes": (0, 1 << 40),
    "spared_bytes": (0, 1 << 40),
    "spared_bytes_per_user": (0, 1 << 40),
    "held_bytes": _BYTES,
    "write_buffer_bytes": _BYTES,
    "all_buffers_bytes": _BYTES,
    "uncommitted_bytes": _BYTES,
    "keep_alive_s": (0, 65_535),
    "decided_topics": _COUNT,
    "close_s": (0.1, 3600),
}
"""The least and the most that each may be."""


def counted_refusals(now: Callable[[], float]) -> CountedLines:
    """Return a new account of what clients were refused and what was dropped; ``now`` is in
    seconds."""
    return CountedLines(_log, now)


UNRELEASED_WHEN_CROWDED: Final = 100
"""QoS 2 messages that a session may leave unreleased while all together leave too many."""


class Budget:
    """The memory that all sessions share, and what is used of it.

    Args:
        limits: of each, and of all.

    Attributes:
        limit_bytes: bytes of messages that may wait in memory.
        used_bytes: bytes that do.
        places_bytes: bytes of the places in the log of those that wait there.
        dropped: messages that were dropped for want of room or time, since this was last asked.
        trimmed: messages that waited and that the log no longer has, since then too.
        unread: how often the log could not be read for a queue, since then too.
        unreleased: QoS 2 messages that are not released, as of the last look.

    """

    __slots__ = (
        "dropped",
        "limit_bytes",
        "limits",
        "places_bytes",
        "trimmed",
        "unread",
        "unreleased",
        "used_bytes",
    )

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.limit_bytes = limits.all_queues_bytes
        self.used_bytes = 0
        self.places_bytes = 0
        self.dropped = 0
        self.trimmed = 0
        self.unread = 0
        self.unreleased = 0

    @property
    def places_bytes_max(self) -> int:
        """Bytes that places may take, of all sessions together: messages in memory take none."""
        return self.limit_bytes // 4

    @property
    def unreleased_max(self) -> int:
        """QoS 2 messages that a session may leave unreleased now."""
        limits = self.limits
        if self.unreleased > limits.all_unreleased_messages:
            return min(limits.unreleased_messages, UNRELEASED_WHEN_CROWDED)
        return limits.unreleased_messages
