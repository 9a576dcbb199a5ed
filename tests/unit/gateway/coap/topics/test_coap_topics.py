"""Goal: MQTT clients read and write CoAP resources of all gateways, under the policy of CoAP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from topic_gateway import CONTENT_TYPE, CORRELATION, RESPONSE_TOPIC, client, prepared, told

from coap_engine import codes
from coap_engine.message import CoapResponse
from gateway.base.write_turns import WriteTurn
from gateway.broker.hooks import Client
from gateway.coap.topics.asker import CoapFace, TopicAsker
from gateway.coap.topics.requests import TopicRequests
from gateway.coap.topics.shares import TopicLimits, TopicShares
from gateway.mqtt import (
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Version,
)
from gateway.mqtt import SubscriptionRequest as Wanted
from tests.held_objects import held_instances


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    fleet = Fleet(tmp_path)
    one = prepared(fleet, "gw-a")
    await one.start()
    yield one
    await fleet.stop()


# -- requests -------------------------------------------------------------------------------------


async def test_a_client_reads_and_writes_a_resource(gateway: FleetGateway) -> None:
    anna = await client(gateway)
    written = await anna.ask("$coap/PUT/gw-a/sensors/valve", b"1", content_type="text/plain")
    assert told(written)["code"] == "2.04"
    read = await anna.ask("$coap/GET/gw-a/sensors/valve", user=(("accept", "text/plain"),))
    assert read.topic == "answers/1"
    assert (read.payload, read.properties[CORRELATION]) == (b"1.0", b"c1")
    assert read.properties[CONTENT_TYPE] == "text/plain"
    assert told(read)["code"] == "2.05"
    assert "max-age" in told(read)


async def test_a_resource_of_another_gateway_is_reached_by_its_id_and_by_its_place(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path)
    try:
        a, b = prepared(fleet, "gw-a"), prepared(fleet, "gw-b")
        b.place = 'domain = "campus"\ngroup = "north"'
        await a.start()
        await b.start(neighbours=[f"127.0.0.1:{a.port}"])
        await until(lambda: "gw-b" in a.process.status()["members"])
        anna = await client(a)
        written = await anna.ask("$coap/PUT/gw-b/sensors/valve", b"1")
        assert told(written)["code"] == "2.04"
        for way in ("gw-b", "q/campus/north/gw-b"):
            read = await anna.ask(
                f"$coap/GET/{way}/sensors/valve", user=(("accept", "text/plain"),)
            )
            assert (told(read)["code"], read.payload) == ("2.05", b"1.0")
            assert told(read)["etag"]
        rita = await client(a, "rita", name="c2")
        refused = await rita.ask("$coap/PUT/gw-b/sensors/valve", b"0")
        assert told(refused)["code"] == "4.03"
    finally:
        await fleet.stop()


@pytest.mark.parametrize(
    ("user", "topic", "code"),
    [
        ("rita", "$coap/PUT/gw-a/sensors/valve", "4.03"),
        ("topics", "$coap/GET/gw-a/sensors/secret", "4.03"),
        ("anna", "$coap/GET/gw-a/sensors/none", "4.04"),
        ("anna", "$coap/GET/gw-x/sensors/valve", "4.04"),
    ],
)
async def test_an_error_is_an_answer_with_its_code_and_a_text(
    gateway: FleetGateway, user: str, topic: str, code: str
) -> None:
    one = await client(gateway, user)
    answer = await one.ask(topic, b"1" if "PUT" in topic else b"")
    assert told(answer)["code"] == code
    assert answer.payload or code == "4.04"


async def test_a_stranger_writes_nothing_and_reads_what_is_public(gateway: FleetGateway) -> None:
    stranger = await client(gateway, None)
    own = "$coap/answer/c1/1"
    read = await stranger.ask("$coap/GET/gw-a/sensors/valve", response_topic=own)
    assert told(read)["code"] == "2.05"
    refused = await stranger.ask("$coap/PUT/gw-a/sensors/valve", b"1", response_topic=own)
    assert told(refused)["code"] == "4.01"


async def test_a_format_that_nobody_knows_is_refused(gateway: FleetGateway) -> None:
    anna = await client(gateway)
    valve = "gw-a/sensors/valve"
    answer = await anna.ask(f"$coap/PUT/{valve}", b"1", content_type="image/png")
    assert told(answer)["code"] == "4.15"
    answer = await anna.ask(f"$coap/GET/{valve}", user=(("accept", "image/png"),))
    assert told(answer)["code"] == "4.06"


async def test_a_query_stands_behind_a_question_mark(gateway: FleetGateway) -> None:
    anna = await client(gateway)
    answer = await anna.ask("$coap/GET/gw-a/.well-known/core?rt=none")
    assert (told(answer)["code"], answer.payload) == ("2.05", b"")
    assert answer.properties[CONTENT_TYPE] == "application/link-format"


async def test_a_read_without_a_response_topic_is_refused_and_a_write_carried_out(
    gateway: FleetGateway,
) -> None:
    anna = await client(gateway)
    refused = await anna.publish("$coap/GET/gw-a/sensors/valve")
    assert refused == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert await anna.publish("$coap/PUT/gw-a/sensors/valve", b"1") == ReasonCode.SUCCESS
    read = await anna.ask("$coap/GET/gw-a/sensors/valve", user=(("accept", "text/plain"),))
    assert read.payload == b"1.0"


async def test_a_write_waits_for_who_has_looked_at_its_resource_before_writing(
    gateway: FleetGateway,
) -> None:
    """All ways to an actuator, and commands over MQTT, go by the turns of the sampler."""
    turns = gateway.process.parts.readings.sampler.turns
    careful = WriteTurn((b"sensors", b"valve"), lambda: None, is_alone=True)
    turns.enter(careful)
    anna = await client(gateway)
    written = asyncio.create_task(anna.ask("$coap/PUT/gw-a/sensors/valve", b"1"))
    await until(lambda: len(held_instances(turns, WriteTurn)) == 2)
    turns.leave(careful)
    assert told(await written)["code"] == "2.04"
    await until(lambda: len(turns) == 0)


@pytest.mark.parametrize("topic", ["elsewhere/1", "$SYS/1", "$coap/answer/c2/1"])
async def test_a_client_that_may_not_read_the_response_topic_is_not_served(
    gateway: FleetGateway, topic: str
) -> None:
    one = await client(gateway, "topics")
    refused = await one.ask("$coap/GET/gw-a/sensors/valve", response_topic=topic)
    assert refused == ReasonCode.NOT_AUTHORIZED


async def test_an_answer_goes_to_nobody_else_and_into_no_log(gateway: FleetGateway) -> None:
    anna, rita = await client(gateway), await client(gateway, "rita", name="c2")
    assert await rita.peer.subscribe("answers/#") == 1
    assert told(await anna.ask("$coap/GET/gw-a/sensors/valve"))["code"] == "2.05"
    await rita.peer.nothing_came()
    await gateway.stop()
    files = [one for one in (gateway.folder / "state").rglob("*") if one.is_file()]
    assert any(b"sensors" in one.read_bytes() or b"valve" in one.read_bytes() for one in files)
    assert not [one for one in files if b"$coap" in one.read_bytes()]
    assert not [one for one in files if b"answers/1" in one.read_bytes()]


async def test_a_request_of_qos_2_that_comes_again_is_asked_once(gateway: FleetGateway) -> None:
    anna = await client(gateway)
    valve = "$coap/PUT/gw-a/sensors/valve"
    properties = {RESPONSE_TOPIC: "answers/1"}
    for dup in (False, True):
        anna.peer.send(Publish(valve, b"1", 2, False, dup, 9, properties))
    came = [await anna.peer.next() for _ in range(3)]
    assert [type(one) for one in came].count(PubRec) == 2
    assert [type(one) for one in came].count(Publish) == 1
    anna.peer.send(PubRel(9))
    await anna.peer.next()
    await anna.peer.nothing_came()


async def test_an_answer_has_the_identifier_and_the_qos_of_the_subscription_that_it_matches(
    gateway: FleetGateway,
) -> None:
    anna = await client(gateway)
    anna.peer.send(Subscribe(1, [Wanted("answers/#", 1)], {11: [7]}))
    assert isinstance(await anna.peer.next(), SubAck)
    answer = await anna.ask("$coap/GET/gw-a/sensors/valve")
    assert (answer.qos, answer.properties[11]) == (1, [7])


async def test_a_session_that_outlives_its_connection_is_answered_at_qos_0(
    gateway: FleetGateway,
) -> None:
    anna = await client(gateway, clean_start=False, properties={17: 100})
    assert await anna.peer.subscribe("answers/#") == 1
    assert (await anna.ask("$coap/GET/gw-a/sensors/valve")).qos == 0


async def test_what_is_no_request_is_no_topic_to_publish_to(gateway: FleetGateway) -> None:
    """A misspelt request must not vanish, with or without a response topic."""
    anna = await client(gateway)
    topics = (
        "observe/gw-a/sensors/valve",
        "answer/c1/1",
        "FOO/gw-a/sensors/valve",
        "put/gw-a/sensors/valve",
        "Put/gw-a/sensors/valve",
        "PUT",
        "PUT/",
        "PUT//sensors/valve",
        "PUT/gw-a/sensors/%zz",
        f"PUT/gw-a/{'x' * 256}",
    )
    for topic in topics:
        for response_topic in ("", "answers/1"):
            reason = await anna.publish(f"$coap/{topic}", b"1", response_topic=response_topic)
            assert reason == ReasonCode.TOPIC_NAME_INVALID, topic
    assert gateway.refusals("request on a private topic refused") == 2 * len(topics)
    await anna.peer.nothing_came()


@pytest.mark.parametrize("topic", ["FOO/gw-a/sensors/valve", "PUT", "PUT/gw-a/sensors/%zz"])
async def test_a_3_1_1_client_is_answered_that_it_has_asked_for_nothing(
    gateway: FleetGateway, topic: str
) -> None:
    anna = await client(gateway, version=Version.V311)
    assert await anna.peer.subscribe("$coap/answer/c1/#") == 1
    await anna.publish(f"$coap/{topic}", b"1")
    assert (await anna.peer.next()).topic == f"$coap/answer/c1/4.00/{topic}"


async def test_the_bridge_of_another_broker_asks_for_nobody(gateway: FleetGateway) -> None:
    other = await client(gateway, version=Version.V311, bridge=True)
    assert await other.peer.subscribe("$coap/answer/c1/#") == 0x80
    await other.publish("$coap/PUT/gw-a/sensors/valve", b"1")
    assert gateway.refusals("request on a private topic refused") == 1


async def test_a_plugin_may_refuse_what_the_policy_allows(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    try:
        one = prepared(fleet, "gw-a")
        one.mqtt = """
