"""Peers at UDP ports and in DTLS sessions, as the engine knows them and as resources see them."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, NamedTuple, Self

from aiocoap import interfaces
from aiocoap.numbers.constants import COAP_PORT, COAPS_PORT

from coap_engine.message import CoapPeer
from dtls.datagrams import PeerAddress, host_of, join_host_port
from dtls.identity import ANONYMOUS, LOCAL, PeerIdentity

KNOWN_MAX = 4_096
"""Addresses that are not looked at again each time; that is all that is remembered of them."""
_DEFAULT_PORTS = {"coap": COAP_PORT, "coaps": COAPS_PORT}


class SessionAddress(NamedTuple):
    """A peer over DTLS: its session, and where that was opened from.

    Attributes:
        session_id: the endpoint's number; no other session ever has it.
        address: the peer's.

    """

    session_id: int
    address: PeerAddress


def is_loopback(address: PeerAddress) -> bool:
    """Whether a peer is on this machine: no other can have its address.

    Who takes another address of 127.0.0.0/8 is a stranger like any, which is how they are tried.
    """
    host: str = address.sockaddr[0].removeprefix("::ffff:")
    return host in ("127.0.0.1", "::1")


def is_here(peer: CoapPeer) -> bool:
    """Whether a peer of plain CoAP is on this machine."""
    # Nothing else proves the address of a peer without a session.
    return peer.is_address_proven and isinstance(peer.address, PeerAddress)


class UdpPeers:
    """The peers of plain UDP ports, each made once while it is known."""

    def __init__(self) -> None:
        self._known: dict[PeerAddress, CoapPeer] = {}

    def __len__(self) -> int:
        """How many are known."""
        return len(self._known)

    def of(self, address: PeerAddress) -> CoapPeer:
        """Who sends from an address: a stranger."""
        peer = self._known.get(address)
        if peer is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            peer = CoapPeer(address, host_of(address), is_address_proven=is_loopback(address))
            self._known[address] = peer
        return peer


def session_peer(session_id: int, address: PeerAddress, identity: PeerIdentity) -> CoapPeer:
    """Who talks through a session: the cookie has shown its address, the key its name."""
    principal = str(identity) if identity.may_write else None
    return CoapPeer(
        SessionAddress(session_id, address),
        host_of(address) if principal is None else principal,
        principal,
        is_address_proven=True,
    )


class OscoreAddress(NamedTuple):
    """A device behind OSCORE.

    Attributes:
        outer: where its messages come from: its own address, or a proxy's.
        identity: who it is.

    """

    outer: Hashable
    identity: PeerIdentity


class Requester(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """Who asks, as a resource sees it in ``request.remote``.

    Args:
        scheme: ``coap`` or ``coaps``.
        identity: who it has shown to be.
        address: where it is.
        local: our address that it talks to, and its port.
        key: tells it from all other peers.

    Attributes:
        identity: who the peer is.

    """

    scheme = "coap"
    is_multicast = False
    is_multicast_locally = False
    hostinfo = hostinfo_local = ""  # set for each instance; aiocoap declares them abstract
    uri_base = uri_base_local = ""
    # Blocks are made where the answer leaves for the peer, not here.
    maximum_payload_size = 1 << 30

    def __init__(
        self,
        scheme: str,
        identity: PeerIdentity,
        address: PeerAddress,
        local: tuple[str, int],
        key: Any,
    ) -> None:
        self.scheme = scheme
        self.identity = identity
        port = _DEFAULT_PORTS[scheme]
        self.hostinfo = join_host_port(address.sockaddr[0], address.sockaddr[1], port)
        self.hostinfo_local = join_host_port(*local, port)
        self.uri_base = f"{scheme}://{self.hostinfo}"
        self.uri_base_local = f"{scheme}://{self.hostinfo_local}"
        self._key = key

    @property
    def authenticated_claims(self) -> tuple[str, ...]:
        """What aiocoap's own authorisation looks at."""
        return (str(self.identity),) if self.identity.may_write else ()

    @property
    def blockwise_key(self) -> Any:
        """Blocks of one peer belong together, others do not."""
        return self._key

    def known_as(self, identity: PeerIdentity) -> Self:
        """The same for one who has shown in its message who it is."""
        known = copy.copy(self)
        known.identity = identity
        known._key = (self._key, identity)
        return known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requester) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<{self.identity} at {self.uri_base}>"


def plain_requester(address: PeerAddress, local: tuple[str, int]) -> Requester:
    """A peer of plain CoAP, that nobody vouches for unless it is on this machine."""
    identity = LOCAL if is_loopback(address) else ANONYMOUS
    return Requester("coap", identity, address, local, address)
