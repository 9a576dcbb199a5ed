"""Peers at UDP ports and in DTLS sessions, as the engine knows them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Final, NamedTuple

from coap_engine.message import CoapPeer
from dtls.datagrams import PeerAddress, host_of
from dtls.identity import ANONYMOUS, LOCAL, PeerIdentity

KNOWN_MAX: Final = 4_096
"""Addresses that are not looked at again each time; that is all that is remembered of them."""


class SessionAddress(NamedTuple):
    """A peer over DTLS: its session, and where that is; it is the same peer wherever it is.

    Attributes:
        session_id: the endpoint's number; no other session ever has it.
        address: the peer's.
        identity: who it has shown to be.

    """

    session_id: int
    address: PeerAddress
    identity: PeerIdentity = ANONYMOUS

    def __hash__(self) -> int:
        return hash(self.session_id)  # a named tuple hashes all that it holds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionAddress) and other.session_id == self.session_id

    def __ne__(self, other: object) -> bool:
        return not self == other


def is_loopback(address: PeerAddress) -> bool:
    """Return whether a peer is on this machine: no other can have its address.

    Who takes another address of 127.0.0.0/8 is a stranger like any, which is how they are tried.
    """
    host: str = address.sockaddr[0].removeprefix("::ffff:")
    return host in ("127.0.0.1", "::1")


def shown_by(peer: CoapPeer) -> PeerIdentity:
    """Return who a peer has shown to be."""
    address = peer.address
    if isinstance(address, PeerAddress):
        # Nothing else proves the address of a peer without a session.
        return LOCAL if peer.is_address_proven else ANONYMOUS
    if isinstance(address, (SessionAddress, OscoreAddress)):
        return address.identity
    return ANONYMOUS


def known_as(peer: CoapPeer) -> PeerIdentity | VouchedAddress:
    """Return as whom the policy knows a peer: what it has shown here, or where it was vouched for.

    All peers that are known as the same may do the same.
    """
    address = peer.address
    return address if isinstance(address, VouchedAddress) else shown_by(peer)


@lru_cache(KNOWN_MAX)
def udp_peer(address: PeerAddress) -> CoapPeer:
    """Return who sends from an address of plain UDP: a stranger."""
    return CoapPeer(address, host_of(address), is_address_proven=is_loopback(address))


def session_peer(session_id: int, address: PeerAddress, identity: PeerIdentity) -> CoapPeer:
    """Return who talks through a session: the cookie has shown its address, the key its name."""
    principal = str(identity) if identity.may_write else None
    return CoapPeer(
        SessionAddress(session_id, address, identity),
        host_of(address) if principal is None else principal,
        principal,
        is_address_proven=True,
    )


class VouchedAddress(NamedTuple):
    """A peer of another gateway, as that one introduces it.

    Attributes:
        gateway_id: the gateway that it asked; empty for this one.
        text: who it is there; None for a stranger.
        roles: those that it has there.

    """

    gateway_id: str
    text: str | None
    roles: tuple[str, ...]


class OscoreAddress(NamedTuple):
    """A device behind OSCORE.

    Attributes:
        outer: where its messages come from: its own address, or a proxy's.
        identity: who it is.

    """

    outer: Hashable
    identity: PeerIdentity
