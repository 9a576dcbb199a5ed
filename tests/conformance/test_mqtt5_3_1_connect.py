"""MQTT 5.0 section 3.1: what a CONNECT must look like and what it makes of the session."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property, Will, binary, properties

LEVEL = V5
MQTT = Packets(V5)
MALFORMED, PROTOCOL_ERROR, UNSUPPORTED_VERSION = 0x81, 0x82, 0x84
IDENTIFIER_INVALID, BAD_METHOD, NOT_AUTHORIZED, TAKEN_OVER = 0x85, 0x8C, 0x87, 0x8E
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]


@pytest.mark.statement("MQTT-3.1.0-1", "MQTT-3.14.0-1", "MQTT-3.2.0-1")
@pytest.mark.parametrize(
    "data",
    [
        MQTT.publish("a", b"x"),
        MQTT.subscribe(1, "a"),
        MQTT.pingreq(),
        MQTT.disconnect(),
        MQTT.auth(0x18, [(Property.AUTHENTICATION_METHOD, "x")]),
    ],
    ids=["publish", "subscribe", "pingreq", "disconnect", "auth"],
)
def test_a_first_packet_other_than_connect_closes_the_connection_without_disconnect(
    broker: Broker, data: bytes
) -> None:
    client = broker.dial()
    client.send(data)
    client.expect_end()


@pytest.mark.statement("MQTT-3.1.0-2", "MQTT-3.2.0-2", "MQTT-4.13.2-1")
@pytest.mark.departs("mosquitto-2.0", "closes without DISCONNECT")
def test_a_second_connect_is_a_protocol_error(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.connect(broker.client_id()))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.1.2-1")
@pytest.mark.parametrize("name", ["MQTX", "mqtt", "MQTTT", ""])
def test_another_protocol_name_is_refused(broker: Broker, name: str) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), name=name))
    client.expect_refusal(1, UNSUPPORTED_VERSION)


@pytest.mark.statement("MQTT-3.1.2-2")
@pytest.mark.parametrize("level", [0, 6, 127])
def test_another_protocol_version_is_refused(broker: Broker, level: int) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), level=level))
    client.expect_refusal(1, UNSUPPORTED_VERSION)


@pytest.mark.statement("MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
def test_clean_start_1_discards_the_session(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic("a")
    first = broker.connect(name, props=FOR_EVER)
    first.subscribe((topic, 1))
    first.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"lost", qos=1)
    clean = broker.connect(name, props=FOR_EVER)
    assert clean.connack is not None
    assert not clean.connack.session_present
    clean.subscribe((broker.topic("end"), 1))
    publisher.publish(topic, b"not subscribed", qos=1)
    publisher.publish(broker.topic("end"), b"end", qos=1)
    assert clean.until(b"end") == []


@pytest.mark.statement(
    *("MQTT-3.1.2-5", "MQTT-3.1.2-23", "MQTT-3.1.3-2", "MQTT-3.2.2-3", "MQTT-4.5.0-1")
)
@pytest.mark.parametrize("abrupt", [False, True], ids=["disconnect", "lost"])
def test_clean_start_0_resumes_the_session_with_what_waited_for_it(
    broker: Broker, abrupt: bool
) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, props=FOR_EVER)
    away.subscribe((topic, 2))
    away.close() if abrupt else away.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"one", qos=1)
    publisher.publish(topic, b"two", qos=2)
    back = broker.connect(name, clean=False, props=FOR_EVER)
    assert back.connack is not None
    assert back.connack.session_present
    waiting = [back.expect_publish(topic) for _ in range(2)]
    assert {(m.payload, m.qos) for m in waiting} == {(b"one", 1), (b"two", 2)}


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
@pytest.mark.parametrize("props", [[], [(Property.SESSION_EXPIRY_INTERVAL, 0)]], ids=["none", "0"])
def test_without_session_expiry_interval_the_session_ends_with_the_connection(
    broker: Broker, props: list[tuple[int, int]]
) -> None:
    name = broker.client_id()
    first = broker.connect(name, props=props)
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


@pytest.mark.statement("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-17", "MQTT-3.1.2-19")
def test_the_payload_fields_are_read_in_their_order(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    will = Will(topic, b"last words", 1, props=[(Property.CONTENT_TYPE, "text")])
    client = broker.connect(will=will, username="u", password=b"\xff\0")
    client.close()
    message = watcher.expect_publish(topic, b"last words", 1)
    assert message.value(Property.CONTENT_TYPE) == "text"


@pytest.mark.parametrize(
    ("flags", "payload"),
    [
        pytest.param(
            0x03, binary("id"), id="reserved-flag", marks=pytest.mark.statement("MQTT-3.1.2-3")
        ),
        pytest.param(0x06, binary("id"), id="no-will", marks=pytest.mark.statement("MQTT-3.1.2-9")),
        pytest.param(
            0x06,
            binary("id") + b"\0" + binary("topic"),
            id="no-will-payload",
            marks=pytest.mark.statement("MQTT-3.1.2-9"),
        ),
        pytest.param(
            0x0A, binary("id"), id="qos-without-will", marks=pytest.mark.statement("MQTT-3.1.2-11")
        ),
        pytest.param(
            0x1E,
            binary("id") + b"\0" + binary("topic") + binary("payload"),
            id="will-qos-3",
            marks=pytest.mark.statement("MQTT-3.1.2-12"),
        ),
        pytest.param(
            0x22,
            binary("id"),
            id="retain-without-will",
            marks=pytest.mark.statement("MQTT-3.1.2-13"),
        ),
        pytest.param(
            0x02,
            binary("id") + binary("user"),
            id="user-name-without-flag",
            marks=pytest.mark.statement("MQTT-3.1.2-16"),
        ),
        pytest.param(
            0x82, binary("id"), id="no-user-name", marks=pytest.mark.statement("MQTT-3.1.2-17")
        ),
        pytest.param(
            0x82,
            binary("id") + binary("user") + binary("password"),
            id="password-without-flag",
            marks=pytest.mark.statement("MQTT-3.1.2-18"),
        ),
        pytest.param(
            0xC2,
            binary("id") + binary("user"),
            id="no-password",
            marks=pytest.mark.statement("MQTT-3.1.2-19"),
        ),
        pytest.param(
            0x02, b"", id="no-client-identifier", marks=pytest.mark.statement("MQTT-3.1.3-3")
        ),
        pytest.param(
            0x02,
            binary(b"\xff\xfe"),
            id="client-identifier-not-utf8",
            marks=pytest.mark.statement("MQTT-3.1.3-4"),
        ),
        pytest.param(
            0x06,
            binary("id") + b"\0" + binary(b"\xff") + binary("payload"),
            id="will-topic-not-utf8",
            marks=pytest.mark.statement("MQTT-3.1.3-11"),
        ),
        pytest.param(
            0x82,
            binary("id") + binary(b"\xff"),
            id="user-name-not-utf8",
            marks=pytest.mark.statement("MQTT-3.1.3-12"),
        ),
        pytest.param(
            0x06,
            binary("id")
            + properties([(Property.TOPIC_ALIAS, 2)])
            + binary("topic")
            + binary("payload"),
            id="will-property-of-another-packet",
            marks=pytest.mark.statement("MQTT-4.13.1-1"),
        ),
    ],
)
@pytest.mark.statement("MQTT-3.1.4-1", "MQTT-3.2.2-7")
def test_a_connect_that_breaks_its_format_is_refused(
    broker: Broker, flags: int, payload: bytes
) -> None:
    client = broker.dial()
    client.send(MQTT.connect(flags=flags, payload=payload))
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


@pytest.mark.statement("MQTT-4.7.0-1", "MQTT-3.1.4-1")
@pytest.mark.parametrize("topic", ["a/#", "+/a", ""])
def test_a_will_topic_that_is_no_topic_name_is_refused(broker: Broker, topic: str) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), will=Will(topic)))
    client.expect_refusal(MALFORMED, PROTOCOL_ERROR, 0x90)


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


@pytest.mark.departs("mosquitto-2.0", "closes without DISCONNECT where a session is taken over")
@pytest.mark.statement("MQTT-3.1.4-3", "MQTT-4.13.2-1")
def test_a_connection_that_is_taken_over_is_told_so_and_closed(broker: Broker) -> None:
    name = broker.client_id()
    older = broker.connect(name)
    newer = broker.connect(name)
    assert older.expect(Kind.DISCONNECT).reason == TAKEN_OVER
    older.expect_end()
    newer.ping()


@pytest.mark.statement("MQTT-3.1.4-5", "MQTT-3.2.2-1", "MQTT-3.2.2-8")
def test_an_accepted_connect_is_answered_by_success(broker: Broker) -> None:
    connack = broker.connect().connack
    assert connack is not None
    assert connack.body[:2] == b"\0\0"


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


@pytest.mark.statement("MQTT-3.1.2-22", "MQTT-3.2.2-22")
def test_a_client_silent_for_one_and_a_half_keep_alives_is_dropped_and_a_pinging_one_not(
    broker: Broker,
) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    pinging = broker.connect(keep_alive_s=2)
    silent = broker.connect(keep_alive_s=1, will=Will(topic, b"silent", 1))
    assert silent.connack is not None
    if silent.connack.value(Property.SERVER_KEEP_ALIVE, 1) != 1:
        pytest.skip("the server sets a keep alive of its own")
    silent.socket.settimeout(0.25)
    for _ in range(60):
        pinging.ping()
        try:
            assert silent.socket.recv(100)[:1] in {b"", b"\xe0"}
        except TimeoutError:
            continue
        except OSError:
            pass
        break
    else:
        raise AssertionError("the silent client is still connected")
    watcher.expect_publish(topic, b"silent", 1)
    pinging.ping()
