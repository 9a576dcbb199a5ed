"""Remote query end to end: CoAP sites in one process, joined by a publish function (row A6)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import aiocoap
import pytest
from aiocoap import resource
from aiocoap.numbers.codes import Code
from aiocoap.numbers.optionnumbers import OptionNumber

from coap_engine.message import CoapPeer
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from dtls.keystore import Keystore
from gateway.coap.access import CoapAccess, Introduction, identity_of
from gateway.coap.execution import LocalExecution
from gateway.coap.remote import RemoteAnswers, RemoteParts
from gateway.coap.remote_exchange import RemoteExchange, Send
from gateway.coap.server import CoapListener, CoapServer
from gateway.coap.status import PATH as STATUS_PATH
from gateway.coap.status import StatusResource
from gateway.policy.action import Where
from gateway.policy.policy import Policy, PolicyRules
from tests.policies import open_access
from tree_handler.hierarchy import MemberRecord, Membership
from tree_handler.remote_message import Query
from tree_handler.remote_query import RemoteQueries
from tree_handler.remote_resource import ResourceRequest

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


class Introducing(CoapAccess):
    """Says who a test wants to be."""

    asker: Introduction = ("psk:operator", ("operator",))

    def introduction(self, peer: CoapPeer) -> Introduction:
        return self.asker


class Node:
    """One gateway's CoAP side."""

    def __init__(
        self,
        gateway_id: str,
        send: Send,
        *,
        policy: PolicyRules,
        deadline_s: float,
        max_outstanding: int,
    ) -> None:
        self.site = resource.Site()
        self.probe = Probe()
        self.site.add_resource(["probe"], self.probe)
        self.site.add_resource([".well-known", "core"], resource.WKCResource(self.links))
        members = Membership()
        for number, (name, (domain, group)) in enumerate(PLACES.items(), 1):
            members.update(MemberRecord(name, 1, 1, domain, group, f"10.0.0.{number}", 1883))
        place = PLACES[gateway_id]
        self.access = Introducing(Policy(policy, Where(gateway_id, *place)))
        execution = LocalExecution(self.site, gateway_id, self.access)
        queries = RemoteQueries(gateway_id, 1, max_outstanding=max_outstanding)
        self.exchange = RemoteExchange(queries, send, execution)
        self.remote = RemoteAnswers(
            RemoteParts(
                gateway_id, members, execution, self.exchange, self.access, deadline_s=deadline_s
            )
        )

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
    ) -> None:
        self.published: list[str] = []
        self.nodes = {
            name: Node(
                name,
                self.send,
                policy=policy,
                deadline_s=deadline_s,
                max_outstanding=max_outstanding,
            )
            for name in ("gw-root", "gw-north")
        }
        self.root, self.north = self.nodes["gw-root"], self.nodes["gw-north"]

    def send(self, _receiver: str, topic: str, payload: bytes) -> None:
        self.published.append(topic)
        for node in self.nodes.values():
            if topic in node.exchange.queries.topics:
                asyncio.get_running_loop().call_soon(node.exchange.receive, topic, payload)


Ask = Callable[..., Coroutine[Any, Any, Any]]


@contextlib.asynccontextmanager
async def asking(fleet: Fleet) -> AsyncIterator[Ask]:
    """Serve gw-root over CoAP on loopback; yields a function that sends it a request."""
    server = CoapServer(
        fleet.root.site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=Keystore({}),
        access=open_access(),  # so that the checks behind it are what decides here
        at_hand=(fleet.root.remote,),
    )
    await server.start()
    fleet.served = server
    client = await aiocoap.Context.create_client_context(transports=["simple6"])

    async def ask(method: str, path: str, payload: bytes = b"", **options: Any) -> Any:
        message = aiocoap.Message(
            code=getattr(Code, method),
            uri=f"coap://127.0.0.1:{server.coap_port}/{path}",
            payload=payload,
        )
        for name, value in options.items():
            if name == "hop_limit":
                message.opt.add_option(OptionNumber.HOP_LIMIT.create_option(value=value))
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


