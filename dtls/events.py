"""Events by which an endpoint tells of its peers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from dtls.identity import PeerIdentity

TransportAddress = Hashable
"""A peer's address; its ``repr`` must name it in full."""


class Established(NamedTuple):
    """A peer completed its handshake."""

    session_id: int
    address: TransportAddress
    identity: PeerIdentity


class Failed(NamedTuple):
    """A handshake came to nothing, after its peer had shown that it receives where it is."""

    address: TransportAddress
    reason: str


class Received(NamedTuple):
    """A plaintext from an established session."""

    session_id: int
    plaintext: bytes


class Moved(NamedTuple):
    """An established session goes on from another port of its host, as after a NAT forgot it."""

    session_id: int
    address: TransportAddress


class Closed(NamedTuple):
    """An established session is gone."""

    session_id: int
    reason: str


DtlsEvent = Established | Failed | Received | Moved | Closed
