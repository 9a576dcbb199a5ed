"""MQTT 3.1.1 and 5.0, chapters 1 and 2: strings, flags, identifiers, and how packets arrive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from raw_client import Broker
from raw_packets import V5, V311, Kind, Packets

LEVELS = (V311, V5)
MALFORMED, PROTOCOL_ERROR = 0x81, 0x82
ILL_FORMED = [b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"]


@pytest.mark.statement_3_1_1("MQTT-1.5.3-1")
@pytest.mark.statement_5_0("MQTT-1.5.4-1", "MQTT-3.3.2-1", "MQTT-4.13.1-1")
@pytest.mark.parametrize("text", ILL_FORMED, ids=bytes.hex)
def test_a_topic_name_of_ill_formed_utf8_closes_the_connection(broker: Broker, text: bytes) -> None:
    client = broker.connect()
    client.send(broker.packets.publish(b"a/" + text))
    client.expect_close(MALFORMED)


@pytest.mark.statement_3_1_1("MQTT-1.5.3-3")
@pytest.mark.statement_5_0("MQTT-1.5.4-3")
def test_a_byte_order_mark_is_a_character_of_the_topic(broker: Broker) -> None:
    marked = "\ufeff" + broker.topic("a")
    client = broker.subscriber(marked, broker.topic("a"), broker.topic("end"))
    client.publish(marked, b"marked")
    client.publish(broker.topic("end"), b"end")
    (message,) = client.until(b"end")
    assert message.topic == marked


@pytest.mark.statement_3_1_1("MQTT-2.3.1-1")
@pytest.mark.statement_5_0("MQTT-2.2.1-3")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda mqtt: mqtt.subscribe(0, "a"), id="subscribe"),
        pytest.param(lambda mqtt: mqtt.unsubscribe(0, "a"), id="unsubscribe"),
        pytest.param(lambda mqtt: mqtt.publish("a", qos=1, packet_id=0), id="publish-1"),
        pytest.param(lambda mqtt: mqtt.publish("a", qos=2, packet_id=0), id="publish-2"),
    ],
)
def test_a_packet_identifier_of_zero_closes_the_connection(
    broker: Broker, data: Callable[[Packets], bytes]
) -> None:
    client = broker.connect()
    client.send(data(broker.packets))
    client.expect_close(MALFORMED, PROTOCOL_ERROR)


@pytest.mark.statement_3_1_1("MQTT-2.3.1-1", "MQTT-2.3.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
@pytest.mark.statement_5_0("MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_messages_have_packet_identifiers_of_their_own(
    broker: Broker, qos: int
) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, qos)), broker.connect()
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=qos)
    messages = [subscriber.expect_publish(topic, qos=qos) for _ in range(5)]
    assert 0 not in [message.packet_id for message in messages]
    assert len({message.packet_id for message in messages}) == 5


@pytest.mark.statement_3_1_1("MQTT-2.3.1-6", "MQTT-4.3.2-2", "MQTT-4.3.3-2")
@pytest.mark.statement_5_0("MQTT-2.2.1-5", "MQTT-4.3.2-4", "MQTT-4.3.3-8", "MQTT-4.3.3-11")
def test_acknowledgements_carry_the_packet_identifier_of_the_publish(broker: Broker) -> None:
    client, topic = broker.subscriber(broker.topic("other")), broker.topic()
    client.send(broker.packets.publish(topic, qos=1, packet_id=0xFFFF))
    client.expect(Kind.PUBACK, 0xFFFF)
    client.send(broker.packets.publish(topic, qos=2, packet_id=0x1234))
    client.expect(Kind.PUBREC, 0x1234)
    client.send(broker.packets.acknowledge(Kind.PUBREL, 0x1234))
    assert client.expect(Kind.PUBCOMP, 0x1234).reason == 0


@pytest.mark.statement_3_1_1("MQTT-2.3.1-7", "MQTT-3.8.4-2", "MQTT-3.10.4-4")
@pytest.mark.statement_5_0("MQTT-2.2.1-6", "MQTT-3.8.4-2", "MQTT-3.10.4-5")
def test_suback_and_unsuback_carry_the_packet_identifier_of_their_request(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(broker.packets.subscribe(0xABCD, topic), broker.packets.unsubscribe(0x00FF, topic))
    client.expect(Kind.SUBACK, 0xABCD)
    client.expect(Kind.UNSUBACK, 0x00FF)


@pytest.mark.statement_3_1_1("MQTT-7.1.1-1")
@pytest.mark.statement_5_0("MQTT-4.2.0-1")
def test_packets_may_arrive_byte_by_byte_and_many_at_once(broker: Broker) -> None:
    client, topic = broker.dial(), broker.topic()
    for byte in broker.packets.connect(broker.client_id()) + broker.packets.subscribe(1, topic):
        client.send(bytes((byte,)))
    client.expect(Kind.CONNACK)
    client.expect(Kind.SUBACK, 1)
    client.send(
        *(broker.packets.publish(topic, b"%d" % number) for number in range(100)),
        broker.packets.pingreq(),
    )
    messages = [client.receive() for _ in range(101)]
    payloads = [m.payload for m in messages if m.kind is Kind.PUBLISH]
    assert payloads == [b"%d" % number for number in range(100)]
