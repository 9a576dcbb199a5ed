"""MQTT 3.1.1 section 3.3: PUBLISH, its flags and retained messages."""

from __future__ import annotations

import pytest
from raw_client import Broker, ConnectionEndedError
from raw_packets import V311, Kind, Packets, packet

LEVEL = V311
MQTT = Packets(V311)


@pytest.mark.statement("MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-2.3.1-4")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_sent_again_has_dup_and_its_packet_identifier(broker: Broker, qos: int) -> None:
    name, topic = broker.client_id(), broker.topic()
    subscriber = broker.connect(name, clean=False)
    subscriber.subscribe((topic, qos))
    broker.connect().publish(topic, b"x", qos=qos)
    first = subscriber.expect_publish(topic, b"x", qos)
    assert not first.dup
    subscriber.close()
    again = broker.connect(name, clean=False).expect_publish(topic, b"x", qos)
    assert again.dup
    assert again.packet_id == first.packet_id


@pytest.mark.departs("mosquitto-2.0", "takes DUP with QoS 0")
@pytest.mark.statement("MQTT-3.3.1-2")
def test_dup_on_a_message_of_qos_0_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), dup=True))
    client.expect_close()


@pytest.mark.statement("MQTT-3.3.1-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_the_dup_flag_of_a_publisher_is_not_passed_on(broker: Broker, qos: int) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, 2)), broker.connect()
    publisher.send(MQTT.publish(topic, b"x", qos=qos, packet_id=1, dup=True))
    if qos == 2:
        publisher.expect(Kind.PUBREC, 1)
        publisher.send(MQTT.acknowledge(Kind.PUBREL, 1))
    assert not subscriber.expect_publish(topic, b"x", qos).dup


@pytest.mark.statement("MQTT-3.3.1-4")
def test_qos_3_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), qos=3, packet_id=1))
    client.expect_close()


@pytest.mark.statement("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_last_retained_message_is_sent_to_a_new_subscriber_at_its_qos(
    broker: Broker, qos: int
) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"older", qos=1, retain=True)
    publisher.publish(topic, b"last", qos=qos, retain=True)
    publisher.ping()
    subscriber = broker.subscriber((topic, 2), (broker.topic("end"), 2))
    assert subscriber.expect_publish(topic, b"last", qos).retain


@pytest.mark.statement("MQTT-3.3.1-6")
def test_every_retained_message_that_a_wildcard_matches_is_sent(broker: Broker) -> None:
    publisher = broker.connect()
    for level in ("a", "b/c", "d/e/f"):
        publisher.publish(broker.topic(level), level.encode(), qos=1, retain=True)
    subscriber = broker.subscriber((broker.topic("#"), 1))
    payloads = {subscriber.expect_publish().payload for _ in range(3)}
    assert payloads == {b"a", b"b/c", b"d/e/f"}


@pytest.mark.statement("MQTT-3.3.1-6", "MQTT-3.3.2-3")
def test_a_retained_message_goes_to_no_subscriber_of_another_topic(broker: Broker) -> None:
    publisher = broker.connect()
    publisher.publish(broker.topic("secret"), b"secret", qos=1, retain=True)
    broker.subscriber((broker.topic("secret"), 1)).expect_publish(payload=b"secret")
    other = broker.subscriber((broker.topic("open"), 1))
    publisher.publish(broker.topic("open"), b"end", qos=1)
    assert other.until(b"end") == []


@pytest.mark.statement("MQTT-3.3.1-7")
def test_a_retained_message_of_qos_0_replaces_the_one_before(broker: Broker) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"older", qos=1, retain=True)
    publisher.publish(topic, b"newer", retain=True)
    publisher.publish(broker.topic("end"), b"end", qos=1, retain=True)
    late = broker.subscriber((topic, 1))
    broker.connect().publish(topic, b"end", qos=1)
    assert b"older" not in [message.payload for message in late.until(b"end")]


@pytest.mark.statement("MQTT-3.3.1-9")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retain_is_0_towards_an_established_subscription(broker: Broker, qos: int) -> None:
    topic = broker.topic()
    subscriber = broker.subscriber((topic, 2))
    broker.connect().publish(topic, b"x", qos=qos, retain=True)
    assert not subscriber.expect_publish(topic, b"x", qos).retain


@pytest.mark.statement("MQTT-3.3.1-9")
def test_retain_is_0_on_a_message_that_waited_for_its_subscriber(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, clean=False)
    away.subscribe((topic, 1))
    away.disconnect()
    broker.connect().publish(topic, b"x", qos=1, retain=True)
    assert not broker.connect(name, clean=False).expect_publish(topic, b"x").retain


