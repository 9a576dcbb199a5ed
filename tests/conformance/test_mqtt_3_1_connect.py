"""MQTT 3.1.1 and 5.0, section 3.1: how a CONNECT must look, and its session."""

from __future__ import annotations

import string

import pytest
from raw_client import Broker
from raw_packets import V5, V311, Kind, Property, Will, binary

LEVELS = (V311, V5)
MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID, TAKEN_OVER = 0x81, 0x82, 0x90, 0x8E
NO_SUCH_VERSION = {V311: (1,), V5: (1, 0x84)}
"""Answers to a protocol that is none; 5.0 lets a server answer as an older one would."""
WILL_PROPERTIES = None
"""Stands for the properties of a will, of which 3.1.1 has not even the length."""


@pytest.mark.statement_3_1_1("MQTT-3.1.0-1")
@pytest.mark.statement_5_0("MQTT-3.1.0-1", "MQTT-3.14.0-1", "MQTT-3.2.0-1")
@pytest.mark.parametrize("kind", ["publish", "subscribe", "pingreq", "disconnect"])
def test_a_first_packet_other_than_connect_closes_the_connection_without_a_word(
    broker: Broker, kind: str
) -> None:
    packets = {
        "publish": broker.packets.publish("a", b"x"),
        "subscribe": broker.packets.subscribe(1, "a"),
        "pingreq": broker.packets.pingreq(),
        "disconnect": broker.packets.disconnect(),
    }
    client = broker.dial()
    client.send(packets[kind])
    client.expect_end()


@pytest.mark.statement_3_1_1("MQTT-3.1.0-2", "MQTT-4.8.0-1")
@pytest.mark.statement_5_0("MQTT-3.1.0-2", "MQTT-3.2.0-2", "MQTT-4.13.2-1")
@pytest.mark.departs_5_0("mosquitto-2.0", "closes without DISCONNECT")
def test_a_second_connect_is_a_protocol_error(broker: Broker) -> None:
    client = broker.connect()
    client.send(broker.packets.connect(broker.client_id()))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement_3_1_1("MQTT-3.1.2-1")
@pytest.mark.statement_5_0("MQTT-3.1.2-1")
@pytest.mark.parametrize("name", ["MQTX", "mqtt", "MQTTT", ""])
def test_another_protocol_name_is_refused(broker: Broker, name: str) -> None:
    client = broker.dial()
    client.send(broker.packets.connect(broker.client_id(), name=name))
    client.expect_refusal(*NO_SUCH_VERSION[broker.packets.level])


@pytest.mark.statement_3_1_1("MQTT-3.1.2-2")
@pytest.mark.statement_5_0("MQTT-3.1.2-2")
@pytest.mark.parametrize("level", [0, 6, 127])
def test_another_protocol_level_is_refused(broker: Broker, level: int) -> None:
    client = broker.dial()
    client.send(broker.packets.connect(broker.client_id(), level=level))
    client.expect_refusal(*NO_SUCH_VERSION[broker.packets.level])


# -- sessions --------------------------------------------------------------------------------------


@pytest.mark.statement_3_1_1("MQTT-3.1.2-6", "MQTT-3.1.4-3", "MQTT-3.2.2-1")
@pytest.mark.statement_5_0("MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
def test_a_clean_start_discards_the_session_for_good(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic("a")
    first = broker.connect(name, lasting=True)
    first.subscribe((topic, 1))
    first.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"lost", qos=1)
    clean = broker.connect(name)
    assert clean.connack is not None
    assert not clean.connack.session_present
    clean.subscribe((broker.topic("end"), 1))
    publisher.publish(topic, b"not subscribed", qos=1)
    publisher.publish(broker.topic("end"), b"end", qos=1)
    assert clean.until(b"end") == []


@pytest.mark.statement_3_1_1(
    *("MQTT-3.1.2-4", "MQTT-3.1.2-5", "MQTT-3.1.3-2", "MQTT-3.2.2-2"),
    *("MQTT-4.1.0-1", "MQTT-4.5.0-1"),
)
@pytest.mark.statement_5_0(
    *("MQTT-3.1.2-5", "MQTT-3.1.2-23", "MQTT-3.1.3-2", "MQTT-3.2.2-3", "MQTT-4.5.0-1")
)
@pytest.mark.parametrize("abrupt", [False, True], ids=["disconnect", "lost"])
def test_a_session_goes_on_with_its_subscriptions_and_what_waited_for_it(
    broker: Broker, abrupt: bool
) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, lasting=True)
    away.subscribe((topic, 2))
    away.close() if abrupt else away.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"one", qos=1)
    publisher.publish(topic, b"two", qos=2)
    back = broker.connect(name, clean=False)
    assert back.connack is not None
    assert back.connack.session_present
    waiting = [back.expect_publish(topic) for _ in range(2)]
    assert {(m.payload, m.qos) for m in waiting} == {(b"one", 1), (b"two", 2)}
    publisher.publish(topic, b"three", qos=1)
    back.expect_publish(topic, b"three", qos=1)