[mqtt.plugins."amqtt.plugins.topic_checking.TopicAccessControlListPlugin"]
publish_acl = {anna = ["$coap/GET/#"]}
acl = {anna = ["answers/#"]}
"""
        await one.start()
        anna = await client(one)
        valve = "gw-a/sensors/valve"
        assert await anna.publish(f"$coap/PUT/{valve}", b"1") == ReasonCode.NOT_AUTHORIZED
        assert told(await anna.ask(f"$coap/GET/{valve}"))["code"] == "2.05"
        assert await anna.peer.subscribe(f"$coap/observe/{valve}") == ReasonCode.NOT_AUTHORIZED
    finally:
        await fleet.stop()


async def test_a_body_over_the_limit_is_refused_with_4_13(gateway: FleetGateway) -> None:
    anna = await client(gateway)
    big = await anna.ask("$coap/PUT/gw-a/sensors/valve", bytes((64 << 10) + 1))
    assert told(big)["code"] == "4.13"


async def test_requests_over_a_limit_are_answered_with_when_to_try_again(
    gateway: FleetGateway,
) -> None:
    parts = gateway.process.parts
    site = parts.site
    face = CoapFace(site.answers(), site.access, site.router, site.members)
    requests = TopicRequests(TopicAsker(face, parts.broker.permissions.proof), TopicLimits())
    one = Client("c1", "anna", "127.0.0.1", 5)
    answers: list[CoapResponse] = []
    most = TopicLimits().client_requests
    topic = "$coap/GET/gw-a/sensors/valve"
    for _ in range(most + 1):  # within one turn, in which nothing can be answered
        requests.begin(one, topic, b"", {}, answers.append)
    assert len(requests) == most
    await until(lambda: len(answers) == most + 1)
    assert [answer.code for answer in answers].count(codes.SERVICE_UNAVAILABLE) == 1
    assert len(requests) == 0
    for _ in range(most):  # all of it was given back
        requests.begin(one, topic, b"", {}, answers.append)
    assert len(requests) == most
    requests.left(one)
    assert len(requests) == 0


def test_shares_hold_for_a_client_a_user_and_bytes() -> None:
    shares = TopicShares(2, 3, 10)
    assert not shares.take("c1", "u", 4)
    assert not shares.take("c1", "u", 4)
    assert shares.take("c1", "u") == "over 2 of this client"
    assert shares.take("c2", "u", 4) == "over 10 bytes of this user"
    assert not shares.take("c2", "u", 2)
    assert shares.take("c3", "u") == "over 3 of this user"
    assert not shares.take("c3", "v", 10)
    for client_id, size_bytes in (("c1", 4), ("c1", 4), ("c2", 2)):
        shares.give_back(client_id, "u", size_bytes)
    assert not shares.take("c2", "u", 10)
    assert len(shares) == 2


# -- 3.1.1 ----------------------------------------------------------------------------------------


async def test_a_3_1_1_client_has_answers_on_topics_of_its_own(gateway: FleetGateway) -> None:
    anna = await client(gateway, version=Version.V311)
    assert await anna.peer.subscribe("$coap/answer/c1/#") == 1
    await anna.publish("$coap/PUT/gw-a/sensors/valve", b"1")
    assert (await anna.peer.next()).topic == "$coap/answer/c1/2.04/PUT/gw-a/sensors/valve"
    await anna.publish("$coap/GET/gw-a/sensors/valve")
    answer = await anna.peer.next()
    assert answer.topic == "$coap/answer/c1/2.05/GET/gw-a/sensors/valve"
    await anna.publish("$coap/GET/gw-a/sensors/none")
    assert (await anna.peer.next()).topic == "$coap/answer/c1/4.04/GET/gw-a/sensors/none"


@pytest.mark.parametrize(("version", "refused"), [(Version.V311, 0x80), (Version.V5, 0x87)])
async def test_nobody_subscribes_to_answers_of_another_client(
    gateway: FleetGateway, version: int, refused: int
) -> None:
    one = await client(gateway, version=version)
    for other in ("$coap/answer/c2/#", "$coap/answer/#", "$coap/answer/+/2.05/#"):
        assert await one.peer.subscribe(other) == refused, other


async def test_a_name_that_could_reach_into_answers_of_others_has_none(
    gateway: FleetGateway,
) -> None:
    one = await client(gateway, version=Version.V311, name="c/1")
    assert await one.peer.subscribe("$coap/answer/c/1/#") == 0x80


async def test_subscriptions_here_end_with_unsubscribe_and_with_the_connection(
    gateway: FleetGateway,
) -> None:
    most = TopicLimits()
    for _ in range(most.user_observations // most.client_observations + 1):
        one = await client(gateway, version=Version.V311)  # takes the session over
        for number in range(most.client_observations):
            assert await one.peer.subscribe(f"$coap/answer/c1/{number}") == 1, "all was given back"
        one.peer.send(Unsubscribe(2, ["$coap/answer/c1/0"], {}))
        assert isinstance(await one.peer.next(), UnsubAck)
        assert await one.peer.subscribe("$coap/answer/c1/#") == 1


async def test_a_packet_of_qos_2_that_was_refused_may_be_used_again(gateway: FleetGateway) -> None:
    """MQTT 5.0, section 4.3.3: a PUBREC of 0x80 or more ends the exchange."""
    anna = await client(gateway)
    for topic in ("$coap/FOO/gw-a/sensors/valve", "$coap/PUT/gw-a/sensors/valve"):
        anna.peer.send(Publish(topic, b"1", 2, False, False, 7, {}))
        received = await anna.peer.next()
        assert isinstance(received, PubRec)
        is_refused = "FOO" in topic
        assert received.reason == (ReasonCode.TOPIC_NAME_INVALID if is_refused else 0)
    read = await anna.ask("$coap/GET/gw-a/sensors/valve", user=(("accept", "text/plain"),))
    assert read.payload == b"1.0"
