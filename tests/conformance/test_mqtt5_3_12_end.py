"""MQTT 5.0 sections 3.12 to 3.15 and 4.12: pings, the end, and enhanced authentication."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property, packet, properties

LEVEL = V5
MQTT = Packets(V5)
MALFORMED, PROTOCOL_ERROR, BAD_METHOD, NOT_AUTHORIZED = 0x81, 0x82, 0x8C, 0x87
CONTINUE, AGAIN = 0x18, 0x19
METHOD = [(Property.AUTHENTICATION_METHOD, "no-such-method")]
DISCONNECT_REASONS = {
    *(0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94),
    *(0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2),
}
SILENT = pytest.mark.departs("mosquitto-2.0", "closes without DISCONNECT")


@pytest.mark.statement("MQTT-3.12.4-1")
def test_pingreq_is_answered_by_pingresp(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.pingreq(), MQTT.pingreq())
    assert client.expect(Kind.PINGRESP).body == b""
    client.expect(Kind.PINGRESP)


@pytest.mark.statement("MQTT-3.14.2-1", "MQTT-3.14.2-2", "MQTT-3.14.4-1", "MQTT-3.14.4-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MQTT.connect("again"), id="second-connect", marks=SILENT),
        pytest.param(MQTT.publish("a/#"), id="wildcard-in-topic-name"),
        pytest.param(MQTT.subscribe(1), id="no-filters"),
        pytest.param(b"\x36\x00", id="qos-3"),
    ],
)
def test_the_servers_disconnect_names_a_defined_reason_and_is_the_last_packet(
    broker: Broker, data: bytes
) -> None:
    client = broker.connect()
    client.send(data, *([MQTT.pingreq()] * 3))
    received = client.expect(Kind.DISCONNECT)
    assert received.reason in DISCONNECT_REASONS
    assert received.reason >= 0x80
    assert not received.values(Property.SESSION_EXPIRY_INTERVAL)
    client.expect_end()


@pytest.mark.statement("MQTT-3.14.2-3", "MQTT-3.14.2-4")
def test_the_servers_disconnect_keeps_within_the_clients_maximum(broker: Broker) -> None:
    client = broker.connect(props=[(Property.MAXIMUM_PACKET_SIZE, 20)])
    client.send(MQTT.subscribe(1))
    assert len(client.expect(Kind.DISCONNECT).body) + 2 <= 20
    client.expect_end()


@pytest.mark.statement("MQTT-3.14.1-1")
@pytest.mark.parametrize("first_byte", [0xE1, 0xE2, 0xE8], ids=hex)
@SILENT
def test_reserved_bits_of_disconnect_are_malformed(broker: Broker, first_byte: int) -> None:
    client = broker.connect()
    client.send(packet(first_byte))
    client.expect_close(MALFORMED)


@pytest.mark.statement("MQTT-3.14.2-1", "MQTT-4.13.1-1")
@pytest.mark.departs("mosquitto-2.0", "takes any reason code of a DISCONNECT as a normal end")
def test_an_undefined_reason_code_of_disconnect_is_an_error(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    from_client = broker.connect()
    from_client.send(MQTT.disconnect(0x03))
    assert from_client.expect(Kind.DISCONNECT).reason in {MALFORMED, PROTOCOL_ERROR}
    watcher.ping()


@pytest.mark.statement("MQTT-3.14.4-3")
def test_the_server_closes_after_disconnect_and_processes_no_more(broker: Broker) -> None:
    topic = broker.topic()
    watcher, client = broker.subscriber(topic), broker.connect()
    client.send(MQTT.disconnect(), MQTT.publish(topic, b"after the end"))
    client.expect_end()
    broker.connect().publish(topic, b"end")
    assert watcher.until(b"end") == []


@pytest.mark.statement("MQTT-4.12.0-1", "MQTT-4.12.0-4", "MQTT-4.13.2-1", "MQTT-3.2.2-6")
def test_an_unknown_authentication_method_is_refused_and_closed(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), props=METHOD))
    client.expect_refusal(BAD_METHOD, NOT_AUTHORIZED)


@pytest.mark.statement("MQTT-4.12.0-6", "MQTT-4.12.0-7")
@pytest.mark.parametrize("reason", [CONTINUE, AGAIN], ids=hex)
@SILENT
def test_auth_of_a_client_that_named_no_method_closes_the_connection(
    broker: Broker, reason: int
) -> None:
    client = broker.connect()
    client.send(MQTT.auth(reason, METHOD))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.15.2-1")
@pytest.mark.parametrize("reason", [0x00, 0x01, 0x80], ids=hex)
@SILENT
def test_auth_of_another_reason_code_closes_the_connection(broker: Broker, reason: int) -> None:
    client = broker.connect()
    client.send(packet(0xF0, bytes((reason,)), properties(METHOD)))
    client.expect_close(PROTOCOL_ERROR, MALFORMED)