@pytest.mark.statement_3_1_1("MQTT-3.1.2-6", "MQTT-3.2.2-3")
@pytest.mark.statement_5_0("MQTT-4.1.0-2")
def test_a_session_that_is_not_to_last_ends_with_its_connection(broker: Broker) -> None:
    name = broker.client_id()
    first = broker.connect(name)
    first.subscribe((broker.topic(), 1))
    first.disconnect()
    again = broker.connect(name, clean=False)
    assert again.connack is not None
    assert not again.connack.session_present


@pytest.mark.statement_3_1_1("MQTT-3.1.3-2")
@pytest.mark.statement_5_0("MQTT-3.1.3-2")
def test_two_client_identifiers_have_two_sessions(broker: Broker) -> None:
    topic = broker.topic()
    owner, other = (broker.connect(lasting=True) for _ in range(2))
    owner.subscribe((topic, 1))
    other.subscribe((broker.topic("end"), 1))
    owner.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"x", qos=1)
    publisher.publish(broker.topic("end"), b"end", qos=1)
    assert other.until(b"end") == []


@pytest.mark.statement_3_1_1("MQTT-3.1.4-2", "MQTT-3.1.2-4")
@pytest.mark.statement_5_0("MQTT-3.1.4-3", "MQTT-3.1.2-5", "MQTT-4.13.2-1")
@pytest.mark.departs_5_0("mosquitto-2.0", "closes without DISCONNECT where a session is taken over")
def test_a_session_goes_over_to_the_newer_connection_of_its_client(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    older = broker.connect(name, lasting=True)
    older.subscribe((topic, 1))
    newer = broker.connect(name, clean=False)
    assert newer.connack is not None
    assert newer.connack.session_present
    older.expect_close(TAKEN_OVER)
    broker.connect().publish(topic, b"x", qos=1)
    newer.expect_publish(topic, b"x", qos=1)


@pytest.mark.statement_3_1_1("MQTT-3.1.4-2")
@pytest.mark.statement_5_0("MQTT-3.1.4-3", "MQTT-4.13.2-1")
@pytest.mark.departs_5_0("mosquitto-2.0", "closes without DISCONNECT where a session is taken over")
def test_a_client_that_connects_again_ends_its_older_connection(broker: Broker) -> None:
    name = broker.client_id()
    older = broker.connect(name)
    newer = broker.connect(name)
    older.expect_close(TAKEN_OVER)
    newer.ping()


# -- fields ----------------------------------------------------------------------------------------


@pytest.mark.statement_3_1_1("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-19", "MQTT-3.1.2-21")
@pytest.mark.statement_5_0("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-17", "MQTT-3.1.2-19")
def test_the_payload_fields_are_read_in_their_order(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    client = broker.connect(will=Will(topic, b"last words", 1), username="u", password=b"\xff\0")
    client.close()
    watcher.expect_publish(topic, b"last words", 1)


@pytest.mark.statement_3_1_1("MQTT-3.1.4-1", "MQTT-3.2.2-6")
@pytest.mark.statement_5_0("MQTT-3.1.4-1", "MQTT-3.2.2-7")
@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        pytest.param(
            0x03,
            [binary("id")],
            id="reserved-flag",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-3"),
                pytest.mark.statement_5_0("MQTT-3.1.2-3"),
            ],
        ),
        pytest.param(
            0x06,
            [binary("id")],
            id="no-will",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-9"),
                pytest.mark.statement_5_0("MQTT-3.1.2-9"),
            ],
        ),
        pytest.param(
            0x06,
            [binary("id"), WILL_PROPERTIES, binary("topic")],
            id="no-will-payload",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-9"),
                pytest.mark.statement_5_0("MQTT-3.1.2-9"),
            ],
        ),
        pytest.param(
            0x02,
            [binary("id"), binary("topic"), binary("message")],
            id="will-without-flag",
            marks=pytest.mark.statement_3_1_1("MQTT-3.1.2-11"),
        ),
        pytest.param(
            0x0A,
            [binary("id")],
            id="will-qos-without-will",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-11", "MQTT-3.1.2-13"),
                pytest.mark.statement_5_0("MQTT-3.1.2-11"),
            ],
        ),
        pytest.param(
            0x1E,
            [binary("id"), WILL_PROPERTIES, binary("topic"), binary("message")],
            id="will-qos-3",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-14"),
                pytest.mark.statement_5_0("MQTT-3.1.2-12"),
            ],
        ),
        pytest.param(
            0x22,
            [binary("id")],
            id="will-retain-without-will",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-11", "MQTT-3.1.2-15"),
                pytest.mark.statement_5_0("MQTT-3.1.2-13"),
            ],
        ),
        pytest.param(
            0x02,
            [binary("id"), binary("user")],
            id="user-name-without-flag",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-18"),
                pytest.mark.statement_5_0("MQTT-3.1.2-16"),
            ],
        ),
        pytest.param(
            0x82,
            [binary("id")],
            id="no-user-name",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-19"),
                pytest.mark.statement_5_0("MQTT-3.1.2-17"),
            ],
        ),
        pytest.param(
            0x82,
            [binary("id"), binary("user"), binary("password")],
            id="password-without-flag",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-20"),
                pytest.mark.statement_5_0("MQTT-3.1.2-18"),
            ],
        ),
        pytest.param(
            0xC2,
            [binary("id"), binary("user")],
            id="no-password",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.2-21"),
                pytest.mark.statement_5_0("MQTT-3.1.2-19"),
            ],
        ),
        pytest.param(
            0x02,
            [],
            id="no-client-identifier",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.3-3"),
                pytest.mark.statement_5_0("MQTT-3.1.3-3"),
            ],
        ),
        pytest.param(
            0x02,
            [binary(b"\xff\xfe")],
            id="client-identifier-not-utf8",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.3-4"),
                pytest.mark.statement_5_0("MQTT-3.1.3-4"),
            ],
        ),
        pytest.param(
            0x06,
            [binary("id"), WILL_PROPERTIES, binary(b"\xff"), binary("message")],
            id="will-topic-not-utf8",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.3-10"),
                pytest.mark.statement_5_0("MQTT-3.1.3-11"),
            ],
        ),
        pytest.param(
            0x82,
            [binary("id"), binary(b"\xff")],
            id="user-name-not-utf8",
            marks=[
                pytest.mark.statement_3_1_1("MQTT-3.1.3-11"),
                pytest.mark.statement_5_0("MQTT-3.1.3-12"),
            ],
        ),
    ],
)
def test_a_connect_that_breaks_its_format_is_not_taken(
    broker: Broker, flags: int, fields: list[bytes | None]
) -> None:
    will_properties = broker.packets.properties(())
    payload = b"".join(will_properties if one is WILL_PROPERTIES else one for one in fields)
    client = broker.dial()
    client.send(broker.packets.connect(flags=flags, payload=payload))
    client.expect_not_taken(MALFORMED)


