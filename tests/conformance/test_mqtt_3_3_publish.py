"""MQTT 3.1.1 and 5.0, section 3.3: PUBLISH, its flags and retained messages."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, V311, Kind, packet

LEVELS = (V311, V5)
MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID = 0x81, 0x82, 0x90


@pytest.mark.statement_3_1_1("MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-2.3.1-4")
@pytest.mark.statement_5_0("MQTT-3.3.1-1", "MQTT-4.4.0-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_sent_again_has_dup_and_its_packet_identifier(broker: Broker, qos: int) -> None:
    name, topic = broker.client_id(), broker.topic()
    subscriber = broker.connect(name, lasting=True)
    subscriber.subscribe((topic, qos))
    broker.connect().publish(topic, b"x", qos=qos)
    first = subscriber.expect_publish(topic, b"x", qos)
    assert not first.dup
    subscriber.close()
    again = broker.connect(name, clean=False).expect_publish(topic, b"x", qos)
    assert again.dup
    assert again.packet_id == first.packet_id


@pytest.mark.statement_3_1_1("MQTT-3.3.1-2")
@pytest.mark.statement_5_0("MQTT-3.3.1-2")
@pytest.mark.departs("mosquitto-2.0", "takes DUP with QoS 0")
def test_dup_on_a_message_of_qos_0_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(broker.packets.publish(broker.topic(), dup=True))
    client.expect_close(MALFORMED, PROTOCOL_ERROR)


@pytest.mark.statement_3_1_1("MQTT-3.3.1-3")
@pytest.mark.statement_5_0("MQTT-3.3.1-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_the_dup_flag_of_a_publisher_is_not_passed_on(broker: Broker, qos: int) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, 2)), broker.connect()
    publisher.send(broker.packets.publish(topic, b"x", qos=qos, packet_id=1, dup=True))
    if qos == 2:
        publisher.expect(Kind.PUBREC, 1)
        publisher.send(broker.packets.acknowledge(Kind.PUBREL, 1))
    assert not subscriber.expect_publish(topic, b"x", qos).dup


@pytest.mark.statement_3_1_1("MQTT-3.3.1-4")
@pytest.mark.statement_5_0("MQTT-3.3.1-4")
def test_qos_3_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(broker.packets.publish(broker.topic(), qos=3, packet_id=1))
    client.expect_close(MALFORMED)


@pytest.mark.statement_3_1_1("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
@pytest.mark.statement_5_0("MQTT-3.3.1-5", "MQTT-3.3.1-9")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_last_retained_message_is_sent_to_a_new_subscriber_at_its_qos(
    broker: Broker, qos: int
) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"older", qos=1, retain=True)
    publisher.publish(topic, b"last", qos=qos, retain=True)
    publisher.ping()
    assert broker.subscriber((topic, 2)).expect_publish(topic, b"last", qos).retain


@pytest.mark.statement_3_1_1("MQTT-3.3.1-10", "MQTT-3.3.1-11")
@pytest.mark.statement_5_0("MQTT-3.3.1-6", "MQTT-3.3.1-7")
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


@pytest.mark.statement_3_1_1("MQTT-3.3.1-12")
@pytest.mark.statement_5_0("MQTT-3.3.1-8")
def test_a_message_without_retain_leaves_the_retained_one_as_it_is(broker: Broker) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"not kept", qos=1)
    publisher.publish(topic, b"kept", qos=1, retain=True)
    publisher.publish(topic, b"not kept", qos=1)
    publisher.publish(topic, b"", qos=1)
    late = broker.subscriber((topic, 1))
    publisher.publish(topic, b"end", qos=1)
    assert [message.payload for message in late.until(b"end")] == [b"kept"]


@pytest.mark.statement_3_1_1("MQTT-3.3.2-1")
@pytest.mark.statement_5_0("MQTT-3.3.2-1")
@pytest.mark.parametrize("body", [b"", b"\0"], ids=["empty", "half-a-length"])
def test_a_publish_without_topic_name_closes_the_connection(broker: Broker, body: bytes) -> None:
    client = broker.connect()
    client.send(packet(0x30, body))
    client.expect_close(MALFORMED)


@pytest.mark.statement_3_1_1("MQTT-3.3.2-2", "MQTT-4.7.1-1")
@pytest.mark.statement_5_0("MQTT-3.3.2-2", "MQTT-4.7.0-1")
@pytest.mark.parametrize("name", ["a/#", "#", "a/+/b", "+", "a+", "#a"])
@pytest.mark.parametrize("qos", [0, 1])
def test_a_wildcard_in_a_topic_name_closes_the_connection(
    broker: Broker, name: str, qos: int
) -> None:
    client = broker.connect()
    client.send(broker.packets.publish(name, qos=qos, packet_id=1 if qos else None))
    client.expect_close(MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID)


@pytest.mark.statement_3_1_1("MQTT-3.3.4-1")
@pytest.mark.statement_5_0("MQTT-3.3.4-1")
def test_a_publish_is_answered_by_its_qos(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(broker.packets.publish(topic), broker.packets.pingreq())
    client.expect(Kind.PINGRESP)
    client.send(broker.packets.publish(topic, qos=1, packet_id=7))
    client.expect(Kind.PUBACK, 7)
    client.send(broker.packets.publish(topic, qos=2, packet_id=8))
    client.expect(Kind.PUBREC, 8)
