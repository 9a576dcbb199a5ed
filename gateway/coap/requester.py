"""Peers as aiocoap's resources see them."""

from __future__ import annotations

import copy
from typing import Any, Self

from aiocoap import interfaces
from aiocoap.numbers.constants import COAP_PORT, COAPS_PORT

from dtls.datagrams import PeerAddress, join_host_port
from dtls.identity import ANONYMOUS, LOCAL, PeerIdentity
from gateway.coap.peers import is_loopback

_DEFAULT_PORTS = {"coap": COAP_PORT, "coaps": COAPS_PORT}


class Requester(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """The sender of a request, as a resource sees it in ``request.remote``.

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
        """Return what aiocoap's own authorisation looks at."""
        return (str(self.identity),) if self.identity.may_write else ()

    @property
    def blockwise_key(self) -> Any:
        """Blocks of one peer belong together, others do not."""
        return self._key

    def known_as(self, identity: PeerIdentity) -> Self:
        """Return a requester who has shown in its message who it is."""
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
    """Return a peer of plain CoAP, that nobody vouches for unless it is on this machine."""
    identity = LOCAL if is_loopback(address) else ANONYMOUS
    return Requester("coap", identity, address, local, address)