@pytest.mark.statement_3_1_1("MQTT-4.7.1-1", "MQTT-3.1.4-1")
@pytest.mark.statement_5_0("MQTT-4.7.0-1", "MQTT-3.1.4-1")
@pytest.mark.parametrize("topic", ["a/#", "+/a", ""])
def test_a_will_topic_that_is_no_topic_name_is_not_taken(broker: Broker, topic: str) -> None:
    client = broker.dial()
    client.send(broker.packets.connect(broker.client_id(), will=Will(topic)))
    client.expect_not_taken(MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID)


@pytest.mark.statement_3_1_1("MQTT-3.1.3-5")
@pytest.mark.statement_5_0("MQTT-3.1.3-5")
@pytest.mark.parametrize(
    "name",
    ["Z", string.digits + "abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJ", "KLMNOPQRSTUVWXYZ"],
)
def test_client_identifiers_of_1_to_23_letters_and_digits_are_taken(
    broker: Broker, name: str
) -> None:
    broker.connect(name).ping()


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.statement_3_1_1("MQTT-3.1.4-4", "MQTT-3.2.2-1")
@pytest.mark.statement_5_0("MQTT-3.1.4-5", "MQTT-3.2.2-1", "MQTT-3.2.2-8")
def test_an_accepted_connect_is_answered_by_success_and_a_new_session(broker: Broker) -> None:
    connack = broker.connect().connack
    assert connack is not None
    assert connack.body[:2] == b"\0\0"
    assert broker.packets.level == V5 or len(connack.body) == 2


@pytest.mark.statement_3_1_1("MQTT-3.2.0-1")
@pytest.mark.statement_5_0("MQTT-3.2.0-1")
def test_connack_comes_first_even_where_the_session_has_messages(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, lasting=True)
    away.subscribe((topic, 1))
    away.disconnect()
    broker.connect().publish(topic, b"x", qos=1)
    back = broker.dial()
    back.send(broker.packets.connect(name, clean=False), broker.packets.pingreq())
    assert back.expect(Kind.CONNACK).session_present


@pytest.mark.statement_3_1_1("MQTT-3.1.2-24")
@pytest.mark.statement_5_0("MQTT-3.1.2-22", "MQTT-3.2.2-22")
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
    last = {b"", b"\xe0"} if broker.packets.level == V5 else {b""}  # 5.0 may have a DISCONNECT
    for _ in range(60):
        pinging.ping()
        try:
            assert silent.socket.recv(100)[:1] in last
        except TimeoutError:
            continue
        except OSError:
            pass
        break
    else:
        raise AssertionError("the silent client is still connected")
    watcher.expect_publish(topic, b"silent", 1)
    pinging.ping()
