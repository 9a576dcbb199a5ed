"""MQTT 3.1.1 section 3.1: what a CONNECT must look like and what it makes of the session."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Kind, Packets, Will, binary

LEVEL = V311
MQTT = Packets(V311)
IDENTIFIER_REJECTED = 2


@pytest.mark.statement("MQTT-3.1.0-1")
@pytest.mark.parametrize(
    "data",
    [MQTT.publish("a", b"x"), MQTT.subscribe(1, "a"), MQTT.pingreq(), MQTT.disconnect()],
    ids=["publish", "subscribe", "pingreq", "disconnect"],
)
def test_a_first_packet_other_than_connect_closes_the_connection(
    broker: Broker, data: bytes
) -> None:
    client = broker.dial()
    client.send(data)
    client.expect_close()


@pytest.mark.statement("MQTT-3.1.0-2", "MQTT-4.8.0-1")
def test_a_second_connect_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.connect(broker.client_id()))
    client.expect_close()


@pytest.mark.statement("MQTT-3.1.2-1")
@pytest.mark.parametrize("name", ["MQTX", "mqtt", "MQTTT", ""])
def test_another_protocol_name_is_not_processed_as_mqtt(broker: Broker, name: str) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), name=name))
    client.expect_refusal(1)


@pytest.mark.statement("MQTT-3.1.2-2")
@pytest.mark.parametrize("level", [0, 6, 127])
def test_another_protocol_level_is_answered_1_and_closed(broker: Broker, level: int) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), level=level))
    client.expect_refusal(1)


@pytest.mark.statement("MQTT-3.1.2-3")
def test_the_reserved_connect_flag_closes_the_connection(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), flags=0x03))
    client.expect_end()


@pytest.mark.statement("MQTT-3.1.2-4", "MQTT-3.1.3-2", "MQTT-3.2.2-2")
def test_clean_session_0_resumes_the_stored_subscriptions(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    first = broker.connect(name, clean=False)
    first.subscribe((topic, 1))
    first.disconnect()
    again = broker.connect(name, clean=False)
    assert again.connack is not None
    assert again.connack.session_present
    broker.connect().publish(topic, b"x", qos=1)
    again.expect_publish(topic, b"x", qos=1)


@pytest.mark.statement("MQTT-3.1.2-5", "MQTT-4.5.0-1", "MQTT-4.1.0-1")
@pytest.mark.parametrize("abrupt", [False, True], ids=["disconnect", "lost"])
def test_messages_of_qos_1_and_2_wait_for_a_client_that_is_away(
    broker: Broker, abrupt: bool
) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, clean=False)
    away.subscribe((topic, 2))
    away.close() if abrupt else away.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"one", qos=1)
    publisher.publish(topic, b"two", qos=2)
    back = broker.connect(name, clean=False)
    waiting = [back.expect_publish(topic) for _ in range(2)]
    assert {(m.payload, m.qos) for m in waiting} == {(b"one", 1), (b"two", 2)}


@pytest.mark.statement("MQTT-3.1.2-6", "MQTT-3.1.4-3", "MQTT-3.2.2-1")
def test_clean_session_1_discards_the_session_for_good(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic("a")
    first = broker.connect(name, clean=False)
    first.subscribe((topic, 1))
    first.disconnect()
    broker.connect().publish(topic, b"lost", qos=1)
    clean = broker.connect(name)
    assert clean.connack is not None
    assert not clean.connack.session_present
    clean.subscribe((broker.topic("end"), 1))
    publisher = broker.connect()
    publisher.publish(topic, b"not subscribed", qos=1)
    publisher.publish(broker.topic("end"), b"end", qos=1)
    assert clean.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.2-6", "MQTT-3.2.2-3")
def test_a_clean_session_ends_with_its_connection(broker: Broker) -> None:
    name = broker.client_id()
    first = broker.connect(name)
    first.subscribe((broker.topic(), 1))
    first.disconnect()
    again = broker.connect(name, clean=False)
    assert again.connack is not None
    assert not again.connack.session_present


@pytest.mark.statement("MQTT-3.1.2-7")
def test_retained_messages_outlive_the_session_that_published_them(broker: Broker) -> None:
    topic = broker.topic()
    publisher = broker.connect()
    publisher.publish(topic, b"kept", qos=1, retain=True)
    publisher.disconnect()
    broker.subscriber((topic, 1)).expect_publish(topic, b"kept")


@pytest.mark.statement("MQTT-3.1.3-2")
def test_two_client_identifiers_have_two_sessions(broker: Broker) -> None:
    names, topic = [broker.client_id(), broker.client_id()], broker.topic()
    owner, other = (broker.connect(name, clean=False) for name in names)
    owner.subscribe((topic, 1))
    other.subscribe((broker.topic("end"), 1))
    owner.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"x", qos=1)
    publisher.publish(broker.topic("end"), b"end", qos=1)
    assert other.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-19", "MQTT-3.1.2-21")
def test_the_payload_fields_are_read_in_their_order(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    client = broker.connect(will=Will(topic, b"last words", 1), username="u", password=b"\xff\0")
    client.close()
    watcher.expect_publish(topic, b"last words", 1)


@pytest.mark.parametrize(
    ("flags", "payload"),
    [
        pytest.param(0x06, binary("id"), id="no-will", marks=pytest.mark.statement("MQTT-3.1.2-9")),
        pytest.param(
            0x06,
            binary("id") + binary("topic"),
            id="no-will-message",
            marks=pytest.mark.statement("MQTT-3.1.2-9"),
        ),
        pytest.param(
            0x02,
            binary("id") + binary("topic") + binary("message"),
            id="will-without-flag",
            marks=pytest.mark.statement("MQTT-3.1.2-11"),
        ),
        pytest.param(
            0x0A,
            binary("id"),
            id="will-qos-without-will",
            marks=pytest.mark.statement("MQTT-3.1.2-11", "MQTT-3.1.2-13"),
        ),
        pytest.param(
            0x1E,
            binary("id") + binary("topic") + binary("message"),
            id="will-qos-3",
            marks=pytest.mark.statement("MQTT-3.1.2-14"),
        ),
        pytest.param(
            0x22,
            binary("id"),
            id="will-retain-without-will",
            marks=pytest.mark.statement("MQTT-3.1.2-11", "MQTT-3.1.2-15"),
        ),
        pytest.param(
            0x02,
            binary("id") + binary("user"),
            id="user-name-without-flag",
            marks=pytest.mark.statement("MQTT-3.1.2-18"),
        ),
        pytest.param(
            0x82, binary("id"), id="no-user-name", marks=pytest.mark.statement("MQTT-3.1.2-19")
        ),
        pytest.param(
            0x82,
            binary("id") + binary("user") + binary("password"),
            id="password-without-flag",
            marks=pytest.mark.statement("MQTT-3.1.2-20"),
        ),
        pytest.param(
            0xC2,
            binary("id") + binary("user"),
            id="no-password",
            marks=pytest.mark.statement("MQTT-3.1.2-21"),
        ),
        pytest.param(
            0x42,
            binary("id") + binary("password"),
            id="password-without-user-name",
            marks=pytest.mark.statement("MQTT-3.1.2-22"),
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
            binary("id") + binary(b"\xff") + binary("message"),
            id="will-topic-not-utf8",
            marks=pytest.mark.statement("MQTT-3.1.3-10"),
        ),
        pytest.param(
            0x82,
            binary("id") + binary(b"\xff"),
            id="user-name-not-utf8",
            marks=pytest.mark.statement("MQTT-3.1.3-11"),
        ),
    ],
)
@pytest.mark.statement("MQTT-3.1.4-1")
def test_a_connect_that_breaks_its_format_is_closed_without_connack(
    broker: Broker, flags: int, payload: bytes
) -> None:
    client = broker.dial()
    client.send(MQTT.connect(flags=flags, payload=payload))
    client.expect_end()


@pytest.mark.statement("MQTT-4.7.1-1", "MQTT-3.1.4-1")
@pytest.mark.parametrize("topic", ["a/#", "+/a", ""])
def test_a_will_topic_that_is_no_topic_name_is_closed_without_connack(
    broker: Broker, topic: str
) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), will=Will(topic)))
    client.expect_end()


@pytest.mark.statement("MQTT-3.1.3-6")
def test_clients_without_identifier_each_get_one_of_their_own(broker: Broker) -> None:
    topic = broker.topic()
    clients = [broker.connect("") for _ in range(3)]
    for client in clients:
        client.subscribe((topic, 1))
    broker.connect().publish(topic, b"x", qos=1)
    for client in clients:
        client.expect_publish(topic, b"x", qos=1)


@pytest.mark.statement(
    *("MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.1.3-9", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
)
def test_no_identifier_with_clean_session_0_is_answered_2_and_closed(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect("", clean=False))
    client.expect_refusal(IDENTIFIER_REJECTED)


@pytest.mark.statement("MQTT-3.1.4-2")
def test_a_client_that_connects_again_ends_its_older_connection(broker: Broker) -> None:
    name = broker.client_id()
    older = broker.connect(name)
    newer = broker.connect(name)
    older.expect_close()
    newer.ping()


@pytest.mark.statement("MQTT-3.1.4-2", "MQTT-3.1.2-4")
def test_a_session_goes_over_to_the_newer_connection(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    older = broker.connect(name, clean=False)
    older.subscribe((topic, 1))
    newer = broker.connect(name, clean=False)
    assert newer.connack is not None
    assert newer.connack.session_present
    older.expect_close()
    broker.connect().publish(topic, b"x", qos=1)
    newer.expect_publish(topic, b"x", qos=1)


@pytest.mark.statement("MQTT-3.1.4-4", "MQTT-3.2.2-1")
def test_an_accepted_connect_is_answered_by_a_connack_of_zeros(broker: Broker) -> None:
    connack = broker.connect().connack
    assert connack is not None
    assert connack.body == b"\0\0"


@pytest.mark.statement("MQTT-3.1.4-5")
def test_what_follows_a_refused_connect_is_not_processed(broker: Broker) -> None:
    topic = broker.topic()
    watcher, refused = broker.subscriber((topic, 1)), broker.dial()
    refused.send(MQTT.connect("", clean=False), MQTT.publish(topic, b"x", qos=1, packet_id=1))
    refused.expect_refusal(IDENTIFIER_REJECTED)
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.2-24")
def test_a_client_silent_for_one_and_a_half_keep_alives_is_dropped_and_a_pinging_one_not(
    broker: Broker,
) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    pinging = broker.connect(keep_alive_s=2)
    silent = broker.connect(keep_alive_s=1, will=Will(topic, b"silent", 1))
    silent.socket.settimeout(0.25)
    for _ in range(60):
        pinging.ping()
        try:
            assert silent.socket.recv(100) == b""
        except TimeoutError:
            continue
        except OSError:
            pass
        break
    else:
        raise AssertionError("the silent client is still connected")
    watcher.expect_publish(topic, b"silent", 1)
    pinging.ping()


@pytest.mark.statement("MQTT-3.2.0-1")
def test_connack_comes_first_even_where_the_session_has_messages(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, clean=False)
    away.subscribe((topic, 1))
    away.disconnect()
    broker.connect().publish(topic, b"x", qos=1)
    back = broker.dial()
    back.send(MQTT.connect(name, clean=False), MQTT.pingreq())
    back.expect(Kind.CONNACK)


@pytest.mark.statement("MQTT-3.2.2-6")
def test_a_broken_connect_has_no_return_code(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id())[:-1] + b"\xff")
    client.expect_end()
