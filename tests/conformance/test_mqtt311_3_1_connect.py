"""MQTT 3.1.1 section 3.1: a CONNECT that only this version has or answers so."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Packets, binary

LEVEL = V311
MQTT = Packets(V311)
IDENTIFIER_REJECTED = 2


@pytest.mark.statement("MQTT-3.1.2-7")
def test_retained_messages_outlive_the_session_that_published_them(broker: Broker) -> None:
    topic = broker.topic()
    publisher = broker.connect()
    publisher.publish(topic, b"kept", qos=1, retain=True)
    publisher.disconnect()
    broker.subscriber((topic, 1)).expect_publish(topic, b"kept")


@pytest.mark.statement("MQTT-3.1.2-22", "MQTT-3.1.4-1")
def test_a_password_without_a_user_name_is_not_taken(broker: Broker) -> None:
    client = broker.dial()
    client.send(MQTT.connect(flags=0x42, payload=binary("id") + binary("password")))
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


@pytest.mark.statement("MQTT-3.1.4-5")
def test_what_follows_a_refused_connect_is_not_processed(broker: Broker) -> None:
    topic = broker.topic()
    watcher, refused = broker.subscriber((topic, 1)), broker.dial()
    refused.send(MQTT.connect("", clean=False), MQTT.publish(topic, b"x", qos=1, packet_id=1))
    refused.expect_refusal(IDENTIFIER_REJECTED)
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []
