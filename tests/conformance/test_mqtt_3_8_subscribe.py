"""MQTT 3.1.1 and 5.0, sections 3.8 to 3.11: subscriptions."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, V311

LEVELS = (V311, V5)


@pytest.mark.statement_3_1_1("MQTT-3.8.4-4")
@pytest.mark.statement_5_0("MQTT-3.8.4-5")
def test_many_filters_in_one_subscribe_all_take_effect(broker: Broker) -> None:
    topics = [broker.topic(f"{number}") for number in range(40)]
    client = broker.subscriber(*((topic, 1) for topic in topics))
    for topic in topics:
        client.publish(topic, b"x", qos=1)
        client.acknowledge(client.expect_publish(topic, b"x", 1))


@pytest.mark.statement_3_1_1("MQTT-3.8.4-6")
@pytest.mark.statement_5_0("MQTT-3.8.4-8")
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_a_message_comes_at_the_lower_of_both_qos(
    broker: Broker, granted: int, published: int
) -> None:
    topic = broker.topic()
    subscriber = broker.subscriber((topic, granted))
    broker.connect().publish(topic, b"x", qos=published)
    subscriber.expect_publish(topic, b"x", min(granted, published))


@pytest.mark.statement_3_1_1("MQTT-3.8.4-6")
@pytest.mark.statement_5_0("MQTT-3.8.4-8")
def test_a_retained_message_comes_at_the_lower_of_both_qos(broker: Broker) -> None:
    topic = broker.topic()
    broker.connect().publish(topic, b"x", qos=2, retain=True)
    broker.subscriber((topic, 1)).expect_publish(topic, b"x", 1)
    broker.subscriber((topic, 0)).expect_publish(topic, b"x", 0)


@pytest.mark.statement_3_1_1("MQTT-3.10.4-1")
@pytest.mark.statement_5_0("MQTT-3.10.4-1")
def test_unsubscribe_takes_away_exactly_the_named_filter(broker: Broker) -> None:
    client = broker.subscriber(broker.topic("a/b"), broker.topic("c"), broker.topic("end"))
    client.unsubscribe(broker.topic("a/+"), broker.topic("#"), broker.topic("C"))
    for name in ("a/b", "c", "end"):
        client.publish(broker.topic(name), name.encode())
    assert [message.payload for message in client.until(b"end")] == [b"a/b", b"c"]


@pytest.mark.statement_3_1_1("MQTT-3.10.4-2", "MQTT-3.10.4-1")
@pytest.mark.statement_5_0("MQTT-3.10.4-2", "MQTT-3.10.4-1")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_nothing_is_delivered_after_unsubscribe(broker: Broker, qos: int) -> None:
    client = broker.subscriber((broker.topic("a/+"), qos), (broker.topic("end"), qos))
    client.unsubscribe(broker.topic("a/+"))
    publisher = broker.connect()
    publisher.publish(broker.topic("a/b"), b"x", qos=qos)
    publisher.publish(broker.topic("end"), b"end", qos=qos)
    assert client.until(b"end") == []


@pytest.mark.statement_3_1_1("MQTT-3.10.4-3")
@pytest.mark.statement_5_0("MQTT-3.10.4-3")
def test_a_started_delivery_is_completed_after_unsubscribe(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.subscriber((topic, 2))
    broker.connect().publish(topic, b"x", qos=2)
    message = client.expect_publish(topic, b"x", 2)
    client.unsubscribe(topic)
    client.acknowledge(message)
    client.ping()
