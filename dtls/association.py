"""One peer of a server's port."""

from __future__ import annotations

import math
from collections.abc import Hashable

from dtls.events import TransportAddress
from dtls.session import DtlsSession


class PeerAssociation:
    """A session, where it is, and since when.

    Args:
        number: of the session.
        address: the peer's.
        host: whose part of handshakes it takes.
        random: of the peer's ClientHello.
        session: the crypto library's side.
        now: in seconds of the endpoint's clock.

    Attributes:
        alert: what the peer has said in clear text since it was last heard; empty if nothing.
        fed: the number of the datagram that its session was given last.
        sequence: the highest number of a datagram with something for the user.
        until: when the handshake is given up, on the same clock.
        established: whether the handshake is complete.

    """

    __slots__ = (
        *("active_at", "address", "alert", "established", "fed", "host", "id"),
        *("random", "sequence", "session", "started_at", "until"),
    )

    def __init__(
        self,
        number: int,
        address: TransportAddress,
        host: Hashable,
        random: bytes,
        session: DtlsSession,
        now: float,
    ) -> None:
        self.alert = ""
        self.until = math.inf
        self.id = number
        self.fed = self.sequence = -1
        self.address = address
        self.host = host
        self.random = random
        self.session = session
        self.started_at = self.active_at = now
        self.established = False
