"""Remote query end to end: CoAP sites in one process, joined by a publish function (row A6)."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import aiocoap
import pytest
from aiocoap.numbers.codes import Code
from dtls_clients import DtlsPeer
from remote_fleet import NORTH, TRUSTING, Fleet, Probe, asking, shown

from coap_engine import codes
from coap_engine.codec import CON, CoapMessage
from coap_engine.message import CoapRequest
from coap_engine.option_numbers import URI_PATH, URI_QUERY
from coap_engine.uint import encode_uint
from dtls.context import ClientContext
from dtls.datagrams import PeerAddress
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from dtls.keystore import Keystore
from gateway.coap.access import Introduction, identity_of
from gateway.coap.operations.status import PATH as STATUS_PATH
from gateway.coap.operations.status import StatusResource
from gateway.coap.peers import udp_peer
from gateway.coap.remote.answers import HITS_MAX
from gateway.coap.server import CoapListener, CoapServer
from gateway.trust.policy.policy import Policy, PolicyRules
from tests.policies import open_access
from tree_handler.remote.message import Query
from tree_handler.remote.resource import ResourceRequest

KEY = b"0123456789abcdef"
REFUSED = b"gw-north: %s (%s by [vouch] through gw-root) may not PUT this"


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


async def test_the_root_of_another_gateway_is_a_resource_of_it_as_well() -> None:
    fleet = Fleet()
    fleet.north.site.add_resource([], Probe())
    async with asking(fleet) as ask:
        assert shown(await ask("GET", NORTH)) == ("2.05", b"21.5")
        assert shown(await ask("GET", "q/-/-/gw-root")) == ("4.04", b"")
    assert fleet.published.count("$hedgerow/query/gw-north") == 1


async def test_an_answer_that_was_kept_under_one_policy_is_asked_for_anew_under_another() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        for _ in range(3):
            assert (await ask("GET", f"{NORTH}/probe?aged")).payload == b"21.5"
        assert len(fleet.north.probe.seen) == 1
        fleet.root.access.follow(Policy(TRUSTING))
        for _ in range(3):
            assert (await ask("GET", f"{NORTH}/probe?aged")).payload == b"21.5"
        assert len(fleet.north.probe.seen) == 2


async def test_1024_answers_are_kept_as_they_are_sent_and_with_one_more_they_are_made_anew() -> (
    None
):
    fleet = Fleet()
    async with asking(fleet) as ask:
        await ask("GET", f"{NORTH}/probe?aged")
        peer = udp_peer(PeerAddress(("192.0.2.1", 40_000)))
        now = asyncio.get_running_loop().time()

        def answer(number: int) -> object:
            path = tuple((URI_PATH, one.encode()) for one in (*NORTH.split("/"), "probe"))
            elective = 65_006, encode_uint(number)
            request = CoapRequest(codes.GET, (*path, (URI_QUERY, b"aged"), elective))
            return fleet.root.remote.answer(request, peer, now)

        kept = [answer(number) for number in range(HITS_MAX)]
        assert all(answer(number) is kept[number] for number in range(HITS_MAX))
        answer(HITS_MAX)
        again = answer(0)
    assert again == kept[0]
    assert again is not kept[0]


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
        made = await ask("POST", f"{NORTH}/probe", b"abc", hop_limit=9)
        known = await ask("GET", f"{NORTH}/probe", etags=[b"\x01", b"\x02"])
        again = await ask("GET", f"{NORTH}/probe", etags=[b"\x01", known.opt.etag])
    _, read, _ = fleet.north.probe.seen
    assert list(read.opt.etags) == [b"\x01", b"\x02"]
    assert made.opt.location_path == ("q", "campus", "north", "gw-north", "probe", "1")
    assert made.opt.location_query == ("v=1",)
    assert shown(again) == ("2.03", b"")
    assert again.opt.etag == known.opt.etag


async def test_preconditions_are_judged_by_the_gateway_with_the_resource() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        etag = (await ask("GET", f"{NORTH}/probe")).opt.etag
        fleet.north.probe.value = b"newer"  # which the one that is asked can't know
        stale = await ask("PUT", f"{NORTH}/probe", b"on", if_match=[b"a", etag])
        there = await ask("PUT", f"{NORTH}/probe", b"on", if_none_match=True)
        assert [shown(one)[0] for one in (stale, there)] == ["4.12", "4.12"]
        assert fleet.north.probe.value == b"newer"
        etag = (await ask("GET", f"{NORTH}/probe")).opt.etag
        assert (await ask("PUT", f"{NORTH}/probe", b"on", if_match=[etag])).code == Code.CHANGED
        for far in ("q/-/-/gw-root/probe", "probe"):
            stale = await ask("PUT", far, b"on", if_match=[b"stale"], request_id=b"\0\1")
            assert stale.code == Code.PRECONDITION_FAILED
    assert fleet.north.probe.value == b"on"
    assert fleet.root.probe.value == b"21.5"


async def test_many_gateways_are_not_asked_what_one_resource_is_to_be() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        refused = await ask("GET", "q/*/*/*/probe", if_match=[b"a"])
    assert refused.code == Code.BAD_OPTION
    assert fleet.north.probe.seen == []


async def test_who_goes_has_what_he_asked_end_at_its_target() -> None:
    fleet = Fleet()
    fleet.north.probe.hold.clear()
    server = CoapServer(
        fleet.root.site,
        coap=None,
        coaps=CoapListener(("127.0.0.1",), 0),
        keystore=Keystore({"meter": KEY}),
        access=open_access(),
        at_hand=(fleet.root.remote,),
    )
    path = tuple((URI_PATH, part.encode()) for part in f"{NORTH}/probe".split("/"))
    async with server, asyncio.timeout(30):
        assert server.coaps_port is not None
        async with DtlsPeer(ClientContext("meter", KEY), server.coaps_port) as peer:
            peer.send(CoapMessage(CON, codes.GET, 1, b"t", path).encode())
            await fleet.north.probe.reached.wait()
        await fleet.north.exchange.idle()
    for node in fleet.nodes.values():
        await node.exchange.stop()
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
        ("q/campus/*/gw-*/probe", {}, "4.00", b"gateway: 'gw-*'"),
        ("q/harbour/*/*/probe", {}, "4.04", b"no gateway at harbour/*/*"),
        ("q/*/*/*/../probe", {}, "4.00", b"request path: ('..', 'probe')"),
        ("q/*/*/*/probe", {"accept": 0}, "4.06", b"one of the formats (110, 112, 60)"),
        (f"{NORTH}/probe/%2E%2E/status", {}, "4.00", b"request path: ('probe', '..', 'status')"),
        (f"{NORTH}//probe", {}, "4.00", b"request path: ('', 'probe')"),
        (f"{NORTH}/probe%2Fa", {}, "4.00", b"request path: ('probe/a',)"),
        (f"{NORTH}/probe", {"hop_limit": 1}, "5.08", b"gw-root"),
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


@pytest.mark.parametrize("lost", ["$hedgerow/query/", "$hedgerow/reply/"])
async def test_a_write_whose_message_is_lost_is_answered_all_the_same_and_carried_out_once(
    lost: str,
) -> None:
    fleet, seen = Fleet(), list[str]()

    def lose(topic: str) -> bool:
        seen.append(topic)
        return topic.startswith(lost) and sum(one.startswith(lost) for one in seen) == 1

    fleet.lose = lose
    async with asking(fleet) as ask:
        assert shown(await ask("PUT", f"{NORTH}/probe", b"30")) == ("2.04", b"")
    assert [one.payload for one in fleet.north.probe.seen] == [b"30"]
    assert fleet.root.exchange.queries.counters.asked_again == 1


async def test_when_the_way_is_another_one_a_request_goes_it_at_once() -> None:
    fleet = Fleet()
    fleet.lose = lambda _topic: True
    async with asking(fleet) as ask:
        asked = asyncio.create_task(ask("PUT", f"{NORTH}/probe", b"30"))
        while not fleet.published:
            await asyncio.sleep(0)
        fleet.lose = lambda _topic: False
        fleet.links["gw-north"] = 2
        fleet.tell_all_moved()
        assert shown(await asked) == ("2.04", b"")
    assert len(fleet.north.probe.seen) == 1


async def test_who_wrote_and_has_no_answer_is_told_that_it_may_have_been_done() -> None:
    fleet = Fleet(deadline_s=0.05)
    async with asking(fleet) as ask:
        response = await ask("PUT", "q/campus/north/gw-dead/probe", b"1")
    why = b"gw-dead did not answer within 0.05 s; it may have been carried out"
    assert shown(response) == ("5.04", why)


async def test_a_write_that_its_client_says_again_is_carried_out_once_and_answered_alike() -> None:
    fleet, lost = Fleet(), ["$hedgerow/reply/gw-root"]
    fleet.lose = lambda topic: topic in lost and not lost.clear()
    put = aiocoap.Message(code=Code.PUT, payload=b"30", uri_path=NORTH.split("/"))
    put.opt.uri_path = (*put.opt.uri_path, "probe")
    put.mtype, put.mid, put.token = aiocoap.CON, 7, b"t"
    loop = asyncio.get_running_loop()
    async with asking(fleet), asyncio.timeout(60):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(("127.0.0.1", fleet.served.coap_port))

            async def answer() -> bytes:
                while (datagram := await loop.sock_recv(client, 2_000))[1] == 0:
                    pass  # an empty acknowledgement: the answer is yet to come
                return datagram

            await loop.sock_sendall(client, put.encode())
            await loop.sock_sendall(client, put.encode())
            first = await answer()
            await loop.sock_sendall(client, put.encode())
            again = await answer()
    assert (first[1], again[1]) == (Code.CHANGED, Code.CHANGED)
    assert len(fleet.north.probe.seen) == 1


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
        (("psk:guest", ("reader",)), ("4.03", REFUSED % (b"psk:guest", b"reader"))),
        (("psk:guest", ("owner",)), ("4.03", REFUSED % (b"psk:guest", b"no role"))),
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
    assert shown(refused) == ("4.03", REFUSED % (b"psk:operator", b"reader"))


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
    fleet.holds_time = lambda: not fleet.north.probe.reached.is_set()
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


# -- what is kept ---------------------------------------------------------------------------------


async def test_what_is_fresh_is_answered_without_asking_again() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        first = await ask("GET", f"{NORTH}/probe?aged")
        again = await ask("GET", f"{NORTH}/probe?aged")
        known = await ask("GET", f"{NORTH}/probe?aged", etags=[first.opt.etag])
    assert shown(again) == shown(first) == ("2.05", b"21.5")
    assert again.opt.max_age in (9, 10)
    assert shown(known) == ("2.03", b"")
    assert len(fleet.north.probe.seen) == 1


async def test_what_somebody_wrote_is_read_anew() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        await ask("GET", f"{NORTH}/probe?aged")
        await ask("PUT", f"{NORTH}/probe", b"on")
        assert shown(await ask("GET", f"{NORTH}/probe?aged")) == ("2.05", b"on")


async def test_what_one_may_read_is_kept_from_another() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        assert shown(await ask("GET", f"{NORTH}/probe?aged")) == ("2.05", b"21.5")
        fleet.root.asker = ("psk:guest", ())
        assert (await ask("GET", f"{NORTH}/probe?aged")).code == Code.FORBIDDEN
        fleet.root.asker = (None, ("operator",))
        await ask("GET", f"{NORTH}/probe?aged")
    assert len(fleet.north.probe.seen) == 2


async def test_what_is_no_longer_fresh_is_validated_and_its_body_stays_where_it_is() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        await ask("GET", f"{NORTH}/probe?stale")
        assert shown(await ask("GET", f"{NORTH}/probe?stale")) == ("2.05", b"21.5")
    assert fleet.root.remote.cache.counters.validated == 1


@pytest.mark.parametrize("path", [f"{NORTH}/probe", "q/campus/*/gw-north/probe"])
async def test_what_is_gone_while_it_is_validated_is_asked_for_whole(path: str) -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        assert (await ask("GET", f"{path}?stale")).code == Code.CONTENT
        fleet.north.probe.hold.clear()
        fleet.north.probe.reached.clear()
        validating = asyncio.create_task(ask("GET", f"{path}?stale"))
        await fleet.north.probe.reached.wait()
        fleet.root.remote.changed("gw-north", ("probe",))  # as when somebody writes
        fleet.north.probe.hold.set()
        answer = await validating
    assert answer.code == Code.CONTENT
    assert b"21.5" in answer.payload
    assert b"2.03" not in answer.payload


async def test_bodies_of_64_kib_pass_both_ways_and_longer_ones_do_not() -> None:
    fleet = Fleet()
    body = bytes(range(256)) * 256
    async with asking(fleet) as ask:
        assert (await ask("PUT", f"{NORTH}/probe", body)).code == Code.CHANGED
        assert (await ask("GET", f"{NORTH}/probe")).payload == body
        refused = await ask("PUT", f"{NORTH}/probe", body + b"x")
    assert refused.code == Code.REQUEST_ENTITY_TOO_LARGE
    assert fleet.north.probe.value == body


async def test_what_is_kept_is_answered_as_often_as_it_is_asked_for_and_counted() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        answers = [await ask("GET", f"{NORTH}/probe?aged") for _ in range(4)]
        hits = fleet.root.remote.cache.counters.hits
        assert len(fleet.north.probe.seen) == 1
        fleet.root.remote.changed("gw-north", ("probe",))
        await ask("GET", f"{NORTH}/probe?aged")
    assert {shown(one) for one in answers} == {("2.05", b"21.5")}
    assert hits == 3
    assert len(fleet.north.probe.seen) == 2
