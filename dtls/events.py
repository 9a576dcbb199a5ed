"""What an endpoint tells of its peers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from dtls.identity import PeerIdentity

Address = Hashable
"""A peer's address; its ``repr`` must name it in full."""


@dataclass(frozen=True, slots=True)
class Established:
    """A peer completed its handshake."""

    session_id: int
    address: Address
    identity: PeerIdentity


@dataclass(frozen=True, slots=True)
class Failed:
    """A handshake came to nothing, after its peer had shown that it receives where it is."""

    address: Address
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """A plaintext from an established session."""

    session_id: int
    plaintext: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """An established session is gone."""

    session_id: int
    reason: str


Event = Established | Failed | Received | Closed
