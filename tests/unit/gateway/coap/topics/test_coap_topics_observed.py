"""Goal: MQTT clients observe CoAP resources by subscriptions, under the policy of CoAP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from hypothesis import given
from hypothesis import strategies as st
from topic_gateway import POLICY, TopicClient, client, prepared, told

from coap_engine import codes
from coap_engine.message import CoapResponse
from gateway.coap.answers import Answers
from gateway.coap.topics.observing import TopicObservations
from gateway.coap.topics.shared_observations import AGAIN_S, ObservationKey, SharedObservations
from gateway.coap.topics.shares import TopicLimits
from gateway.mqtt import PingReq, PingResp, ReasonCode, UnsubAck, Unsubscribe, Version
from tests.held_objects import held_instances

VALVE = "$coap/observe/gw-a/sensors/valve"
SECRET = "$coap/observe/gw-a/sensors/secret"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    fleet = Fleet(tmp_path)
    one = prepared(fleet, "gw-a")
    await one.start()
    yield one
    await fleet.stop()


def observed(gateway: FleetGateway) -> int:
    """Return how many observations clients have; those with the same rights share one."""
    (shared,) = held_instances(gateway.process.parts.coap_topics, SharedObservations)
    return len(shared)


def under_way(gateway: FleetGateway) -> int:
    """Return how many observations the gateway has yet to end."""
    (observations,) = held_instances(gateway.process.parts.coap_topics, TopicObservations)
    return len(observations)


async def value(one: TopicClient, wanted: bytes) -> None:
    """Wait until a value is told; others before it are older ones."""
    while True:
        came = await one.peer.next()
        assert came.topic.startswith("$coap/observe/"), came
        if wanted in came.payload:
            return


async def test_a_subscriber_is_told_the_value_and_each_change(gateway: FleetGateway) -> None:
    rita = await client(gateway, "rita", name="c2")
    assert await rita.peer.subscribe(VALVE) == 1
    first = await rita.peer.next()
    assert (first.topic, told(first)["code"], first.qos) == (VALVE, "2.05", 1)
    anna = await client(gateway)
    await anna.publish("$coap/PUT/gw-a/sensors/valve", b"1")
    await value(rita, b'"v":1')


async def test_an_observation_is_shared_by_those_with_the_same_rights_and_ends_with_the_last(
    gateway: FleetGateway,
) -> None:
    rita, other = [await client(gateway, "rita", name=name) for name in ("c2", "c3")]
    anna = await client(gateway)
    for one in (rita, other, anna):
        assert await one.peer.subscribe(VALVE) == 1
        assert told(await one.peer.next())["code"] == "2.05"
    assert observed(gateway) == 2  # of rita's two, and of anna's
    other.peer.close()
    rita.peer.send(Unsubscribe(2, [VALVE], {}))
    assert isinstance(await rita.peer.next(), UnsubAck)
    await until(lambda: observed(gateway) == 1)
    anna.peer.close()
    await until(lambda: observed(gateway) == 0)
    assert under_way(gateway) == 0
    answers = held_instances(gateway.process.parts.site, Answers)
    assert answers
    assert not any(one.open_requests for one in answers)


async def test_what_another_gateway_has_is_observed_through_this_one(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    try:
        a, b = prepared(fleet, "gw-a"), prepared(fleet, "gw-b")
        await a.start()
        await b.start(neighbours=[f"127.0.0.1:{a.port}"])
        await until(lambda: "gw-b" in a.process.status()["members"])
        anna = await client(a)
        assert await anna.peer.subscribe("$coap/observe/gw-b/sensors/valve") == 1
        assert told(await anna.peer.next())["code"] == "2.05"
        there = await client(b)
        await there.publish("$coap/PUT/gw-b/sensors/valve", b"1")
        await value(anna, b'"v":1')
    finally:
        await fleet.stop()


@pytest.mark.parametrize(
    ("topic_filter", "reason"),
    [
        (SECRET, ReasonCode.NOT_AUTHORIZED),
        ("$coap/observe/gw-a/sensors/#", ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("$coap/observe/+/sensors/valve", ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("$coap/#", ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("$share/g/" + VALVE, ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("$coap/observe/gw-x/sensors/valve", ReasonCode.TOPIC_FILTER_INVALID),
        ("$coap/GET/gw-a/sensors/valve", ReasonCode.TOPIC_FILTER_INVALID),
    ],
)
async def test_a_subscription_without_the_right_or_with_a_wildcard_is_refused(
    gateway: FleetGateway, topic_filter: str, reason: int
) -> None:
    one = await client(gateway, "topics")
    assert await one.peer.subscribe(topic_filter) == reason
    old = await client(gateway, "topics", version=Version.V311, name="c2")
    assert await old.peer.subscribe(topic_filter) == 0x80
    assert observed(gateway) == 0


async def test_a_3_1_1_client_is_told_values_on_the_topic_and_errors_on_its_own(
    gateway: FleetGateway,
) -> None:
    one = await client(gateway, version=Version.V311)
    assert await one.peer.subscribe("$coap/answer/c1/#") == 1
    assert await one.peer.subscribe(VALVE) == 1
    assert (await one.peer.next()).topic == VALVE
    assert await one.peer.subscribe("$coap/observe/gw-a/sensors/none") == 1
    wrong = await one.peer.next()
    assert wrong.topic == "$coap/answer/c1/4.04/observe/gw-a/sensors/none"


async def test_a_3_1_1_client_whose_name_could_mislead_is_told_no_errors(
    gateway: FleetGateway,
) -> None:
    one = await client(gateway, version=Version.V311, name="c/1")
    assert await one.peer.subscribe("#") == 1
    assert await one.peer.subscribe("$coap/observe/gw-a/sensors/none") == 1
    await until(lambda: under_way(gateway) == 0)
    assert not (await topics_until_pong(one)) & {"4.04/observe/gw-a/sensors/none"}


async def topics_until_pong(one: TopicClient) -> set[str]:
    """The topics of all that was sent before the answer to a ping."""
    one.peer.send(PingReq())
    topics: set[str] = set()
    while not isinstance(came := await one.peer.next(), PingResp):
        topics.add(came.topic)
    return topics


async def test_with_another_policy_an_observation_ends_and_says_so(gateway: FleetGateway) -> None:
    rita = await client(gateway, "rita")
    assert await rita.peer.subscribe(VALVE) == 1
    assert told(await rita.peer.next())["code"] == "2.05"
    file = gateway.folder.parent / "policy.toml"
    file.write_text(
        POLICY.replace('"user:rita" = ["reader"]', '"user:rita" = ["topics"]').replace(
            "secret", "#"
        )
    )
    await gateway.process.reload()
    while told(await rita.peer.next())["code"] != "4.03":
        pass
    assert observed(gateway) == 0
    for number in range(TopicLimits().client_observations):
        assert await rita.peer.subscribe(f"$coap/answer/c1/{number}") == 1, "all was given back"


async def test_subscriptions_over_the_limit_of_a_client_are_refused(gateway: FleetGateway) -> None:
    one = await client(gateway, version=Version.V311)
    most = TopicLimits().client_observations
    for number in range(most):
        assert await one.peer.subscribe(f"$coap/answer/c1/{number}") == 1
    assert await one.peer.subscribe(VALVE) == 0x80
    assert await one.peer.subscribe("$coap/answer/c1/0") == 1  # it is only replaced


# -- the core --------------------------------------------------------------------------------------

KEY = ObservationKey("t", "rita")
VALUE = CoapResponse(codes.CONTENT, (), b"1")


def test_what_ended_with_a_server_error_begins_anew_after_a_while() -> None:
    core: SharedObservations[str] = SharedObservations()
    assert core.add(KEY, "c1") == 1
    gone = CoapResponse(codes.SERVICE_UNAVAILABLE)
    assert core.told(1, gone, 10.0, is_last=True) == ("t", ["c1"])
    assert core.add(KEY, "c2") is None
    assert core.next_timer() == 10.0 + AGAIN_S
    assert core.handle_timer(10.0) == []
    assert core.handle_timer(10.0 + AGAIN_S) == [(2, KEY, "c1")]
    assert core.told(1, VALUE, 50.0, is_last=False) == ("", [])  # of its life before
    assert core.told(2, VALUE, 50.0, is_last=False) == ("t", ["c1", "c2"])


def test_what_ended_with_a_refusal_begins_anew_when_somebody_subscribes() -> None:
    core: SharedObservations[str] = SharedObservations()
    core.add(KEY, "c1")
    core.told(1, CoapResponse(codes.NOT_FOUND), 0.0, is_last=True)
    assert core.next_timer() == float("inf")
    assert core.add(KEY, "c1") == 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=60))
def test_as_many_observations_go_on_as_keys_have_watchers(
    steps: list[tuple[int, int, bool]],
) -> None:
    core: SharedObservations[int] = SharedObservations()
    watching: set[tuple[int, int]] = set()
    open_numbers: set[int] = set()
    for watcher, what, begins in steps:
        key = ObservationKey(str(what), "rita")
        if begins:
            number = core.add(key, watcher)
            if number is not None:
                open_numbers.add(number)
            watching.add((what, watcher))
        else:
            number = core.remove(key, watcher)
            if number is not None:
                open_numbers.remove(number)
            watching.discard((what, watcher))
        keys = {one for one, _ in watching}
        assert len(core) == len(open_numbers) == len(keys)
        for number in open_numbers:
            topic, watchers = core.told(number, VALUE, 0.0, is_last=False)
            assert {(int(topic), one) for one in watchers} <= watching
