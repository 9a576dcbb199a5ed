"""CoAP sites of two gateways in one process, joined by a function, for tests of remote queries."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import aiocoap
from aiocoap import resource
from aiocoap.numbers.codes import Code
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.optiontypes import OpaqueOption

from coap_engine import codes
from coap_engine.codec import ACK, CON, RST, CoapMessage, decode
from coap_engine.message import CoapPeer
from coap_engine.option_numbers import REQUEST_ID
from dtls.keystore import Keystore
from gateway.base.steady_clock import steady_clock
from gateway.base.write_turns import WriteTurns
from gateway.coap.access import CoapAccess, Introduction
from gateway.coap.remote.answers import RemoteAnswers
from gateway.coap.remote.exchange import RemoteExchange
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.forward_proxy import ForwardProxy
from gateway.coap.remote.named_answers import NamedAnswers
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.responders import ImmediateResponder
from gateway.coap.server import CoapListener, CoapRules, CoapServer
from gateway.trust.policy.action import ActionPlace
from gateway.trust.policy.policy import Policy, PolicyRules
from tests.policies import open_access
from tree_handler.members.hierarchy import MemberRecord, Membership
from tree_handler.remote.executing import REPLY_TOPIC
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.query import QUERY_TOPIC, RemoteQueries
from tree_handler.routing.locator import GatewayLocation

PLACES = {"gw-root": ("", ""), "gw-north": ("campus", "north"), "gw-dead": ("campus", "north")}
NORTH = "q/campus/north/gw-north"
TRUSTING = PolicyRules(vouched={"*": frozenset({"operator"})})


class Probe(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """A resource that shows what reaches it, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.value = b"21.5"
        self.seen: list[Any] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.reached = asyncio.Event()

    async def render_get(self, request: Any) -> Any:
        self.seen.append(request)
        self.reached.set()
        await self.hold.wait()
        match request.opt.uri_query:
            case ("aged",):
                return aiocoap.Message(payload=self.value, content_format=0, max_age=10)
            case ("stale",):
                return aiocoap.Message(payload=self.value, content_format=0, max_age=0)
            case ("fail",):
                raise ZeroDivisionError
            case ("huge",):
                return aiocoap.Message(payload=bytes(70_000))
            case ("large",):
                return aiocoap.Message(payload=b"0123456789" * 500, content_format=42)
        if request.opt.accept == 60:
            raise aiocoap.error.NotAcceptable
        return aiocoap.Message(payload=self.value, content_format=0)

    async def render_put(self, request: Any) -> Any:
        self.seen.append(request)
        self.value = request.payload
        return aiocoap.Message(code=Code.CHANGED)

    async def render_post(self, request: Any) -> Any:
        self.seen.append(request)
        made = aiocoap.Message(code=Code.CREATED, payload=request.payload[::-1])
        made.opt.location_path = ("probe", "1")
        made.opt.location_query = ("v=1",)
        return made

    async def render_fetch(self, request: Any) -> Any:
        return self._named("FETCH", request)

    async def render_patch(self, request: Any) -> Any:
        return self._named("PATCH", request)

    async def render_ipatch(self, request: Any) -> Any:
        return self._named("iPATCH", request)

    def _named(self, method: str, request: Any) -> Any:
        self.seen.append(request)
        payload = f"{method} ".encode() + request.payload
        return aiocoap.Message(code=Code.CHANGED, payload=payload)

    async def render_delete(self, request: Any) -> Any:
        self.seen.append(request)
        return aiocoap.Message(code=Code.DELETED)


class Introducing:
    """A gateway's own `CoapAccess`, but that it says who a test wants to be."""

    def __init__(self, access: CoapAccess) -> None:
        self._access = access
        self.asker: Introduction = ("psk:operator", ("operator",))

    def introduction(self, peer: CoapPeer) -> Introduction:
        return self.asker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)


