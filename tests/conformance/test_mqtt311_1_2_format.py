"""MQTT 3.1.1 chapters 1 and 2: strings, flags, lengths and packet identifiers."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Kind, Packets, Will, binary, packet, two

LEVEL = V311
MQTT = Packets(V311)
ILL_FORMED = [b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"]


@pytest.mark.statement("MQTT-1.5.3-1")
@pytest.mark.parametrize("text", ILL_FORMED, ids=bytes.hex)
def test_a_topic_name_of_ill_formed_utf8_closes_the_connection(broker: Broker, text: bytes) -> None:
    client = broker.connect()
    client.send(MQTT.publish(b"a/" + text, b"x"))
    client.expect_close()


@pytest.mark.statement("MQTT-1.5.3-1", "MQTT-3.8.3-1")
@pytest.mark.parametrize("text", ILL_FORMED, ids=bytes.hex)
def test_a_filter_of_ill_formed_utf8_closes_the_connection(broker: Broker, text: bytes) -> None:
    client = broker.connect()
    client.send(MQTT.subscribe(1, b"a/" + text))
    client.expect_close()


@pytest.mark.statement("MQTT-1.5.3-1", "MQTT-3.10.3-1")
def test_an_unsubscribed_filter_of_ill_formed_utf8_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.unsubscribe(1, b"a/\xff"))
    client.expect_close()


@pytest.mark.statement("MQTT-1.5.3-2", "MQTT-4.7.3-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MQTT.publish("a\0b"), id="publish"),
        pytest.param(MQTT.subscribe(1, "a\0b"), id="subscribe"),
        pytest.param(MQTT.unsubscribe(1, "a\0b"), id="unsubscribe"),
    ],
)
def test_a_null_character_in_a_topic_closes_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data)
    client.expect_close()


@pytest.mark.statement("MQTT-1.5.3-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MQTT.connect("a\0b"), id="client-identifier"),
        pytest.param(MQTT.connect("a", username="a\0b"), id="user-name"),
        pytest.param(MQTT.connect("a", will=Will("a\0b")), id="will-topic"),
    ],
)
def test_a_null_character_in_a_connect_closes_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.dial()
    client.send(data)
    client.expect_end()


@pytest.mark.statement("MQTT-1.5.3-3")
def test_a_byte_order_mark_is_a_character_of_the_topic(broker: Broker) -> None:
    marked = "\ufeff" + broker.topic("a")
    client = broker.subscriber(marked, broker.topic("a"), broker.topic("end"))
    client.publish(marked, b"marked")
    client.publish(broker.topic("end"), b"end")
    (message,) = client.until(b"end")
    assert message.topic == marked


@pytest.mark.statement("MQTT-2.2.2-1", "MQTT-2.2.2-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            MQTT.acknowledge(Kind.PUBACK, 1, flags=1),
            id="puback",
            marks=pytest.mark.departs("mosquitto-2.0", "takes any flags of an acknowledgement"),
        ),
        pytest.param(
            MQTT.acknowledge(Kind.PUBREC, 1, flags=2),
            id="pubrec",
            marks=pytest.mark.departs("mosquitto-2.0", "takes any flags of an acknowledgement"),
        ),
        pytest.param(
            MQTT.acknowledge(Kind.PUBCOMP, 1, flags=8),
            id="pubcomp",
            marks=pytest.mark.departs("mosquitto-2.0", "takes any flags of an acknowledgement"),
        ),
        pytest.param(
            packet(0xC1),
            id="pingreq",
            marks=pytest.mark.departs("mosquitto-2.0", "takes any flags of a PINGREQ"),
        ),
    ],
)
def test_reserved_flags_of_a_fixed_header_close_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data, MQTT.pingreq())
    client.expect_close()


@pytest.mark.statement("MQTT-2.2.2-2", "MQTT-3.1.4-1")
def test_reserved_flags_of_a_connect_close_the_connection(broker: Broker) -> None:
    client = broker.dial()
    client.send(b"\x11" + MQTT.connect(broker.client_id())[1:])
    client.expect_end()


@pytest.mark.statement("MQTT-4.8.0-1")
@pytest.mark.parametrize("first_byte", [0x00, 0xF0], ids=hex)
def test_a_reserved_packet_type_closes_the_connection(broker: Broker, first_byte: int) -> None:
    client = broker.connect()
    client.send(packet(first_byte))
    client.expect_close()


@pytest.mark.statement("MQTT-4.8.0-1")
@pytest.mark.parametrize(
    "kind",
    [
        Kind.CONNACK,
        Kind.SUBACK,
        Kind.UNSUBACK,
        pytest.param(
            Kind.PINGRESP,
            marks=pytest.mark.departs("mosquitto-2.0", "takes a PINGRESP from a client"),
        ),
    ],
    ids=lambda kind: kind.name.lower(),
)
def test_a_packet_that_only_servers_send_closes_the_connection(broker: Broker, kind: Kind) -> None:
    client = broker.connect()
    client.send(packet(kind << 4, b"" if kind is Kind.PINGRESP else b"\0\0\0"))
    client.expect_close()


@pytest.mark.statement("MQTT-4.8.0-1")
def test_a_remaining_length_of_five_bytes_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(b"\x30\xff\xff\xff\xff\x01")
    client.expect_close()


@pytest.mark.statement("MQTT-4.8.0-1")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(packet(0x30, two(9), b"short"), id="topic"),
        pytest.param(packet(0x32, binary("t"), b"\0"), id="packet-identifier"),
        pytest.param(packet(0x82, two(1), two(9), b"short"), id="filter"),
        pytest.param(packet(0x82, two(1), binary("filter-without-qos")), id="qos"),
        pytest.param(packet(0x62, b"\0"), id="pubrel"),
    ],
)
def test_a_field_that_goes_past_its_packet_closes_the_connection(
    broker: Broker, data: bytes
) -> None:
    client = broker.connect()
    client.send(data)
    client.expect_close()


@pytest.mark.statement("MQTT-2.3.1-1")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MQTT.subscribe(0, "a"), id="subscribe"),
        pytest.param(MQTT.unsubscribe(0, "a"), id="unsubscribe"),
        pytest.param(MQTT.publish("a", qos=1, packet_id=0), id="publish-1"),
        pytest.param(MQTT.publish("a", qos=2, packet_id=0), id="publish-2"),
    ],
)
def test_a_packet_identifier_of_zero_closes_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data)
    client.expect_close()


@pytest.mark.statement("MQTT-2.3.1-1", "MQTT-2.3.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_messages_have_packet_identifiers_of_their_own(
    broker: Broker, qos: int
) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, qos)), broker.connect()
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=qos)
    identifiers = [subscriber.expect_publish(topic, qos=qos).packet_id for _ in range(5)]
    assert 0 not in identifiers
    assert len(set(identifiers)) == 5


@pytest.mark.statement("MQTT-2.3.1-5", "MQTT-4.3.1-1", "MQTT-3.3.1-2")
def test_a_message_of_qos_0_comes_without_packet_identifier_and_dup(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.subscriber((topic, 2))
    client.publish(topic, b"x")
    message = client.expect_publish(topic, b"x")
    assert message.flags == 0
    assert message.body == binary(topic) + b"x"


@pytest.mark.statement("MQTT-2.3.1-6", "MQTT-4.3.2-2", "MQTT-4.3.3-2")
def test_acknowledgements_carry_the_packet_identifier_of_the_publish(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(MQTT.publish(topic, qos=1, packet_id=0xFFFF))
    client.expect(Kind.PUBACK, 0xFFFF)
    client.send(MQTT.publish(topic, qos=2, packet_id=0x1234))
    client.expect(Kind.PUBREC, 0x1234)
    client.send(MQTT.acknowledge(Kind.PUBREL, 0x1234))
    client.expect(Kind.PUBCOMP, 0x1234)


@pytest.mark.statement("MQTT-2.3.1-7", "MQTT-3.8.4-2", "MQTT-3.10.4-4")
def test_suback_and_unsuback_carry_the_packet_identifier_of_their_request(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(MQTT.subscribe(0xABCD, topic), MQTT.unsubscribe(0x00FF, topic))
    client.expect(Kind.SUBACK, 0xABCD)
    client.expect(Kind.UNSUBACK, 0x00FF)


@pytest.mark.statement("MQTT-7.1.1-1")
def test_packets_may_arrive_byte_by_byte_and_many_at_once(broker: Broker) -> None:
    client, topic = broker.dial(), broker.topic()
    for byte in MQTT.connect(broker.client_id()) + MQTT.subscribe(1, topic):
        client.send(bytes((byte,)))
    client.expect(Kind.CONNACK)
    client.expect(Kind.SUBACK, 1)
    client.send(*(MQTT.publish(topic, b"%d" % number) for number in range(100)), MQTT.pingreq())
    messages = [client.receive() for _ in range(101)]
    payloads = [m.payload for m in messages if m.kind is Kind.PUBLISH]
    assert payloads == [b"%d" % number for number in range(100)]
