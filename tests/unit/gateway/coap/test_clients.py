"""An operator sees who is connected, and ends a connection: what the broker tells and does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import aiocoap
import pytest
from aiocoap import error
from aiocoap.numbers.codes import Code
from hypothesis import given
from hypothesis import strategies as st
from loop_turns import LoopTurns, each_row_alone, turns
from mqtt_peer import Bench

from dtls.datagrams import PeerAddress
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.broker.client_roll import IDS_AT_ONCE, PAGE, ClientRoll
from gateway.broker.hooks import Client
from gateway.coap.operations.clients import BUSIEST, PATH, ClientsResource
from gateway.coap.requester import plain_requester
from gateway.mqtt import Disconnect, PropertyId, ReasonCode, Version, Will
from gateway.mqtt.kinds import V5
from gateway.tools.commands.clients import as_table, as_text, query
from tests.policies import access_of

KEEP = {"properties": {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}}
NOW_S = 1_700_000_000.0


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(anonymous=True)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def roll(bench: Bench) -> ClientRoll:
    return ClientRoll(bench.broker.core, lambda: NOW_S)


async def gone(bench: Bench, client_id: str) -> None:
    """Wait until a client is away or its session has ended."""
    async with asyncio.timeout(60):
        while (session := bench.broker.core.sessions.get(client_id)) and session.channel:
            await asyncio.sleep(0.01)


async def test_the_list_tells_who_is_there_and_what_waits_for_those_that_are_away(
    bench: Bench, roll: ClientRoll
) -> None:
    here = await bench.connect("here", username="alice")
    await here.subscribe("a/#")
    await here.subscribe("b/+")
    away = await bench.connect("away", **KEEP)
    await away.subscribe("a/#")
    away.send(Disconnect(ReasonCode.NORMAL_DISCONNECTION))
    await gone(bench, "away")
    for _ in range(3):
        await (await bench.connect("source")).publish("a/1")
    page = await roll.page()
    assert (page["count"], page["has_more"]) == (3, False)
    by_id = {one["id"]: one for one in page["clients"]}
    assert list(by_id) == ["away", "here", "source"]
    assert by_id["here"] | {"since_s": 0} == {
        "id": "here",
        "user": "alice",
        "address": "127.0.0.1",
        "protocol": "MQTT 5.0",
        "is_connected": True,
        "since_s": 0,
        "subscriptions": 2,
        "queued": 0,
        "inflight": 3,
        "dropped": 0,
    }
    assert by_id["away"]["queued"] == 3
    assert not by_id["away"]["is_connected"]
    assert all(NOW_S - 60 < one["since_s"] <= NOW_S for one in by_id.values())


async def test_pages_together_are_all_clients_each_once(bench: Bench, roll: ClientRoll) -> None:
    names = sorted(f"c{number}" for number in range(PAGE + 20))
    for name in names:
        await bench.connect(name)
    first = await roll.page()
    second = await roll.page(first["clients"][-1]["id"])
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert [one["id"] for one in (*first["clients"], *second["clients"])] == names


async def test_no_turn_of_the_loop_tells_more_clients_than_it_may(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    for number in range(PAGE):
        await bench.connect(f"c{number}")
    for busiest in (False, True):
        counted = LoopTurns()

        def wall_clock(counted: LoopTurns = counted) -> float:  # asked once for each that is told
            counted.note()
            return NOW_S

        roll = ClientRoll(bench.broker.core, wall_clock)
        told = await (roll.busiest(PAGE) if busiest else roll.page())
        assert len(told["clients"]) == PAGE
        assert max(counted.stop().values()) == 1


async def test_who_goes_between_two_turns_is_not_told_and_all_others_are_once(
    bench: Bench, roll: ClientRoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    names = sorted(f"c{number}" for number in range(PAGE))
    for name in names:
        await bench.connect(name)
    asking = asyncio.create_task(roll.page())
    await turns(3)
    assert not asking.done()
    for gone in (names[0], names[-1]):
        roll.kick(gone, forget=True)
    came = await bench.connect("c-new")
    told = [one["id"] for one in (await asking)["clients"]]
    assert [one for one in told if one in names[1:-1]] == names[1:-1]
    assert names[-1] not in told
    await came.nothing_came()


async def test_a_page_whose_clients_have_all_gone_meanwhile_is_the_next_one(
    bench: Bench, roll: ClientRoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    sessions = bench.broker.core.sessions
    names = [f"c{number:04}" for number in range(IDS_AT_ONCE + PAGE)]
    for name in names:
        sessions.restore(sessions.new(Client.away(name, None, None, V5)))
    asking = asyncio.create_task(roll.page())
    await turns(2)
    for name in names[:PAGE]:
        session = sessions.get(name)
        assert session is not None
        sessions.end(session)
    assert not asking.done()
    told = await asking
    assert [one["id"] for one in told["clients"]] == names[PAGE : 2 * PAGE]


async def test_the_busiest_stand_first_by_what_passed_since_they_were_sought(
    bench: Bench, roll: ClientRoll
) -> None:
    loud, other = await bench.connect("loud"), await bench.connect("other")
    await bench.connect("silent")
    for _ in range(3):
        await loud.publish("a/1", b"x" * 500)
    first = await roll.busiest(2)
    assert (first["count"], first["connected"]) == (3, 3)
    assert first["clients"][0]["id"] == "loud"
    assert len(first["clients"]) == 2
    assert first["clients"][0]["bytes_read"] > 1500
    assert first["clients"][0]["packets_read"] == 4  # CONNECT and three PUBLISH
    assert first["clients"][0]["packets_sent"] == 4  # CONNACK and three PUBACK
    await other.publish("a/1", b"x")
    assert [one["id"] for one in (await roll.busiest(1))["clients"]] == ["other"]


async def test_of_the_busiest_no_more_are_told_than_of_a_page(
    bench: Bench, roll: ClientRoll
) -> None:
    for number in range(PAGE + 5):
        await bench.connect(f"c{number}")
    told = await roll.busiest(9999)
    assert (len(told["clients"]), told["connected"]) == (PAGE, PAGE + 5)


async def test_one_client_is_told_with_its_filters(bench: Bench, roll: ClientRoll) -> None:
    will = Will("last/words", b"", 0, False, {})
    peer = await bench.connect("meter", will=will, **KEEP)
    await peer.subscribe("a/#", 2)
    told = roll.one("meter")
    assert told is not None
    assert (told["will"], told["expiry_s"], told["reads"]) == ("last/words", 3600, True)
    assert told["filters"] == [
        {
            "filter": "a/#",
            "qos": 2,
            "no_local": False,
            "retain_as_published": False,
            "identifier": 0,
        }
    ]
    assert roll.one("nobody") is None


async def test_a_kicked_5_0_client_is_told_0x98_and_finds_its_session_when_it_comes_back(
    bench: Bench, roll: ClientRoll
) -> None:
    peer = await bench.connect("meter", **KEEP)
    await peer.subscribe("a/#")
    kicked = roll.kick("meter")
    assert kicked is not None
    assert (kicked.was_connected, kicked.is_forgotten) == (True, False)
    answer = await peer.next()
    assert isinstance(answer, Disconnect)
    assert answer.reason == ReasonCode.ADMINISTRATIVE_ACTION
    assert await peer.next() is None
    again = roll.kick("meter")
    assert again is not None
    assert not again.was_connected
    back = await bench.connect("meter", clean_start=False, **KEEP)
    told = roll.one("meter")
    assert told is not None
    assert told["subscriptions"] == 1
    back.close()


async def test_a_kicked_3_1_1_client_is_closed_without_a_packet(
    bench: Bench, roll: ClientRoll
) -> None:
    peer = await bench.open(version=Version.V311)
    assert await peer.connect("old", clean_start=False) == 0
    assert roll.kick("old") is not None
    assert await peer.next() is None
    assert roll.one("old") is not None


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_forgotten_client_has_no_session_any_more(
    bench: Bench, roll: ClientRoll, is_away: bool
) -> None:
    peer = await bench.connect("meter", **KEEP)
    await peer.subscribe("a/#")
    if is_away:
        peer.send(Disconnect(ReasonCode.NORMAL_DISCONNECTION))
        await gone(bench, "meter")
    kicked = roll.kick("meter", forget=True)
    assert kicked is not None
    assert (kicked.was_connected, kicked.is_forgotten) == (not is_away, True)
    await gone(bench, "meter")
    assert roll.one("meter") is None
    assert len(bench.broker.core.subscriptions) == 0
    assert roll.kick("meter") is None


async def test_what_a_client_that_does_not_read_was_not_given_is_counted_for_it(
    bench: Bench, roll: ClientRoll
) -> None:
    small = {PropertyId.MAXIMUM_PACKET_SIZE: 64}
    peer = await bench.connect("small", properties=small)
    await peer.subscribe("a/#", 0)
    await (await bench.connect("source")).publish("a/1", b"x" * 100)
    await peer.nothing_came()
    told = roll.one("small")
    assert told is not None
    assert told["dropped"] == 1


# -- over CoAP -------------------------------------------------------------------------------------


class Roll:
    """Stands for a `ClientRoll`: two clients, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def page(self, after: str = "") -> dict[str, Any]:
        self.asked.append(after)
        return {"count": 0, "has_more": False, "clients": []}

    async def busiest(self, count: int) -> dict[str, Any]:
        self.asked.append(str(count))
        return {"count": 0, "connected": 0, "clients": []}

    def one(self, client_id: str) -> dict[str, Any] | None:
        return {"id": client_id} if client_id != "nobody" else None


@dataclass(frozen=True)
class Remote:
    identity: PeerIdentity = field(default=ANONYMOUS)


def plain(address: str) -> Any:
    return plain_requester(PeerAddress((address, 5683)), ("127.0.0.1", 5683))


def request(code: Code, remote: Any, text: str = "") -> Any:
    message = aiocoap.Message(code=code)
    message.set_request_uri(f"coap://x/clients?{text}")
    message.remote = remote
    return message


@pytest.mark.parametrize(
    ("role", "may_see", "may_kick"),
    [
        ("", False, False),
        ("reader", False, False),
        ("operator", True, False),
        ("admin", True, True),
    ],
)
def test_who_sees_the_list_and_who_disconnects_a_client_is_for_the_policy(
    role: str, may_see: bool, may_kick: bool
) -> None:
    access = access_of({"psk:alice": role} if role else {})
    alice = access.principal(PeerIdentity(Proof.PSK, "alice"))
    assert access.may(alice, "GET", PATH).is_allowed is may_see
    assert access.may(alice, "POST", PATH).is_allowed is may_kick


@pytest.mark.parametrize(
    ("address", "may_see"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.7", False),
        ("fe80::1%eth0", False),
    ],
)
def test_who_is_on_this_machine_sees_the_list_and_disconnects_nobody(
    address: str, may_see: bool
) -> None:
    access = access_of()
    here = access.principal_of(plain(address))
    assert access.may(here, "GET", PATH).is_allowed is may_see
    assert not access.may(here, "POST", PATH)