class Node:
    """One gateway's CoAP side."""

    def __init__(
        self,
        gateway_id: str,
        fleet: Fleet,
        *,
        policy: PolicyRules,
        deadline_s: float,
        max_outstanding: int,
        places: Mapping[str, tuple[str, str]],
    ) -> None:
        self.site = resource.Site()
        self.probe = Probe()
        self.site.add_resource(["probe"], self.probe)
        self.site.add_resource([".well-known", "core"], resource.WKCResource(self.links))
        members = self.members = Membership()
        for number, (name, (domain, group)) in enumerate(places.items(), 1):
            members.update(MemberRecord(name, 1, 1, domain, group, f"10.0.0.{number}", 1883))
        place = places[gateway_id]
        access = CoapAccess(Policy(policy, ActionPlace(gateway_id, *place)))
        self.access = Introducing(access)
        self.turns = WriteTurns()
        execution = LocalExecution(self.site, gateway_id, access, turns=self.turns)
        queries = RemoteQueries(
            gateway_id, 1, QueryLimits(asked=max_outstanding), way_to=fleet.way_to
        )
        self.exchange = RemoteExchange(queries, fleet.send, execution, fleet.now)
        fleet.tell_of_moves(self.exchange.moved)
        self.parts = RemoteParts(
            gateway_id,
            members,
            execution,
            self.exchange,
            self.access,
            reach=fleet,
            limits=DEFAULT_LIMITS,
            deadline_s=deadline_s,
        )
        self.remote = RemoteAnswers(self.parts)
        self.named = NamedAnswers(execution, self.access)

    @property
    def asker(self) -> Introduction:
        return self.access.asker

    @asker.setter
    def asker(self, asker: Introduction) -> None:
        self.access.asker = asker

    def links(self) -> Any:
        return self.site.get_resources_as_linkheader()


class Fleet:
    """gw-root, asked over CoAP, and gw-north behind it; gw-dead has a record and no process."""

    def __init__(
        self,
        *,
        policy: PolicyRules = TRUSTING,
        deadline_s: float = 30.0,
        max_outstanding: int = 8,
        places: Mapping[str, tuple[str, str]] = PLACES,
        silent: Collection[str] = ("gw-dead",),
    ) -> None:
        self.published: list[str] = []
        self._unanswered = 0
        self.lose: Callable[[str], bool] = lambda _topic: False
        self.holds_time: Callable[[], bool] = self.is_owed_answers
        self._clock = steady_clock()
        self._now_s = self._clock()
        self.on_the_way = 0  # gateways that pass each message on
        self.epochs: dict[str, int | None] = dict.fromkeys(places, 1)
        self.links: dict[str, int] = {}
        self.tell_moved: list[Callable[[float], None]] = []
        self.nodes = {
            name: Node(
                name,
                self,
                policy=policy,
                deadline_s=deadline_s,
                max_outstanding=max_outstanding,
                places=places,
            )
            for name in places
            if name not in silent
        }
        self.root = self.nodes["gw-root"]

    @property
    def north(self) -> Node:
        """The one of most tests."""
        return self.nodes["gw-north"]

    def epoch_of(self, gateway_id: str) -> int | None:
        return self.epochs.get(gateway_id)

    def way_to(self, gateway_id: str) -> GatewayLocation | None:
        epoch = self.epochs.get(gateway_id)
        return None if epoch is None else GatewayLocation(self.links.get(gateway_id, 1), epoch)

    def tell_all_moved(self) -> None:
        for told in self.tell_moved:
            told(asyncio.get_running_loop().time())

    def tell_of_moves(self, told: Callable[[float], None]) -> None:
        self.tell_moved.append(told)

    def now(self) -> float:
        """Seconds by which gateways wait for each other; they stand still while a test needs it."""
        if not self.holds_time():
            self._now_s = self._clock()
        return self._now_s

    def is_owed_answers(self) -> bool:
        """Return whether a gateway that lives has yet to answer; a slow machine takes its time."""
        return self._unanswered > 0

    def send(self, _receiver: str, topic: str, payload: bytes) -> None:
        self.published.append(topic)
        if self.lose(topic):
            self._unanswered -= topic.startswith(REPLY_TOPIC)
            return
        for node in self.nodes.values():
            if topic in node.exchange.queries.topics:
                self._unanswered += topic.startswith(QUERY_TOPIC)
                asyncio.get_running_loop().call_soon(self._hand_over, node, topic, payload)

    def _hand_over(self, node: Node, topic: str, payload: bytes) -> None:
        node.exchange.receive(topic, payload, self.on_the_way)
        self._unanswered -= topic.startswith(REPLY_TOPIC)


