"""Who may do what over CoAP, decided once before any resource is asked (row A8).

What is refused here is refused whatever a resource forgets to check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.identity import ANONYMOUS, PeerIdentity
from gateway.coap.peers import is_here

READS = frozenset({codes.GET, codes.FETCH})
"""Methods that change nothing (RFC 7252, section 5.8; RFC 8132). All others are writes."""
EVERYTHING = ("/",)
"""Prefix of all paths."""
_NO_WRITE: Final = CoapResponse(codes.UNAUTHORIZED)
_NO_READ: Final = CoapResponse(codes.UNAUTHORIZED, (), b"reading this needs a key (coaps)")


def identity_of(request: Any) -> PeerIdentity:
    """Who sent an aiocoap request; `ANONYMOUS` if its transport does not know."""
    identity = getattr(request.remote, "identity", ANONYMOUS)
    return identity if isinstance(identity, PeerIdentity) else ANONYMOUS


class PublicPaths:
    """What strangers may read.

    Args:
        prefixes: paths; what is below one is public too.

    """

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = frozenset(_segments(prefix) for prefix in prefixes)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def has(self, path: Sequence[bytes]) -> bool:
        """Whether a path is public.

        Args:
            path: its segments.

        """
        whole = tuple(path)
        return any(whole[:length] in self._prefixes for length in self._lengths)


class CoapAccess:
    """Decides of each request whether its peer may make it.

    Args:
        anonymous: let anybody do everything; for tests and for a network that is trusted as a
            whole.
        public: paths that strangers may read.

    """

    def __init__(self, *, anonymous: bool = False, public: Sequence[str] = EVERYTHING) -> None:
        self._anonymous = anonymous
        self._public = PublicPaths(public)

    def refusal(self, request: CoapRequest, peer: CoapPeer) -> CoapResponse | None:
        """What a peer is told that may not do this; None if it may."""
        if self._anonymous or peer.principal is not None:
            return None
        if request.code not in READS:
            return _NO_WRITE
        if is_here(peer) or self._public.has(request.values(option_numbers.URI_PATH)):
            return None
        return _NO_READ


def _segments(path: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in path.split("/") if part)