@pytest.mark.statement("MQTT-3.3.1-10", "MQTT-3.3.1-11")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_empty_retained_message_is_delivered_and_removes_the_retained_one(
    broker: Broker, qos: int
) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"kept", qos=1, retain=True)
    early = broker.subscriber((topic, 2))
    early.acknowledge(early.expect_publish(topic, b"kept"))
    publisher.publish(topic, b"", qos=qos, retain=True)
    assert not early.expect_publish(topic, b"", qos).retain
    late = broker.subscriber((topic, 2))
    publisher.publish(topic, b"end", qos=qos)
    assert late.until(b"end") == []


@pytest.mark.statement("MQTT-3.3.1-12")
def test_a_message_without_retain_leaves_the_retained_one_as_it_is(broker: Broker) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"not kept", qos=1)
    publisher.publish(topic, b"kept", qos=1, retain=True)
    publisher.publish(topic, b"not kept", qos=1)
    publisher.publish(topic, b"", qos=1)
    late = broker.subscriber((topic, 1))
    publisher.publish(topic, b"end", qos=1)
    assert [message.payload for message in late.until(b"end")] == [b"kept"]


@pytest.mark.statement("MQTT-3.3.2-1")
@pytest.mark.parametrize("body", [b"", b"\0"], ids=["empty", "half-a-length"])
def test_a_publish_without_topic_name_closes_the_connection(broker: Broker, body: bytes) -> None:
    client = broker.connect()
    client.send(packet(0x30, body))
    client.expect_close()


@pytest.mark.statement("MQTT-3.3.2-2", "MQTT-4.7.1-1")
@pytest.mark.parametrize("name", ["a/#", "#", "a/+/b", "+", "a+", "#a"])
@pytest.mark.parametrize("qos", [0, 1])
def test_a_wildcard_in_a_topic_name_closes_the_connection(
    broker: Broker, name: str, qos: int
) -> None:
    client = broker.connect()
    client.send(MQTT.publish(name, qos=qos, packet_id=1 if qos else None))
    client.expect_close()


@pytest.mark.statement("MQTT-3.3.4-1")
def test_a_publish_is_answered_by_its_qos(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(MQTT.publish(topic), MQTT.pingreq())
    client.expect(Kind.PINGRESP)
    client.send(MQTT.publish(topic, qos=1, packet_id=7))
    client.expect(Kind.PUBACK, 7)
    client.send(MQTT.publish(topic, qos=2, packet_id=8))
    client.expect(Kind.PUBREC, 8)


@pytest.mark.departs("mosquitto-2.0", "delivers at the QoS of whichever filter it finds first")
@pytest.mark.statement("MQTT-3.3.5-1")
def test_overlapping_subscriptions_deliver_at_the_highest_of_their_qos(broker: Broker) -> None:
    subscriber = broker.subscriber(
        (broker.topic("#"), 0), (broker.topic("+"), 2), (broker.topic("a"), 1)
    )
    broker.connect().publish(broker.topic("a"), b"x", qos=2)
    end = broker.topic("deep/end")
    copies = [subscriber.expect_publish(broker.topic("a"), b"x")]
    while copies[-1].qos != 2:
        copies.append(subscriber.expect_publish(broker.topic("a"), b"x"))
    subscriber.acknowledge(copies[-1])
    broker.connect().publish(end, b"end")
    assert len(copies) + len(subscriber.until(b"end")) <= 3


@pytest.mark.statement("MQTT-3.3.5-2")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_is_not_allowed_is_acknowledged_or_closes_the_connection(
    broker: Broker, qos: int
) -> None:
    client = broker.connect()
    client.send(MQTT.publish("$SYS/broker/version", b"x", qos=qos, packet_id=3))
    try:
        answer = client.receive()
    except ConnectionEndedError:
        return
    assert (answer.kind, answer.packet_id) == (Kind.PUBACK if qos == 1 else Kind.PUBREC, 3)


@pytest.mark.statement("MQTT-3.3.4-1")
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 70_000])
def test_payloads_of_every_length_form_arrive_whole(broker: Broker, size: int) -> None:
    topic, payload = broker.topic(), bytes(range(256)) * (size // 256 + 1)
    client = broker.subscriber((topic, 1))
    broker.connect().publish(topic, payload[:size], qos=1)
    client.expect_publish(topic, payload[:size], 1)
