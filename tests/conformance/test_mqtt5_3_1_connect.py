"""MQTT 5.0 section 3.1: a CONNECT that only this version has or answers so."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property, binary, properties

LEVEL = V5
MQTT = Packets(V5)
MALFORMED, PROTOCOL_ERROR = 0x81, 0x82
IDENTIFIER_INVALID, BAD_METHOD, NOT_AUTHORIZED = 0x85, 0x8C, 0x87
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]


@pytest.mark.statement("MQTT-3.1.0-1", "MQTT-3.14.0-1", "MQTT-3.2.0-1")
def test_auth_as_the_first_packet_closes_the_connection_without_a_word(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.auth(0x18, [(Property.AUTHENTICATION_METHOD, "x")]))
    client.expect_end()


@pytest.mark.statement("MQTT-3.1.2-6", "MQTT-3.2.2-3")
def test_clean_start_0_without_a_session_begins_a_new_one(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, clean=False, props=FOR_EVER)
    assert client.connack is not None
    assert not client.connack.session_present
    client.subscribe((topic, 1))
    client.disconnect()
    again = broker.connect(name, clean=False)
    assert again.connack is not None
    assert again.connack.session_present


@pytest.mark.statement("MQTT-4.1.0-2")
def test_a_session_expiry_interval_of_0_ends_the_session_with_the_connection(
    broker: Broker,
) -> None:
    name = broker.client_id()
    first = broker.connect(name, props=[(Property.SESSION_EXPIRY_INTERVAL, 0)])
    first.subscribe((broker.topic(), 1))
    first.disconnect()
    again = broker.connect(name, clean=False)
    assert again.connack is not None
    assert not again.connack.session_present


@pytest.mark.statement("MQTT-4.1.0-2")
def test_a_disconnect_may_shorten_the_session_to_nothing(broker: Broker) -> None:
    name = broker.client_id()
    first = broker.connect(name, props=FOR_EVER)
    first.disconnect(0, [(Property.SESSION_EXPIRY_INTERVAL, 0)])
    again = broker.connect(name, clean=False)
    assert again.connack is not None
    assert not again.connack.session_present


@pytest.mark.statement("MQTT-4.13.1-1")
def test_a_disconnect_may_not_give_an_expiry_to_a_session_that_had_none(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.disconnect(0, FOR_EVER))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.1.4-1", "MQTT-3.2.2-7", "MQTT-4.13.1-1")
def test_a_will_with_a_property_of_another_packet_is_refused(broker: Broker) -> None:
    alias = properties([(Property.TOPIC_ALIAS, 2)])
    payload = binary("id") + alias + binary("topic") + binary("payload")
    client = broker.dial()
    client.send(MQTT.connect(flags=0x06, payload=payload))
    client.expect_refusal(MALFORMED)


@pytest.mark.statement("MQTT-3.1.4-1")
@pytest.mark.parametrize(
    "props",
    [
        pytest.param([(Property.RECEIVE_MAXIMUM, 0)], id="receive-maximum-0"),
        pytest.param([(Property.MAXIMUM_PACKET_SIZE, 0)], id="maximum-packet-size-0"),
        pytest.param([(Property.REQUEST_PROBLEM_INFORMATION, 2)], id="problem-information-2"),
        pytest.param([(Property.REQUEST_RESPONSE_INFORMATION, 2)], id="response-information-2"),
        pytest.param([(Property.RECEIVE_MAXIMUM, 5)] * 2, id="repeated"),
        pytest.param(
            [(Property.AUTHENTICATION_DATA, b"x")],
            id="data-without-method",
            marks=pytest.mark.departs("mosquitto-2.0", "takes data without a method"),
        ),
    ],
)
def test_a_connect_with_a_wrong_value_of_a_property_is_refused(
    broker: Broker, props: list[tuple[int, object]]
) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), props=props))
    client.expect_refusal(PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.1.4-1")
def test_a_connect_with_a_property_of_another_packet_is_refused(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), props=[(Property.TOPIC_ALIAS, 1)]))
    client.expect_refusal(MALFORMED)


@pytest.mark.statement("MQTT-3.1.2-19")
def test_a_password_may_come_without_a_user_name(broker: Broker) -> None:
    broker.connect(password=b"token").ping()


@pytest.mark.statement("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
def test_clients_without_identifier_are_told_one_of_their_own(broker: Broker) -> None:
    clients = [broker.connect("", props=FOR_EVER) for _ in range(3)]
    names = [c.connack.value(Property.ASSIGNED_CLIENT_IDENTIFIER) for c in clients if c.connack]
    assert all(names)
    assert len(set(names)) == 3
    clients[0].disconnect()
    again = broker.connect(names[0], clean=False)
    assert again.connack is not None
    assert again.connack.session_present


@pytest.mark.statement("MQTT-3.1.3-8", "MQTT-3.1.3-6")
def test_no_identifier_with_clean_start_0_is_assigned_one_or_refused(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect("", clean=False))
    answer = client.expect(Kind.CONNACK)
    if answer.reason == 0:
        assert answer.value(Property.ASSIGNED_CLIENT_IDENTIFIER)
    else:
        assert answer.reason == IDENTIFIER_INVALID
        client.expect_end()


@pytest.mark.statement("MQTT-3.1.4-2", "MQTT-3.1.4-6", "MQTT-4.12.0-1", "MQTT-3.2.2-6")
def test_what_follows_a_refused_connect_is_not_processed(broker: Broker) -> None:
    topic = broker.topic()
    watcher, refused = broker.subscriber((topic, 1)), broker.dial()
    method = [(Property.AUTHENTICATION_METHOD, "no-such-method")]
    refused.send(
        MQTT.connect(broker.client_id(), props=method),
        MQTT.publish(topic, b"x", qos=1, packet_id=1),
    )
    refused.expect_refusal(BAD_METHOD, NOT_AUTHORIZED)
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []
