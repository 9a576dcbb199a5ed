"""The five ways to a resource of a gateway, each asked in the same words.

Method: two gateways in one process (`remote_fleet`), joined by a function. The one that is asked
has an engine of its own and no socket: datagrams are handed in and taken out. The same lamp stands
at both, so that whose was asked can be seen.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import remote_fleet
from aiocoap import Code, Message, error, resource
from aiocoap.message import Direction

from coap_engine import codes
from coap_engine.codec import ACK, CON, CoapMessage, decode
from coap_engine.engine import Engine
from coap_engine.message import CoapPeer, Option
from coap_engine.option_numbers import (
    ACCEPT,
    CONTENT_FORMAT,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    OBSERVE,
    OSCORE,
    PROXY_SCHEME,
    URI_HOST,
    URI_PATH,
    URI_QUERY,
)
from coap_engine.uint import decode_uint
from dtls.datagrams import PeerAddress
from gateway.broker.hooks import Client
from gateway.coap.answers import Answers
from gateway.coap.messages import options_of
from gateway.coap.oscore.answers import OscoreAnswers
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import SenderNumbers
from gateway.coap.remote.forward_proxy import ForwardProxy
from gateway.coap.requester import plain_requester
from gateway.coap.shell import EngineShell
from gateway.coap.topics.asker import CoapFace, TopicAsker
from gateway.coap.topics.properties import PropertyRefusedError, request_options
from gateway.coap.topics.topics import target
from gateway.mqtt import PropertyId
from tests.policies import open_access

WAYS = ("local", "/q", "proxy", "OSCORE", "$coap")
METHODS = (
    codes.GET, codes.FETCH, codes.PUT, codes.POST, codes.PATCH, codes.IPATCH, codes.DELETE,
)  # fmt: skip
READS = (codes.GET, codes.FETCH)
LAMP = (b"lamp",)
KNOWN = CoapPeer(("session", 1), "operator", "psk:operator", is_address_proven=True)
NORTH = (b"q", b"campus", b"north", b"gw-north")
LONG = b"0123456789abcdef" * 3
_MEDIA_TYPES = {0: "text/plain", 40: "application/link-format", 60: "application/cbor"}
_KEYS = OscoreKeys("lamp", b"0123456789abcdef", b"\x01", b"\x02")


def stranger(number: int) -> CoapPeer:
    """A peer that has shown nothing."""
    return CoapPeer(PeerAddress((f"192.0.2.{number}", 40_000)), f"192.0.2.{number}")


class Lamp(resource.ObservableResource):  # type: ignore[misc]  # aiocoap is untyped
    """Has a state in two formats, can be observed, and notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.state = b"off"
        self.done: list[tuple[int, bytes]] = []
        self.queries: list[tuple[str, ...]] = []

    def turn(self, state: bytes) -> None:
        self.state = state
        self.updated_state()

    async def render_get(self, request: Message) -> Message:
        self.queries.append(request.opt.uri_query)
        if request.opt.accept not in (None, 0, 60):
            raise error.NotAcceptable
        payload = LONG if "long" in request.opt.uri_query else self.state
        return Message(payload=payload, content_format=request.opt.accept or 0)

    async def render_fetch(self, request: Message) -> Message:
        self._note(request)
        return await self.render_get(request)

    async def render_put(self, request: Message) -> Message:
        if request.opt.content_format not in (None, 0):
            raise error.UnsupportedContentFormat
        self._note(request)
        await asyncio.sleep(0)  # others have a turn between the request and the change
        self.turn(request.payload)
        return Message(code=Code.CHANGED)

    render_post = render_patch = render_ipatch = render_put

    async def render_delete(self, request: Message) -> Message:
        self._note(request)
        return Message(code=Code.DELETED)

    def _note(self, request: Message) -> None:
        self.queries.append(request.opt.uri_query)
        self.done.append((int(request.code), request.payload))


@dataclass
class Answer:
    """The response to a request."""

    code: int
    options: tuple[Option, ...] = ()
    payload: bytes = b""

    def value(self, number: int) -> bytes | None:
        return dict(self.options).get(number)

    @property
    def said(self) -> str:
        return f"{self.code >> 5}.{self.code & 31:02d}"


@dataclass
class World:
    """The gateway that is asked, ``gw-root``, and the one behind it, ``gw-north``."""

    fleet: remote_fleet.Fleet = field(default_factory=remote_fleet.Fleet)
    lamps: dict[str, Lamp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, node in self.fleet.nodes.items():
            self.lamps[name] = Lamp()
            node.site.add_resource(["lamp"], self.lamps[name])
        root = self.fleet.root
        self.router = ForwardProxy("gw-root", root.members)
        self.access = open_access()
        self.answers = self.another()
        self.context = OscoreContext(_KEYS, Unkept(), b"12345678")
        self.context.recipient_replay_window.initialize_empty()
        loop = asyncio.get_running_loop()
        contexts = {_KEYS.known_by: self.context}
        engine = Engine(secrets.token_bytes)
        self.shares = engine.shares
        self.shell = EngineShell(
            engine,
            OscoreAnswers(contexts, self.answers, loop, self.shares),
        )
        for kind in (type(KNOWN.address), PeerAddress):
            self.shell.sends_by(kind, self._took)
        self._empty: asyncio.Queue[CoapMessage] = asyncio.Queue()
        self._answers: dict[bytes, asyncio.Queue[CoapMessage]] = {}
        self._confirmed: set[int] = set()
        self._message_id = 0

    def another(self) -> Answers:
        """One more who answers at the gateway that is asked, with exchanges of its own."""
        remote = plain_requester(PeerAddress(("192.0.2.1", 1)), ("192.0.2.2", 5683))
        root = self.fleet.root
        at_hand = (root.remote, root.named)
        return Answers(
            root.site,
            self.access,
            at_hand,
            lambda _: remote,
            router=self.router,
            turns=root.turns,
        )

    def _took(self, datagram: bytes, to: Hashable) -> None:
        message = decode(datagram)
        if message.type == CON:  # on a slow machine an answer may be one, and come again
            asyncio.get_running_loop().call_soon(self._acknowledge, message.message_id, to)
            if message.message_id in self._confirmed:
                return
            self._confirmed.add(message.message_id)
        queue = self._answers[message.token] if message.code else self._empty
        queue.put_nowait(message)

    def _acknowledge(self, message_id: int, address: Hashable) -> None:
        """Nothing more is told to a peer that leaves a message unacknowledged."""
        peer = KNOWN if address == KNOWN.address else CoapPeer(address, address)
        now = asyncio.get_running_loop().time()
        self.shell.receive(CoapMessage(ACK, codes.EMPTY, message_id).encode(), peer, now)
        self.shell.turn_ended(now)

    def send(
        self, code: int, options: tuple[Option, ...], payload: bytes, peer: CoapPeer = KNOWN
    ) -> bytes:
        """Hand a request in; returns its token."""
        self._message_id += 1
        token = self._message_id.to_bytes(2, "big")
        self._answers[token] = asyncio.Queue()
        ordered = tuple(sorted(options, key=lambda option: option[0]))
        message = CoapMessage(CON, code, self._message_id, token, ordered, payload)
        now = asyncio.get_running_loop().time()
        self.shell.receive(message.encode(), peer, now)
        self.shell.turn_ended(now)
        return token

    async def answer(self, token: bytes) -> Answer:
        """Take the next answer to a request."""
        message = await asyncio.wait_for(self._answers[token].get(), 30)
        return Answer(message.code, message.options, message.payload)

    async def acknowledged(self) -> CoapMessage:
        """Take the next message that says nothing."""
        return await asyncio.wait_for(self._empty.get(), 30)

    def start_again(self) -> None:
        """The gateway has started anew: it does not know what a device has sent."""
        self.context = OscoreContext(_KEYS, Unkept(), b"12345678")
        loop = asyncio.get_running_loop()
        contexts = {_KEYS.known_by: self.context}
        self.shell.answer_by(OscoreAnswers(contexts, self.answers, loop, self.shares))

    def close(self) -> None:
        self.shell.close()


class Unkept(SenderNumbers):
    """Numbers from 0 on, which nobody keeps."""

    def __init__(self) -> None:
        """Nothing to read."""

    def first(self, _name: str) -> int:
        return 0

    def use_below(self, _name: str, _number: int) -> None:
        pass


class Way:
    """One way to the lamp.

    Attributes:
        name: of `WAYS`.
        lamp: whose state is read and set by it.

    """

    name: str
    at = "gw-north"

    def __init__(self, world: World) -> None:
        self.world = world
        self.lamp = world.lamps[self.at]

    def route(self, path: tuple[bytes, ...]) -> tuple[Option, ...]:
        """The options that lead to a resource."""
        raise NotImplementedError

    def begin(self, code: int, *options: Option, payload: bytes = b"") -> None:
        """Ask for the lamp, and wait for nothing."""
        self.world.send(code, (*self.route(LAMP), *options), payload)

    async def ask(
        self,
        code: int,
        *options: Option,
        payload: bytes = b"",
        path: tuple[bytes, ...] = LAMP,
        peer: CoapPeer = KNOWN,
    ) -> Answer:
        """Ask for a resource."""
        token = self.world.send(code, (*self.route(path), *options), payload, peer)
        return await self.world.answer(token)

    async def observe(self, code: int, *options: Option) -> Callable[[], Any]:
        """Observe the lamp; what is given waits for the next answer, the first one being over."""
        options = (*self.route(LAMP), (OBSERVE, b""), *options)
        token = self.world.send(code, options, b"")
        first = await self.world.answer(token)
        assert first.said == "2.05"
        assert first.value(OBSERVE) is not None
        return lambda: self.world.answer(token)


class Local(Way):
    name, at = "local", "gw-root"

    def route(self, path: tuple[bytes, ...]) -> tuple[Option, ...]:
        return tuple((URI_PATH, one) for one in path)


class Query(Way):
    name = "/q"

    def route(self, path: tuple[bytes, ...]) -> tuple[Option, ...]:
        return tuple((URI_PATH, one) for one in (*NORTH, *path))


class Proxy(Way):
    name = "proxy"

    def route(self, path: tuple[bytes, ...]) -> tuple[Option, ...]:
        host = ((URI_HOST, b"gw-north"), (PROXY_SCHEME, b"coap"))
        return (*host, *((URI_PATH, one) for one in path))


class Oscore(Way):
    """The way of OSCORE: the request stands inside, and aiocoap's client makes the outside."""

    name, at = "OSCORE", "gw-root"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        turned = OscoreKeys(
            _KEYS.name, _KEYS.master_secret, _KEYS.recipient_id, _KEYS.sender_id, _KEYS.master_salt
        )
        self.device = OscoreContext(turned, Unkept(), b"")
        self.device.recipient_replay_window.initialize_empty()
        self._split = self.device._split_message

    def route(self, path: tuple[bytes, ...]) -> tuple[Option, ...]:
        return tuple((URI_PATH, one) for one in path)

    async def ask(
        self,
        code: int,
        *options: Option,
        payload: bytes = b"",
        path: tuple[bytes, ...] = LAMP,
        peer: CoapPeer = KNOWN,
    ) -> Answer:
        token, request_id = self._send(code, (*self.route(path), *options), payload, peer)
        return self._open(await self.world.answer(token), request_id)

    async def observe(self, code: int, *options: Option) -> Callable[[], Any]:
        token, request_id = self._send(
            code, (*self.route(LAMP), (OBSERVE, b""), *options), b"", KNOWN
        )
        first = await self.world.answer(token)
        assert first.value(OBSERVE) is not None
        assert self._open(first, request_id).said == "2.05"

        async def told() -> Answer:
            return self._open(await self.world.answer(token), request_id)

        return told

    def begin(self, code: int, *options: Option, payload: bytes = b"") -> None:
        self._send(code, (*self.route(LAMP), *options), payload, KNOWN)

    def _send(
        self, code: int, options: tuple[Option, ...], payload: bytes, peer: CoapPeer
    ) -> tuple[bytes, Any]:
        ordered = tuple(sorted(options, key=lambda option: option[0]))
        inside = bytes([code]) + CoapMessage(CON, code, 0, b"", ordered, payload).encode()[4:]
        self.device._split_message = lambda *asked: (self._split(*asked)[0], inside)
        said = Message(code=Code(code))
        observed = [one for one in ordered if one[0] == OBSERVE]
        if observed:
            said.opt.observe = decode_uint(observed[0][1])
        outer, request_id = self.device.protect(said)
        outside = ((OSCORE, outer.opt.oscore), *observed)
        return self.world.send(int(outer.code), outside, outer.payload, peer), request_id

    def _open(self, answer: Answer, request_id: Any) -> Answer:
        value = answer.value(OSCORE)
        if value is None:  # it was refused before it was opened
            return answer
        message = Message(code=Code(answer.code), payload=answer.payload)
        message.opt.oscore = value
        message.direction = Direction.INCOMING
        inner, _ = self.device.unprotect(message, request_id)
        return Answer(int(inner.code), options_of(inner), inner.payload)


class Topics(Way):
    """A PUBLISH below ``$coap``; its options are properties, as far as there are any."""

    name = "$coap"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        root = world.fleet.root
        face = CoapFace(world.another(), world.access, world.router, root.members)
        self._asker = TopicAsker(face, lambda _client: ("user", "anna", frozenset()))
        self._peer = self._asker.peer(Client("c1", "anna", "192.0.2.1", 5))

    async def ask(
        self,
        code: int,
        *options: Option,
        payload: bytes = b"",
        path: tuple[bytes, ...] = LAMP,
        peer: CoapPeer = KNOWN,
    ) -> Answer:
        method = {1: "GET", 2: "POST", 3: "PUT", 4: "DELETE", 5: "FETCH", 6: "PATCH", 7: "iPATCH"}
        query = "&".join(value.decode() for number, value in options if number == URI_QUERY)
        where = "/".join(one.decode() for one in path)
        topic = f"$coap/{method[code]}/gw-north/{where}{'?' if query else ''}{query}"
        said = [one for one in options if one[0] != URI_QUERY]
        try:
            stood_for = request_options(_properties(said))
        except PropertyRefusedError as refused:
            return Answer(refused.response.code)
        request = self._asker.request(target(topic), stood_for, payload)
        told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asker.ask(
            request,
            self._peer,
            lambda response, _: told.set_result(
                Answer(response.code, response.options, response.payload)
            ),
        )
        return await asyncio.wait_for(told, 30)

    async def observe(self, code: int, *options: Option) -> Callable[[], Any]:
        told: asyncio.Queue[Answer] = asyncio.Queue()
        request = self._asker.request(target("$coap/observe/gw-north/lamp"), [], b"", observe=True)
        self._asker.ask(
            request,
            self._peer,
            lambda response, _: told.put_nowait(
                Answer(response.code, response.options, response.payload)
            ),
        )
        assert (await asyncio.wait_for(told.get(), 30)).said == "2.05"
        return lambda: asyncio.wait_for(told.get(), 30)


def _properties(options: list[Option]) -> dict[int, Any]:
    """The properties of a PUBLISH that stand for options."""
    properties: dict[int, Any] = {}
    user: list[tuple[str, str]] = []
    for number, value in options:
        if number == CONTENT_FORMAT:
            properties[int(PropertyId.CONTENT_TYPE)] = _MEDIA_TYPES[decode_uint(value)]
        elif number == ACCEPT:
            user.append(("accept", _MEDIA_TYPES[decode_uint(value)]))
        elif number == IF_NONE_MATCH:
            user.append(("if-none-match", ""))
        else:
            name = {ETAG: "etag", IF_MATCH: "if-match"}[number]
            user.append((name, value.hex()))
    properties[int(PropertyId.USER_PROPERTY)] = user
    return properties


def way(name: str, world: World) -> Way:
    """The way of a name."""
    (kind,) = [one for one in (Local, Query, Proxy, Oscore, Topics) if one.name == name]
    return kind(world)