class RawObserver:
    """One who asks the root with Observe over a socket of its own, and leaves as a test says.

    Args:
        fleet: which is served.
        path: what it observes.
        more: further options of its request, with greater numbers than the path's.

    """

    def __init__(self, fleet: Fleet, path: str, *more: tuple[int, bytes]) -> None:
        segments = ((int(OptionNumber.URI_PATH), one.encode()) for one in path.split("/"))
        self._options = (*segments, *more)
        self._numbers = itertools.count(1)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.connect(("127.0.0.1", fleet.served.coap_port))

    def __enter__(self) -> RawObserver:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    async def ask(self, observe: bytes = b"") -> None:
        """Ask with this value of Observe: 0 begins, 1 ends."""
        options = ((int(OptionNumber.OBSERVE), observe), *self._options)
        await self._say(CoapMessage(CON, codes.GET, next(self._numbers), b"t", options))

    async def hear(self) -> CoapMessage:
        """The next message with a payload; an answer that wants it is acknowledged."""
        loop = asyncio.get_running_loop()
        while not (heard := decode(await loop.sock_recv(self._socket, 2_000))).payload:
            pass
        if heard.type == CON:
            await self._say(CoapMessage(ACK, 0, heard.message_id))
        return heard

    async def reset(self, heard: CoapMessage) -> None:
        """Answer a notification as who waits for none."""
        await self._say(CoapMessage(RST, 0, heard.message_id))

    async def _say(self, message: CoapMessage) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, message.encode())


Ask = Callable[..., Coroutine[Any, Any, Any]]


@contextlib.asynccontextmanager
async def asking(
    fleet: Fleet, at: str = "gw-root", *, further: Sequence[ImmediateResponder] = ()
) -> AsyncIterator[Ask]:
    """Serve a gateway over CoAP on loopback; yields a function that sends it a request.

    Args:
        fleet: of which.
        at: which.
        further: what it answers besides.

    """
    node = fleet.nodes[at]
    server = CoapServer(
        node.site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=Keystore({}),
        access=open_access(),  # so that the checks behind it are what decides here
        at_hand=(node.remote, node.named, *further),
        rules=CoapRules(router=ForwardProxy(at, node.members), turns=node.turns),
    )
    await server.start()
    fleet.served = server
    fleet.client = client = await aiocoap.Context.create_client_context(transports=["simple6"])

    async def ask(method: str, path: str, payload: bytes = b"", **options: Any) -> Any:
        message = aiocoap.Message(
            code=getattr(Code, method),
            uri=f"coap://127.0.0.1:{server.coap_port}/{path}",
            payload=payload,
        )
        for name, value in options.items():
            if name == "hop_limit":
                message.opt.add_option(OptionNumber.HOP_LIMIT.create_option(value=value))
            elif name == "request_id":
                message.opt.add_option(OpaqueOption(OptionNumber(REQUEST_ID), value))
            else:
                setattr(message.opt, name, value)
        return await client.request(message).response

    try:
        yield ask
    finally:
        await client.shutdown()
        await server.stop()
        for node in fleet.nodes.values():
            await node.exchange.stop()


def shown(response: Any) -> tuple[str, bytes]:
    return response.code.dotted, response.payload