async def test_a_resource_of_another_gateway_answers_as_if_it_were_here() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        response = await ask("GET", f"{NORTH}/probe?unit=Cel&raw", accept=0)
    assert shown(response) == ("2.05", b"21.5")
    assert response.opt.content_format == 0
    [seen] = fleet.north.probe.seen
    assert seen.opt.uri_query == ("unit=Cel", "raw")
    assert seen.opt.accept == 0
    assert fleet.published == ["$hedgerow/query/gw-north", "$hedgerow/reply/gw-root"]


async def test_every_method_passes_with_body_format_and_code() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        assert shown(await ask("PUT", f"{NORTH}/probe", b"on", content_format=0)) == ("2.04", b"")
        assert fleet.north.probe.seen[-1].opt.content_format == 0
        assert shown(await ask("GET", f"{NORTH}/probe")) == ("2.05", b"on")
        assert shown(await ask("POST", f"{NORTH}/probe", b"abc")) == ("2.01", b"cba")
        assert shown(await ask("DELETE", f"{NORTH}/probe")) == ("2.02", b"")
        for method in ("FETCH", "PATCH", "iPATCH"):
            answer = await ask(method, f"{NORTH}/probe", b"abc", content_format=0)
            assert shown(answer) == ("2.04", f"{method} abc".encode())


async def test_options_of_requests_and_answers_pass() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        await ask("PUT", f"{NORTH}/probe", b"on", if_match=[b"a", b"bc"], hop_limit=9)
        await ask("PUT", f"{NORTH}/probe", b"on", if_none_match=True)
        made = await ask("POST", f"{NORTH}/probe", b"abc")
        known = await ask("GET", f"{NORTH}/probe", etags=[b"\x01", b"\x02"])
        again = await ask("GET", f"{NORTH}/probe", etags=[b"\x01", known.opt.etag])
    first, second, _, third, _ = fleet.north.probe.seen
    assert list(first.opt.if_match) == [b"a", b"bc"]
    assert second.opt.if_none_match
    assert list(third.opt.etags) == [b"\x01", b"\x02"]
    assert made.opt.location_path == ("q", "campus", "north", "gw-north", "probe", "1")
    assert made.opt.location_query == ("v=1",)
    assert shown(again) == ("2.03", b"")
    assert again.opt.etag == known.opt.etag


async def test_who_goes_has_what_he_asked_end_at_its_target() -> None:
    fleet = Fleet()
    fleet.north.probe.hold.clear()
    async with asking(fleet) as ask:
        asked = asyncio.create_task(ask("GET", f"{NORTH}/probe"))
        await fleet.north.probe.reached.wait()
        [exchange] = fleet.served._answers._open
        fleet.served._answers.ended(exchange)  # as after a Reset, or when a session is gone
        await fleet.north.exchange.idle()
    with pytest.raises(aiocoap.error.LibraryShutdown):
        await asked
    assert fleet.published == ["$hedgerow/query/gw-north", "$hedgerow/cancel/gw-north"]
    assert fleet.north.exchange.queries.counters.cancelled == 1


async def test_a_resource_of_this_gateway_is_answered_without_the_tree() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        assert shown(await ask("GET", "q/-/-/gw-root/probe")) == ("2.05", b"21.5")
    assert fleet.published == []


async def test_well_known_core_of_another_gateway_is_read_through_this_one() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        response = await ask("GET", f"{NORTH}/.well-known/core")
    assert response.opt.content_format == 40
    assert b"</probe>" in response.payload


async def test_long_bodies_pass_in_blocks_at_the_entry_and_whole_over_the_tree() -> None:
    fleet = Fleet()
    body = bytes(range(256)) * 20
    async with asking(fleet) as ask:
        assert (await ask("PUT", f"{NORTH}/probe", body)).code == Code.CHANGED
        assert fleet.north.probe.value == body
        response = await ask("GET", f"{NORTH}/probe?large")
    assert response.payload == b"0123456789" * 500
    assert response.opt.content_format == 42
    assert fleet.published.count("$hedgerow/query/gw-north") == 2


