"""One budget of memory for all that a gateway keeps for others. Pure.

Five eighths of what the process may have, less what a gateway takes that keeps nothing, are for
stores: the estimates that their limits count can be below what the kernel counts, and turns,
threads and caches take the rest. Where all limits of the configuration together are more, each of
them is taken in the same proportion, those of single users included; so whoever configures one
store larger gives it a larger share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coap_engine.limits import EngineLimits
from coap_engine.share import Quota
from gateway.broker.limits import Limits
from gateway.coap.limits import held_bytes_least
from light_dataclasses import dataclass
from resource_directory.registry import RegistryLimits

BASE_BYTES: Final = 80 << 20
"""The memory of a gateway that keeps nothing, about."""
SHARE: Final = 5 / 8
LEAST: Final = 1 / 16
"""No limit is a smaller part of its configured value: below that a gateway is of no use."""
_STORES: Final = (
    *("subscriptions_bytes", "retained_bytes", "all_wills_bytes", "all_buffers_bytes"),
    "all_queues_bytes",
)
_OF_ONE: Final = (
    *("subscriptions_bytes_per_user", "retained_bytes_per_user", "retained_bytes_per_gateway"),
    "queue_bytes",
)
"""The limits of those for one user, gateway or session."""
SESSION_BYTES: Final = 5 << 10
"""The memory of a session with neither subscriptions nor messages: 4.3 KiB as measured, with its
entry in the journal."""
_COUNTS: Final = (
    *("sessions", "sessions_per_user"),
    *("retained_tombstones", "retained_tombstones_per_gateway", "retained_tombstones_per_user"),
)
"""The limits by the piece, each of which takes memory."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The limits of what a gateway keeps for others.

    Attributes:
        broker: sessions, what waits for them and what is retained.
        directory: registrations.
        coap: bodies.

    """

    broker: Limits
    directory: RegistryLimits
    coap: EngineLimits

    @property
    def size_bytes(self) -> int:
        """Return what all may take together."""
        places = self.broker.all_queues_bytes // 4
        bodies = self.coap.shares.held_bytes.everybody
        stores: int = sum(getattr(self.broker, name) for name in _STORES)
        sessions = self.broker.sessions * SESSION_BYTES
        return stores + places + sessions + self.directory.size + bodies

    def scaled(self, part: float) -> StoreLimits:
        """Return so large a part of each limit that counts bytes, sessions or deletions."""
        broker = {name: _of(getattr(self.broker, name), part) for name in _STORES}
        for name in _OF_ONE:
            broker[name] = _of_one(getattr(self.broker, name), part, self.broker.packet_bytes)
        broker |= {name: _of(getattr(self.broker, name), part) for name in _COUNTS}
        directory, coap = self.directory, self.coap
        least = held_bytes_least(coap.bodies.body_bytes)
        bodies = _of_quota(coap.shares.held_bytes, part, least)
        return StoreLimits(
            replace(self.broker, **broker),
            replace(
                directory,
                size=_of(directory.size, part),
                size_per_owner=_of(directory.size_per_owner, part),
                size_per_registration=_of(directory.size_per_registration, part),
            ),
            replace(coap, shares=replace(coap.shares, held_bytes=bodies)),
        )


def fitting(part_of: StoreLimits, memory_bytes: int) -> tuple[StoreLimits, float]:
    """Return the limits for a process that may have so much memory, and which part they are.

    Args:
        part_of: the limits of the configuration, which are never exceeded.
        memory_bytes: that the process may have.

    """
    room = int(memory_bytes * SHARE) - BASE_BYTES
    part = min(1.0, max(LEAST, room / max(1, part_of.size_bytes)))
    return (part_of, 1.0) if part == 1.0 else (part_of.scaled(part), part)


def _of(size_bytes: int, part: float) -> int:
    return max(1, int(size_bytes * part)) if size_bytes else 0


def _of_one(size_bytes: int, part: float, least: int) -> int:
    """Return a part of a size, in which what was ever of use to one still fits: a message, or a
    body."""
    return min(size_bytes, max(least, _of(size_bytes, part)))


def _of_quota(quota: Quota, part: float, least: int) -> Quota:
    """Return a part of each of a quota's sizes, but what one peer needs is left to everybody."""
    names = ("host", "strangers", "principal", "everybody")
    sizes = {name: _of_one(getattr(quota, name), part, least) for name in names}
    return replace(quota, **sizes)