async def test_who_is_not_named_or_not_there_is_not_kicked() -> None:
    resource = ClientsResource(cast(ClientRoll, Roll()))
    with pytest.raises(error.NotFound):
        await resource.render_get(request(Code.GET, Remote(), "id=nobody"))
    for text in ("", "id="):
        with pytest.raises(error.BadRequest):
            await resource.render_post(request(Code.POST, Remote(), text))


async def test_the_busiest_are_asked_for_by_their_number() -> None:
    roll = Roll()
    resource = ClientsResource(cast(ClientRoll, roll))
    for text in ("by=traffic", "by=traffic&count=7"):
        await resource.render_get(request(Code.GET, Remote(), text))
    assert roll.asked == [str(BUSIEST), "7"]
    for text in (
        "by=name",
        "by=traffic&count=",
        "by=traffic&count=-1",
        "by=traffic&count=0",
        "by=traffic&count=99999",
    ):
        with pytest.raises(error.BadRequest):
            await resource.render_get(request(Code.GET, Remote(), text))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=1_024))
def test_any_identifier_reaches_the_gateway_as_it_is(client_id: str) -> None:
    roll = Roll()
    resource = ClientsResource(cast(ClientRoll, roll))
    message = request(Code.GET, Remote(), query("after", client_id))
    assert all(len(option.encode()) <= 255 for option in message.opt.uri_query)
    asyncio.run(resource.render_get(message))
    assert roll.asked == [client_id]


# -- on a terminal ---------------------------------------------------------------------------------


async def test_a_terminal_is_given_no_control_character(bench: Bench, roll: ClientRoll) -> None:
    peer = await bench.connect("evil\x1b[2J", username="mal\nlory")
    await peer.subscribe("a/#")
    one = roll.one("evil\x1b[2J")
    assert one is not None
    for text in (as_table((await roll.page())["clients"]), as_text(one)):
        assert all(line.isprintable() for line in text.splitlines())
        assert r"evil\x1b[2J" in text
        assert r"mal\nlory" in text
