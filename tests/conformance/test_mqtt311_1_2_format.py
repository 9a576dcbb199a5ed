"""MQTT 3.1.1 chapters 1 and 2: strings, flags, lengths and packet identifiers."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Kind, Packets, Will, binary, packet, two

LEVEL = V311
MQTT = Packets(V311)
ILL_FORMED = [b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"]


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


@pytest.mark.statement("MQTT-2.3.1-5", "MQTT-4.3.1-1", "MQTT-3.3.1-2")
def test_a_message_of_qos_0_comes_without_packet_identifier_and_dup(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.subscriber((topic, 2))
    client.publish(topic, b"x")
    message = client.expect_publish(topic, b"x")
    assert message.flags == 0
    assert message.body == binary(topic) + b"x"
