"""Runs a remote request against this gateway's own CoAP site, for its original peer (A6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiocoap import interfaces
from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code

from dtls.identity import ANONYMOUS, LOCAL, PeerIdentity, Proof
from gateway.coap.access import EVERYTHING, PublicPaths
from gateway.coap.rendering import Renderings
from tree_handler.errors import ProtocolError
from tree_handler.remote_message import ResourceRequest, ResourceResponse

QUERY_SEGMENT = "q"
"""First segment of the paths that lead to other gateways."""


class RemotePeer(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """The original peer as a resource sees it in ``request.remote``.

    Its identity is what the gateway that let the request in has authenticated. Gateways trust
    each other in this, since each of them holds the tree's key.

    Args:
        identity: the text of a `dtls.identity.Identity`; None if anonymous.
        gateway_id: this gateway, the host of its URIs.

    """

    scheme = "coap"
    is_multicast = False
    is_multicast_locally = False
    authenticated_claims: tuple[str, ...] = ()
    hostinfo = hostinfo_local = ""
    uri_base = uri_base_local = ""
    # Blocks are made where the answer leaves for the peer, not here.
    maximum_payload_size = 1 << 30

    def __init__(self, identity: str | None, gateway_id: str) -> None:
        self.identity = ANONYMOUS
        if identity is not None:
            self.identity = _identity(identity)
            self.authenticated_claims = () if self.identity == LOCAL else (identity,)
        self.hostinfo = self.hostinfo_local = gateway_id
        self.uri_base = self.uri_base_local = f"{self.scheme}://{gateway_id}"

    @property
    def blockwise_key(self) -> int:
        """Blocks of no two requests belong together."""
        return id(self)


class LocalExecution:
    """Executes requests on a site.

    Args:
        site: this gateway's aiocoap site.
        gateway_id: this gateway.
        may_write: whether an identity (None: anonymous) may change resources here.
        public: what an anonymous peer may read.

    """

    def __init__(
        self,
        site: Any,
        gateway_id: str,
        may_write: Callable[[str | None], bool],
        public: PublicPaths | None = None,
    ) -> None:
        self._renderings = Renderings(site)
        self._gateway_id = gateway_id
        self._may_write = may_write
        self._public = public or PublicPaths(EVERYTHING)

    async def __call__(self, request: ResourceRequest) -> ResourceResponse:
        """Execute one request. What goes wrong is a response: it never raises."""
        if request.path[:1] == (QUERY_SEGMENT,):
            return diagnostic(Code.BAD_REQUEST, "a remote query must not lead to another one")
        if request.writes and not self._may_write(request.identity):
            return diagnostic(Code.UNAUTHORIZED, f"{self._gateway_id}: not allowed to write")
        knows_nobody = request.identity in (None, str(LOCAL))
        if knows_nobody and not (request.writes or self._is_public(request)):
            return diagnostic(Code.UNAUTHORIZED, f"{self._gateway_id}: reading this needs a key")
        answer = await self._renderings.answer(self._message(request))
        content_format = answer.opt.content_format
        try:
            return ResourceResponse(
                int(answer.code),
                answer.payload,
                None if content_format is None else int(content_format),
            )
        except ProtocolError as error:
            return diagnostic(Code.INTERNAL_SERVER_ERROR, f"{self._gateway_id}: {error}")

    def _is_public(self, request: ResourceRequest) -> bool:
        return self._public.has([segment.encode() for segment in request.path])

    def _message(self, request: ResourceRequest) -> Any:
        message = Message(
            code=getattr(Code, request.method),
            payload=request.payload,
            uri_path=request.path,
            uri_query=request.query,
        )
        if request.content_format is not None:
            message.opt.content_format = request.content_format
        if request.accept is not None:
            message.opt.accept = request.accept
        message.direction = Direction.INCOMING
        message.remote = RemotePeer(request.identity, self._gateway_id)
        return message


def _identity(text: str) -> PeerIdentity:
    proof, _, name = text.partition(":")
    try:
        return PeerIdentity(Proof(proof), name)
    except ValueError:
        # A proof that only a later version of the gateway at the entry knows.
        return ANONYMOUS


def diagnostic(code: Any, text: str) -> ResourceResponse:
    """An error response with a text for people (RFC 7252, 5.5.2)."""
    return ResourceResponse(int(code), text.encode())
