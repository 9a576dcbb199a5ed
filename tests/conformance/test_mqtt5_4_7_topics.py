"""MQTT 5.0 sections 4.7 and 4.8: which filter matches which topic, and shared subscriptions."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property

LEVEL = V5
MQTT = Packets(V5)
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
MALFORMED, PROTOCOL_ERROR, TOPIC_FILTER_INVALID = 0x81, 0x82, 0x8F

NOT_SHARED = pytest.mark.departs("mosquitto-2.0", "takes a broken shared filter as a plain one")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("a/b#", marks=pytest.mark.statement("MQTT-4.7.1-1")),
        pytest.param("a/#/b", marks=pytest.mark.statement("MQTT-4.7.1-1")),
        pytest.param("##", marks=pytest.mark.statement("MQTT-4.7.1-1")),
        pytest.param("a+", marks=pytest.mark.statement("MQTT-4.7.1-2")),
        pytest.param("a/b+/c", marks=pytest.mark.statement("MQTT-4.7.1-2")),
        pytest.param("++", marks=pytest.mark.statement("MQTT-4.7.1-2")),
        pytest.param("", marks=pytest.mark.statement("MQTT-4.7.3-1")),
        pytest.param("$share//a", marks=[pytest.mark.statement("MQTT-4.8.2-1"), NOT_SHARED]),
        pytest.param("$share/", marks=[pytest.mark.statement("MQTT-4.8.2-1"), NOT_SHARED]),
        pytest.param("$share/group", marks=[pytest.mark.statement("MQTT-4.8.2-2"), NOT_SHARED]),
        pytest.param("$share/group/", marks=[pytest.mark.statement("MQTT-4.8.2-2"), NOT_SHARED]),
        pytest.param("$share/gr+oup/a", marks=pytest.mark.statement("MQTT-4.8.2-2")),
        pytest.param("$share/#/a", marks=pytest.mark.statement("MQTT-4.8.2-2")),
        pytest.param("$share/group/a#", marks=pytest.mark.statement("MQTT-4.8.2-2")),
    ],
)
def test_a_filter_that_is_none_is_refused(broker: Broker, bad: str) -> None:
    client = broker.connect()
    client.send(MQTT.subscribe(1, bad))
    answer = client.receive()
    assert answer.kind in {Kind.SUBACK, Kind.DISCONNECT}
    assert answer.reason in {TOPIC_FILTER_INVALID, MALFORMED, PROTOCOL_ERROR, 0x80}


@pytest.mark.statement("MQTT-4.8.2-1")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member_of_a_shared_subscription(broker: Broker, qos: int) -> None:
    topic, end = broker.topic("work"), broker.topic("end")
    members = [broker.subscriber((f"$share/group/{topic}", qos), (end, qos)) for _ in range(3)]
    publisher = broker.connect()
    expected = {b"%d" % number for number in range(12)}
    for payload in sorted(expected):
        publisher.publish(topic, payload, qos=qos)
    publisher.publish(end, b"end", qos=qos)
    shares = [[message.payload for message in member.until(b"end")] for member in members]
    assert sorted(payload for share in shares for payload in share) == sorted(expected)


@pytest.mark.statement("MQTT-4.8.2-1", "MQTT-4.8.2-2")
def test_groups_and_plain_subscriptions_each_get_every_message(broker: Broker) -> None:
    topic = broker.topic()
    clients = [broker.subscriber((f"{head}{topic}", 1)) for head in ("", "$share/a/", "$share/b/")]
    broker.connect().publish(topic, b"x", qos=1)
    for client in clients:
        client.expect_publish(topic, b"x", 1)


@pytest.mark.statement("MQTT-4.8.2-2")
def test_a_shared_filter_may_have_wildcards_and_leading_slashes(broker: Broker) -> None:
    client = broker.subscriber(
        (f"$share/group/{broker.topic('+/#')}", 0), f"$share/group//{broker.topic('t')}"
    )
    publisher = broker.connect()
    publisher.publish(broker.topic("a/b"), b"x")
    client.expect_publish(broker.topic("a/b"), b"x")
    publisher.publish("/" + broker.topic("t"), b"y")
    client.expect_publish("/" + broker.topic("t"), b"y")


@pytest.mark.statement("MQTT-4.8.2-3")
def test_each_member_gets_messages_at_the_qos_granted_to_it(broker: Broker) -> None:
    topic, end = broker.topic("work"), broker.topic("end")
    members = {qos: broker.subscriber((f"$share/g/{topic}", qos), (end, qos)) for qos in range(3)}
    publisher = broker.connect()
    for _ in range(12):
        publisher.publish(topic, b"x", qos=2)
    # At the QoS of its member, so that the end can't come before what it ends.
    publisher.publish(end, b"end", qos=2)
    shares = {qos: member.until(b"end") for qos, member in members.items()}
    assert sum(len(share) for share in shares.values()) == 12
    assert all(message.qos == qos for qos, share in shares.items() for message in share)


@pytest.mark.statement("MQTT-4.8.2-4", "MQTT-4.4.0-1")
def test_a_shared_delivery_of_qos_2_is_completed_by_the_member_that_began_it(
    broker: Broker,
) -> None:
    topic, name = broker.topic("work"), broker.client_id()
    shared = (f"$share/group/{topic}", 2)
    first = broker.connect(name, props=FOR_EVER)
    first.subscribe(shared)
    broker.connect().publish(topic, b"x", qos=2)
    message = first.expect_publish(topic, b"x", 2)
    other = broker.subscriber(shared, (broker.topic("end"), 2))
    first.close()
    back = broker.connect(name, clean=False, props=FOR_EVER)
    again = back.expect_publish(topic, b"x", 2)
    assert (again.packet_id, again.dup) == (message.packet_id, True)
    back.acknowledge(again)
    broker.connect().publish(broker.topic("end"), b"end", qos=2)
    assert other.until(b"end") == []


@pytest.mark.statement("MQTT-4.8.2-5")
def test_a_shared_delivery_of_qos_2_goes_to_nobody_else_where_its_session_ends(
    broker: Broker,
) -> None:
    topic = broker.topic("work")
    shared = (f"$share/group/{topic}", 2)
    first = broker.subscriber(shared)
    broker.connect().publish(topic, b"x", qos=2)
    first.expect_publish(topic, b"x", 2)
    other = broker.subscriber(shared, (broker.topic("end"), 2))
    first.disconnect()
    broker.connect().publish(broker.topic("end"), b"end", qos=2)
    assert other.until(b"end") == []


@pytest.mark.statement("MQTT-4.8.2-6")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_shared_delivery_that_is_refused_goes_to_nobody_else(broker: Broker, qos: int) -> None:
    topic = broker.topic("work")
    shared = (f"$share/group/{topic}", qos)
    first = broker.subscriber(shared)
    broker.connect().publish(topic, b"x", qos=qos)
    message = first.expect_publish(topic, b"x", qos)
    other = broker.subscriber(shared, (broker.topic("end"), qos))
    kind = Kind.PUBACK if qos == 1 else Kind.PUBREC
    first.send(MQTT.acknowledge(kind, message.packet_id, 0x83))
    first.ping()
    broker.connect().publish(broker.topic("end"), b"end", qos=qos)
    assert other.until(b"end") == []


@pytest.mark.departs("mosquitto-2.0", "sends retained messages to shared subscriptions")
@pytest.mark.statement("MQTT-4.8.2-1")
def test_retained_messages_are_not_sent_to_a_shared_subscription(broker: Broker) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"kept", qos=1, retain=True)
    member = broker.subscriber((f"$share/group/{topic}", 1))
    publisher.publish(topic, b"end", qos=1)
    assert member.until(b"end") == []


@pytest.mark.statement("MQTT-3.10.4-1", "MQTT-4.8.2-1")
def test_a_member_leaves_its_group_by_the_whole_filter(broker: Broker) -> None:
    topic = broker.topic()
    leaving, staying = (broker.subscriber((f"$share/group/{topic}", 1)) for _ in range(2))
    assert leaving.unsubscribe(topic).reasons == (0x11,)
    assert leaving.unsubscribe(f"$share/group/{topic}").reasons == (0,)
    publisher = broker.connect()
    for number in range(4):
        publisher.publish(topic, b"%d" % number, qos=1)
        staying.acknowledge(staying.expect_publish(topic, b"%d" % number))
