"""MQTT 5.0 chapters 1 and 2: strings, integers, flags, packet identifiers and properties."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property, Will, binary, packet, properties, two

LEVEL = V5
MQTT = Packets(V5)
MALFORMED, PROTOCOL_ERROR = 0x81, 0x82
ILL_FORMED = [b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"]
SILENT = pytest.mark.departs("mosquitto-2.0", "closes without DISCONNECT")


@pytest.mark.statement("MQTT-1.5.4-1", "MQTT-3.8.3-1", "MQTT-3.10.3-1")
@pytest.mark.parametrize("text", ILL_FORMED, ids=bytes.hex)
@pytest.mark.parametrize("unsubscribe", [False, True], ids=["subscribe", "unsubscribe"])
def test_a_filter_of_ill_formed_utf8_closes_the_connection(
    broker: Broker, text: bytes, unsubscribe: bool
) -> None:
    client = broker.connect()
    client.send(MQTT.unsubscribe(1, text) if unsubscribe else MQTT.subscribe(1, text))
    client.expect_close(MALFORMED)


@pytest.mark.parametrize(
    "props",
    [
        pytest.param(
            [(Property.CONTENT_TYPE, b"\xff")],
            id="content-type",
            marks=pytest.mark.statement("MQTT-3.3.2-19"),
        ),
        pytest.param(
            [(Property.RESPONSE_TOPIC, b"\xff")],
            id="response-topic",
            marks=pytest.mark.statement("MQTT-3.3.2-13"),
        ),
        pytest.param(
            [(Property.USER_PROPERTY, (b"\xff", "value"))],
            id="user-property-name",
            marks=pytest.mark.statement("MQTT-1.5.7-1"),
        ),
        pytest.param(
            [(Property.USER_PROPERTY, ("name", b"\xed\xa0\x80"))],
            id="user-property-value",
            marks=pytest.mark.statement("MQTT-1.5.7-1"),
        ),
    ],
)
@pytest.mark.statement("MQTT-1.5.4-1")
@SILENT
def test_a_property_of_ill_formed_utf8_closes_the_connection(
    broker: Broker, props: list[tuple[int, object]]
) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), props=props))
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-1.5.4-2", "MQTT-4.7.3-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MQTT.publish("a\0b"), id="publish"),
        pytest.param(MQTT.subscribe(1, "a\0b"), id="subscribe"),
        pytest.param(MQTT.unsubscribe(1, "a\0b"), id="unsubscribe"),
        pytest.param(
            MQTT.publish("a", props=[(Property.CONTENT_TYPE, "a\0b")]),
            id="content-type",
            marks=SILENT,
        ),
        pytest.param(
            MQTT.publish("a", props=[(Property.USER_PROPERTY, ("a\0", "b"))]),
            id="user-property",
            marks=SILENT,
        ),
    ],
)
def test_a_null_character_closes_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data)
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-1.5.4-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MQTT.connect("a\0b"), id="client-identifier"),
        pytest.param(MQTT.connect("a", username="a\0b"), id="user-name"),
        pytest.param(MQTT.connect("a", will=Will("a\0b")), id="will-topic"),
    ],
)
def test_a_null_character_in_a_connect_is_refused(broker: Broker, data: bytes) -> None:
    client = broker.dial()
    client.send(data)
    client.expect_refusal(MALFORMED)


@pytest.mark.statement("MQTT-1.5.5-1", "MQTT-4.13.1-1")
@SILENT
def test_a_length_of_five_bytes_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(b"\x30\xff\xff\xff\xff\x01")
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-1.5.5-1")
@pytest.mark.parametrize("length", [b"\x80\x00", b"\xff\xff\xff\xff\x01"], ids=bytes.hex)
def test_a_property_length_that_is_not_the_shortest_form_closes_the_connection(
    broker: Broker, length: bytes
) -> None:
    client = broker.connect()
    client.send(packet(0x30, binary(broker.topic()), length), MQTT.pingreq())
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-1.5.5-1")
@pytest.mark.departs("mosquitto-2.0", "takes a remaining length in more bytes than needed")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xc0\x80\0", id="pingreq"),
        pytest.param(b"\x30\x84\0" + binary("t") + b"\0", id="publish-0"),
        pytest.param(b"\x32\x86\x80\0" + binary("t") + b"\0\1\0", id="publish-1"),
        pytest.param(b"\x82\x87\x80\x80\0" + b"\0\1\0" + binary("t") + b"\0", id="subscribe"),
    ],
)
def test_a_remaining_length_that_is_not_the_shortest_form_closes_the_connection(
    broker: Broker, data: bytes
) -> None:
    client = broker.connect()
    client.send(data, MQTT.pingreq())
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-1.5.5-1")
@pytest.mark.departs("mosquitto-2.0", "takes a remaining length in more bytes than needed")
def test_a_connect_whose_remaining_length_is_not_the_shortest_form_is_refused(
    broker: Broker,
) -> None:
    data = MQTT.connect(broker.client_id())
    client = broker.dial()
    client.send(data[:1] + bytes((data[1] | 0x80, 0)) + data[2:])
    client.expect_end()  # what version it speaks stands behind the length


@pytest.mark.statement("MQTT-2.1.3-1")
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
            MQTT.acknowledge(Kind.PUBREL, 1, flags=0),
            id="pubrel",
            marks=[pytest.mark.statement("MQTT-3.6.1-1"), SILENT],
        ),
        pytest.param(
            MQTT.acknowledge(Kind.PUBCOMP, 1, flags=8),
            id="pubcomp",
            marks=pytest.mark.departs("mosquitto-2.0", "takes any flags of an acknowledgement"),
        ),
        pytest.param(
            b"\x80" + MQTT.subscribe(1, "a")[1:],
            id="subscribe",
            marks=pytest.mark.statement("MQTT-3.8.1-1"),
        ),
        pytest.param(
            b"\xa1" + MQTT.unsubscribe(1, "a")[1:],
            id="unsubscribe",
            marks=pytest.mark.statement("MQTT-3.10.1-1"),
        ),
        pytest.param(
            packet(0xC1),
            id="pingreq",
            marks=pytest.mark.departs("mosquitto-2.0", "takes any flags of a PINGREQ"),
        ),
        pytest.param(
            packet(0xE1),
            id="disconnect",
            marks=[pytest.mark.statement("MQTT-3.14.1-1"), SILENT],
        ),
        pytest.param(
            packet(0xF1, b"\x18", properties([(Property.AUTHENTICATION_METHOD, "x")])),
            id="auth",
            marks=[pytest.mark.statement("MQTT-3.15.1-1"), SILENT],
        ),
    ],
)
def test_reserved_flags_of_a_fixed_header_close_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data, MQTT.pingreq())
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(packet(0x00), id="type-0"),
        pytest.param(packet(0x20, b"\0\0\0"), id="connack", marks=SILENT),
        pytest.param(
            packet(0x90, b"\0\1\0\0"),
            id="suback",
            marks=pytest.mark.departs("mosquitto-2.0", "takes a SUBACK from a client"),
        ),
        pytest.param(
            packet(0xB0, b"\0\1\0\0"),
            id="unsuback",
            marks=pytest.mark.departs("mosquitto-2.0", "takes an UNSUBACK from a client"),
        ),
        pytest.param(
            packet(0xD0),
            id="pingresp",
            marks=pytest.mark.departs("mosquitto-2.0", "takes a PINGRESP from a client"),
        ),
        pytest.param(
            packet(0xC0, b"x"),
            id="pingreq-with-body",
            marks=pytest.mark.departs("mosquitto-2.0", "takes a PINGREQ with a body"),
        ),
        pytest.param(packet(0x30, two(9), b"short"), id="topic-past-the-end"),
        pytest.param(packet(0x30, binary("t"), b"\x05"), id="properties-past-the-end"),
        pytest.param(packet(0x30, binary("t")), id="no-property-length"),
        pytest.param(packet(0x82, two(1), b"\0", two(9), b"short"), id="filter-past-the-end"),
        pytest.param(packet(0x82, two(1), b"\0", binary("no-options")), id="no-options"),
    ],
)
def test_a_malformed_packet_closes_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data, MQTT.pingreq())
    client.expect_close(MALFORMED, PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-2.2.1-2", "MQTT-2.2.2-1", "MQTT-4.3.1-1", "MQTT-3.3.1-2")
def test_a_message_of_qos_0_comes_without_packet_identifier_dup_and_properties(
    broker: Broker,
) -> None:
    topic = broker.topic()
    client = broker.subscriber((topic, 2))
    client.publish(topic, b"x")
    message = client.expect_publish(topic, b"x")
    assert message.flags == 0
    assert message.body == binary(topic) + b"\0x"


@pytest.mark.statement("MQTT-4.13.1-1")
@pytest.mark.parametrize(
    ("props", "reason"),
    [
        pytest.param(
            [(Property.CONTENT_TYPE, "a"), (Property.CONTENT_TYPE, "b")],
            PROTOCOL_ERROR,
            id="repeated",
            marks=SILENT,
        ),
        pytest.param([(Property.RECEIVE_MAXIMUM, 5)], MALFORMED, id="of-another-packet"),
        pytest.param([(0x7E, b"\0")], MALFORMED, id="unknown"),
        pytest.param([(Property.MESSAGE_EXPIRY_INTERVAL, b"\0\0")], MALFORMED, id="cut-short"),
    ],
)
def test_a_property_that_a_publish_may_not_have_closes_the_connection(
    broker: Broker, props: list[tuple[int, object]], reason: int
) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), b"x", props=props))
    client.expect_close(reason)
