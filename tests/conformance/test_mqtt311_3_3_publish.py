"""MQTT 3.1.1 section 3.3: PUBLISH, its flags and retained messages."""

from __future__ import annotations

import pytest
from raw_client import Broker, ConnectionEndedError
from raw_packets import V311, Kind, Packets

LEVEL = V311
MQTT = Packets(V311)


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
