"""Runs a remote request against this gateway's own CoAP site, for its original peer (A6)."""

from __future__ import annotations

from typing import Any

from aiocoap import interfaces
from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code

from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.coap.access import CoapAccess, refused
from gateway.coap.rendering import Renderings
from gateway.policy.principal import Principal
from tree_handler.errors import ProtocolError
from tree_handler.remote_message import ResourceRequest, ResourceResponse

QUERY_SEGMENT = "q"
"""First segment of the paths that lead to other gateways."""


class RemotePeer(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """The original peer as a resource sees it in ``request.remote``.

    Its identity is what the gateway that let the request in has authenticated.

    Args:
        principal: who it is to the policy of this gateway.
        gateway_id: this gateway, the host of its URIs.

    Attributes:
        principal: as given.

    """

    scheme = "coap"
    is_multicast = False
    is_multicast_locally = False
    authenticated_claims: tuple[str, ...] = ()
    hostinfo = hostinfo_local = ""
    uri_base = uri_base_local = ""
    # Blocks are made where the answer leaves for the peer, not here.
    maximum_payload_size = 1 << 30

    def __init__(self, principal: Principal, gateway_id: str) -> None:
        self.principal = principal
        self.identity = _identity(principal)
        if self.identity.may_write:
            self.authenticated_claims = (str(principal),)
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
        access: decides.

    """

    def __init__(self, site: Any, gateway_id: str, access: CoapAccess) -> None:
        self._renderings = Renderings(site)
        self._gateway_id = gateway_id
        self._access = access

    async def __call__(self, request: ResourceRequest, via: str = "") -> ResourceResponse:
        """Execute one request. What goes wrong is a response: it never raises.

        Args:
            request: what, and for whom.
            via: the gateway that vouches for whom it is; empty for this one.

        """
        if request.path[:1] == (QUERY_SEGMENT,):
            return diagnostic(Code.BAD_REQUEST, "a remote query must not lead to another one")
        principal = self._access.vouched(request.identity, request.roles, via)
        if not self._access.may(principal, request.method, request.path):
            refusal = refused(principal, request.method)
            return diagnostic(refusal.code, f"{self._gateway_id}: {refusal.payload.decode()}")
        answer = await self._renderings.answer(self._message(request, principal))
        content_format = answer.opt.content_format
        try:
            return ResourceResponse(
                int(answer.code),
                answer.payload,
                None if content_format is None else int(content_format),
            )
        except ProtocolError as error:
            return diagnostic(Code.INTERNAL_SERVER_ERROR, f"{self._gateway_id}: {error}")

    def _message(self, request: ResourceRequest, principal: Principal) -> Any:
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
        message.remote = RemotePeer(principal, self._gateway_id)
        return message


def _identity(principal: Principal) -> PeerIdentity:
    try:
        return PeerIdentity(Proof(principal.kind), principal.name)
    except ValueError:  # a stranger, or a proof that is none of CoAP's
        return ANONYMOUS


def diagnostic(code: Any, text: str) -> ResourceResponse:
    """An error response with a text for people (RFC 7252, 5.5.2)."""
    return ResourceResponse(int(code), text.encode())
