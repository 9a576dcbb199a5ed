"""Limits on the peers of a DTLS port, and counters of them."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """The limits of handshakes and sessions at one endpoint.

    Attributes:
        half_open: handshakes under way at once.
        half_open_of_host: of one host.
        established: sessions at once, some 70 KiB each.
        handshake_s: a handshake that is not complete by then is given up.
        idle_s: a session without a datagram for so long is closed.

    """

    half_open: int = 64
    half_open_of_host: int = 16
    established: int = 256
    handshake_s: float = 30.0
    idle_s: float = 24 * 3600.0


DEFAULT_LIMITS = EndpointLimits()


@dataclass(slots=True)
class EndpointCounters:
    """Counts of datagrams, handshakes and sessions since the start."""

    cookies_sent: int = 0
    cookies_refused: int = 0
    handshakes: int = 0
    handshakes_failed: int = 0
    half_open_evicted: int = 0
    half_open_refused: int = 0
    established_evicted: int = 0
    idle_closed: int = 0
    replaced: int = 0
    malformed: int = 0
    stray: int = 0
    moved: int = 0