async def test_errors_of_the_resource_come_back_as_they_are() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        assert (await ask("GET", f"{NORTH}/nothing")).code == Code.NOT_FOUND
        assert (await ask("GET", f"{NORTH}/probe", accept=60)).code == Code.NOT_ACCEPTABLE
        assert (await ask("GET", f"{NORTH}/probe?fail")).code == Code.INTERNAL_SERVER_ERROR
        huge = await ask("GET", f"{NORTH}/probe?huge")
    assert shown(huge) == ("5.00", b"gw-north: response payload too large, bytes: 70000")


@pytest.mark.parametrize(
    ("path", "options", "code", "diagnostic"),
    [
        ("q/campus/north", {}, "4.00", b"path is not /q/<domain>/<group>/<node>/<path>"),
        ("q/-/-/gw-east/probe", {}, "4.04", b"no gateway gw-east"),
        (
            "q/campus/south/gw-north/probe",
            {},
            "4.04",
            b"gateway gw-north is not at campus/south but at campus/north",
        ),
        ("q/Campus/-/gw-north/probe", {}, "4.00", b"domain: 'Campus'"),
        ("q/campus/+/gw-north/probe", {}, "4.00", b"several gateways"),
        ("q/*/*/*/probe", {}, "4.00", b"several gateways"),
        (f"{NORTH}/probe/%2E%2E/status", {}, "4.00", b"request path: ('probe', '..', 'status')"),
        (f"{NORTH}//probe", {}, "4.00", b"request path: ('', 'probe')"),
        (f"{NORTH}/probe%2Fa", {}, "4.00", b"request path: ('probe/a',)"),
        (f"{NORTH}/probe", {"hop_limit": 1}, "5.08", b"Hop-Limit"),
        (
            f"{NORTH}/q/-/-/gw-root/probe",
            {},
            "4.00",
            b"a remote query must not lead to another one",
        ),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_the_reason(
    path: str, options: dict[str, Any], code: str, diagnostic: bytes
) -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        assert shown(await ask("GET", path, **options)) == (code, diagnostic)
    assert fleet.published == []


async def test_a_gateway_that_does_not_answer_is_a_gateway_timeout() -> None:
    fleet = Fleet(deadline_s=0.05)
    async with asking(fleet) as ask:
        response = await ask("GET", "q/campus/north/gw-dead/probe")
    assert shown(response) == ("5.04", b"gw-dead did not answer within 0.05 s")


async def test_too_many_queries_are_refused_with_the_time_to_wait() -> None:
    fleet = Fleet(max_outstanding=1)
    fleet.north.probe.hold.clear()
    async with asking(fleet) as ask:
        first = asyncio.create_task(ask("GET", f"{NORTH}/probe"))
        await fleet.north.probe.reached.wait()
        refused = await ask("GET", f"{NORTH}/probe")
        assert shown(refused) == ("5.03", b"1 remote queries outstanding")
        assert 1 <= refused.opt.max_age <= 30
        fleet.north.probe.hold.set()
        assert shown(await first) == ("2.05", b"21.5")


@pytest.mark.parametrize(
    ("asker", "refused"),
    [
        (("psk:operator", ("operator",)), None),
        (("psk:guest", ("reader",)), ("4.03", b"gw-north: psk:guest (reader) may not PUT this")),
        (("psk:guest", ("owner",)), ("4.03", b"gw-north: psk:guest (no role) may not PUT this")),
        (("local", ("admin",)), ("4.01", b"gw-north: this needs a key (coaps)")),
        ((None, ("reader",)), ("4.01", b"gw-north: this needs a key (coaps)")),
    ],
)
async def test_a_write_is_decided_where_it_is_executed(
    asker: Introduction, refused: tuple[str, bytes] | None
) -> None:
    fleet = Fleet()
    fleet.root.asker = asker
    async with asking(fleet) as ask:
        answer = await ask("PUT", f"{NORTH}/probe", b"on")
    assert shown(answer) == (refused or ("2.04", b""))
    assert fleet.north.probe.value == (b"21.5" if refused else b"on")


async def test_a_gateway_vouches_for_no_more_than_the_other_one_lets_it() -> None:
    fleet = Fleet(policy=PolicyRules())  # where nothing is said it is readers
    async with asking(fleet) as ask:
        assert shown(await ask("GET", f"{NORTH}/probe")) == ("2.05", b"21.5")
        refused = await ask("PUT", f"{NORTH}/probe", b"on")
    assert shown(refused) == ("4.03", b"gw-north: psk:operator (reader) may not PUT this")


async def test_a_gateway_that_names_the_other_one_as_the_asker_wins_nothing() -> None:
    fleet = Fleet(policy=PolicyRules())
    request = ResourceRequest("PUT", ("probe",), payload=b"on", identity="psk:a", roles=("admin",))
    forged = Query("gw-north", "1-1", 5_000, request)
    fleet.north.exchange.receive("$hedgerow/query/gw-north", forged.encode())
    await fleet.north.exchange.idle()
    assert fleet.north.probe.value == b"21.5"


async def test_the_executing_resource_sees_the_original_peer() -> None:
    fleet = Fleet()
    seen = fleet.north.probe.seen
    async with asking(fleet) as ask:
        await ask("GET", f"{NORTH}/probe")
        for kind in ("a-later-proof:operator", None):
            fleet.root.asker = (kind, ("operator",))
            await ask("GET", f"{NORTH}/probe")
    named, anonymous = seen  # of the unknown proof nothing is believed
    assert named.remote.authenticated_claims == ("psk:operator",)
    assert identity_of(named) == PeerIdentity(Proof.PSK, "operator")
    assert (str(named.remote.principal), named.remote.principal.via) == ("psk:operator", "gw-root")
    assert anonymous.remote.authenticated_claims == ()
    assert identity_of(anonymous) == ANONYMOUS


async def test_a_malformed_message_is_reported_and_the_next_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        fleet.north.exchange.receive("$hedgerow/query/gw-north", b"\xc1")
        assert shown(await ask("GET", f"{NORTH}/probe")) == ("2.05", b"21.5")
    assert "$hedgerow/query/gw-north: query: b'\\xc1'" in " ".join(caplog.messages)


async def test_an_execution_ends_with_the_deadline_of_its_asker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet(deadline_s=0.05)
    fleet.north.probe.hold.clear()
    async with asking(fleet) as ask:
        assert (await ask("GET", f"{NORTH}/probe")).code == Code.GATEWAY_TIMEOUT
        await fleet.north.exchange.idle()
    assert "remote query of gw-root not done in time: 1-1" in " ".join(caplog.messages)
    assert fleet.published == ["$hedgerow/query/gw-north"]


async def test_stopping_leaves_no_task_and_no_one_waiting() -> None:
    fleet = Fleet()
    fleet.north.probe.hold.clear()
    before = asyncio.all_tasks()
    request = ResourceRequest("GET", ("probe",), identity="psk:a", roles=("reader",))
    asked = asyncio.create_task(fleet.root.exchange.ask("gw-north", 1, request, 30.0))
    await fleet.north.probe.reached.wait()
    for node in fleet.nodes.values():
        await node.exchange.stop()
    with pytest.raises(TimeoutError):
        await asked
    # aiocoap's rendering task was cancelled with the execution and ends in its next turn.
    await asyncio.gather(*asyncio.all_tasks() - before, return_exceptions=True)
    assert asyncio.all_tasks() == before


async def test_status_is_json_of_what_the_gateway_says() -> None:
    fleet = Fleet()
    state = {"id": "gw-root", "parent": None, "neighbours": ["gw-north"]}
    fleet.root.site.add_resource(STATUS_PATH, StatusResource(lambda: state, lambda _: True))
    async with asking(fleet) as ask:
        response = await ask("GET", "status")
        assert json.loads(response.payload) == state
        assert response.opt.content_format == 50
        assert (await ask("GET", "status", accept=60)).code == Code.NOT_ACCEPTABLE
        links = await ask("GET", ".well-known/core?rt=hedgerow.status")
    assert links.payload == b'</status>;ct="50";rt="hedgerow.status"'
