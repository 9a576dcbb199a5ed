"""Runs a remote request against this gateway's own resources, for its original peer (A6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from aiocoap import interfaces
from aiocoap.numbers.codes import Code

from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, RequestReceived
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.base.write_turns import WriteTurns
from gateway.coap.access import CoapAccess, refused
from gateway.coap.answers import Answers
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from gateway.coap.peers import VouchedAddress
from gateway.coap.remote.forms import coap_request, resource_response
from gateway.coap.remote.named_execution import NamedExecution, OnNamedAnswer
from gateway.coap.remote.noted_names import NotedNames
from gateway.coap.responders import ImmediateResponder
from gateway.trust.policy.principal import NAMELESS, Principal
from tree_handler.errors import ProtocolError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse


class RemotePeer(interfaces.EndpointAddress):  # type: ignore[misc]  # aiocoap is untyped
    """The original peer as a resource sees it in ``request.remote``.

    Its identity is what the gateway that let the request in has authenticated.

    Args:
        principal: who it is to the policy of this gateway.
        gateway_id: this gateway, the host of its URIs.

    Attributes:
        principal: as given.
        is_still_in: see `coap_engine.message.CoapRequest`.

    """

    is_still_in: Callable[[], bool] | None = None
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
    """Executes requests on this gateway's own resources.

    Args:
        site: this gateway's aiocoap site.
        gateway_id: this gateway.
        access: decides.
        at_hand: answer what they can before the site is asked.
        turns: of all who write to the site's resources; None where nobody else does.
        noted: where the names of writes are noted; None if no later life shall know them.

    """

    def __init__(
        self,
        site: Any,
        gateway_id: str,
        access: CoapAccess,
        at_hand: Sequence[ImmediateResponder] = (),
        *,
        turns: WriteTurns | None = None,
        noted: NotedNames | None = None,
    ) -> None:
        self._gateway_id = gateway_id
        self._access = access
        self._answers = Answers(site, access, at_hand, self.remote_of, turns=turns)
        self._named = NamedExecution(noted)
        self._number = 0
        access.tell_of_changes(self._answers.revise)

    def begin(
        self, request: ResourceRequest, via: str, tell: OnNamedAnswer, *, observes: bool = False
    ) -> Callable[[], None]:
        """Execute one request. What goes wrong is a response: it never raises.

        Args:
            request: what, and for whom.
            via: the gateway that vouches for whom it is; empty for this one.
            tell: takes what comes of it, perhaps before this returns.
            observes: changes are to be told, too.

        Returns:
            What ends it: nothing is told after that.

        """
        if request.path[:1] == (QUERY_SEGMENT,):
            tell(diagnostic(Code.BAD_REQUEST, "a remote query must not lead to another one"), False)
            return _nothing
        principal = self._access.vouched(request.identity, request.roles, via)
        if not self._access.may(principal, request.method, request.path):
            tell(self._refused(principal, request.method), False)
            return _nothing
        named = self._named.begin(
            request, via, tell, lambda asked, told: self._carry_out(asked, via, told)
        )
        if named is not None:
            return named
        return self._carry_out(request, via, tell, observes=observes)

    def _carry_out(
        self, request: ResourceRequest, via: str, tell: OnNamedAnswer, *, observes: bool = False
    ) -> Callable[[], None]:
        principal = self._access.vouched(request.identity, request.roles, via)
        self._number -= 1  # the engine's exchanges count upwards
        exchange = self._number
        peer = _peer(request, principal, via)
        asked = RequestReceived(exchange, peer, coap_request(request, observe=observes))
        now = asyncio.get_running_loop().time()

        def respond(_exchange: int, response: CoapResponse, is_last: bool) -> None:
            told = self._told(response)
            tell(told, observes and not is_last and told.is_success)

        answer = self._answers.asked(asked, now, respond, _ask_nobody)
        if answer is not None:
            respond(exchange, *answer)
        return lambda: self._answers.ended(exchange)

    async def __call__(self, request: ResourceRequest, via: str = "") -> ResourceResponse:
        """Execute one request, and wait for what comes of it; see `begin`."""
        answer: asyncio.Future[ResourceResponse] = asyncio.get_running_loop().create_future()

        def tell(response: ResourceResponse, _goes_on: bool) -> None:
            if not answer.done():
                answer.set_result(response)

        end = self.begin(request, via, tell)
        try:
            return await answer
        finally:
            end()

    async def stop(self) -> None:
        """End all that is executed; no task is left."""
        await self._named.stop()
        await self._answers.stop()

    def _told(self, response: CoapResponse) -> ResourceResponse:
        try:
            return resource_response(response)
        except ProtocolError as error:
            return diagnostic(Code.INTERNAL_SERVER_ERROR, f"{self._gateway_id}: {error}")

    def _refused(self, principal: Principal, method: str) -> ResourceResponse:
        refusal = refused(principal, method)
        return diagnostic(refusal.code, f"{self._gateway_id}: {refusal.payload.decode()}")

    def remote_of(self, peer: CoapPeer) -> RemotePeer:
        """Return a vouched peer as resources see it."""
        address = peer.address
        assert isinstance(address, VouchedAddress), address
        principal = self._access.vouched(address.text, address.roles, address.gateway_id)
        return RemotePeer(principal, self._gateway_id)


def _peer(request: ResourceRequest, principal: Principal, via: str) -> CoapPeer:
    name = None
    if principal.kind not in NAMELESS:
        # What another gateway calls somebody is no name here.
        name = f"{principal.via}/{principal}" if principal.via else str(principal)
    address = VouchedAddress(via, request.identity, request.roles)
    return CoapPeer(address, name or via, name, is_address_proven=True)


def _ask_nobody(
    _peer: CoapPeer, _request: CoapRequest, done: Callable[[CoapResponse | None], None]
) -> None:
    """A peer of another gateway is not asked itself."""
    done(None)


def _nothing() -> None:
    """There is nothing to end."""


def _identity(principal: Principal) -> PeerIdentity:
    try:
        return PeerIdentity(Proof(principal.kind), principal.name)
    except ValueError:  # a stranger, or a proof that is none of CoAP's
        return ANONYMOUS


def diagnostic(code: Any, text: str) -> ResourceResponse:
    """Return an error response with a text for people (RFC 7252, 5.5.2)."""
    return ResourceResponse(int(code), text.encode())
