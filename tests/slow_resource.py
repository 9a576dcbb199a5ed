"""A resource whose reads and writes take as long as a test wants, asked as the engine asks."""

from __future__ import annotations

import asyncio

from aiocoap import Code, Message, error, resource

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse, Option, RequestReceived
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.base.write_turns import WriteTurns
from gateway.coap.access import CoapAccess
from gateway.coap.answers import Answers
from gateway.coap.peers import session_peer
from gateway.coap.requester import plain_requester
from gateway.coap.responders import ImmediateResponder
from tests.policies import open_access

IF_MATCH, ETAG, URI_PATH = 1, 4, 11
PEER = session_peer(1, PeerAddress(("192.0.2.9", 5684)), PeerIdentity(Proof.PSK, "operator"))


class Slow(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Has a value in two formats, and takes as long as it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.value: bytes | None = b"old"
        self.done: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.hold_put = asyncio.Event()
        self.hold_put.set()
        self.writing = asyncio.Event()
        self.fails = False

    async def render_get(self, request: Message) -> Message:
        await self.hold.wait()
        if self.fails:
            raise error.ServiceUnavailable("the bus is broken")
        if self.value is None:
            raise error.NotFound
        if request.opt.accept not in (None, 0, 60):
            raise error.NotAcceptable
        return Message(payload=self.value, content_format=request.opt.accept or 0)

    async def render_put(self, request: Message) -> Message:
        self.writing.set()
        await self.hold.wait()
        await self.hold_put.wait()
        self.value = request.payload
        self.done.append(f"{request.code} {request.payload.decode()}")
        return Message(code=Code.CHANGED)

    render_post = render_delete = render_patch = render_ipatch = render_put

    async def render_fetch(self, request: Message) -> Message:
        self.done.append("FETCH")
        return await self.render_get(request)


class World:
    """One resource, one who answers for it, and what it was told."""

    def __init__(self, site: resource.Site | None = None, access: CoapAccess | None = None) -> None:
        self.access = access or open_access()
        self.slow = Slow()
        self.turns = WriteTurns()
        self.site = site or resource.Site()
        self.site.add_resource(("slow",), self.slow)
        self.answers = self.another()
        self.exchanges = 0
        self.asked_back: list[CoapRequest] = []

    def another(self, *at_hand: ImmediateResponder) -> Answers:
        """One more who answers for the same resources, as for requests of other gateways."""
        remote = plain_requester(PeerAddress(("192.0.2.1", 1)), ("192.0.2.2", 5683))
        return Answers(self.site, self.access, at_hand, lambda _peer: remote, turns=self.turns)

    def begin(
        self,
        code: int,
        payload: bytes,
        *options: Option,
        path: tuple[bytes, ...] = (b"slow",),
        answers: Answers | None = None,
    ) -> asyncio.Future[CoapResponse]:
        """Ask; the answer comes when the resource lets it."""
        self.exchanges += 1
        said = sorted(((URI_PATH, one) for one in path), key=lambda one: one[0])
        request = CoapRequest(
            code, tuple(sorted((*options, *said), key=lambda one: one[0])), payload
        )
        told: asyncio.Future[CoapResponse] = asyncio.get_running_loop().create_future()
        answered = (answers or self.answers).asked(
            RequestReceived(self.exchanges, PEER, request),
            0.0,
            lambda _exchange, response, _is_last: told.set_result(response),
            lambda _peer, request, _done: self.asked_back.append(request),
        )
        if answered is not None:
            told.set_result(answered[0])
        return told

    async def etag(self, *options: Option, path: tuple[bytes, ...] = (b"slow",)) -> bytes:
        """The ETag that a GET is answered with."""
        value = dict((await self.begin(codes.GET, b"", *options, path=path)).options)[ETAG]
        assert isinstance(value, bytes)
        return value


async def turn_of_the_loop() -> None:
    """Let everything that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)
