"""MQTT 3.1.1 sections 3.8 to 3.14: subscriptions, pings and the end."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Kind, Packets, binary, packet, two

LEVEL = V311
MQTT = Packets(V311)


@pytest.mark.parametrize(
    "first_byte",
    [
        pytest.param(0x80, marks=pytest.mark.statement("MQTT-3.8.1-1")),
        pytest.param(0x83, marks=pytest.mark.statement("MQTT-3.8.1-1")),
        pytest.param(0xA0, marks=pytest.mark.statement("MQTT-3.10.1-1")),
        pytest.param(0xAF, marks=pytest.mark.statement("MQTT-3.10.1-1")),
    ],
    ids=hex,
)
@pytest.mark.statement("MQTT-2.2.2-2")
def test_reserved_bits_of_a_request_close_the_connection(broker: Broker, first_byte: int) -> None:
    client = broker.connect()
    options = b"\0" if first_byte < 0xA0 else b""
    client.send(packet(first_byte, two(1), binary("a"), options))
    client.expect_close()


@pytest.mark.statement("MQTT-3.8.3-2")
def test_filters_with_wildcards_are_served(broker: Broker) -> None:
    client = broker.subscriber(broker.topic("+/b"))
    client.publish(broker.topic("a/b"), b"x")
    client.expect_publish(broker.topic("a/b"), b"x")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            MQTT.subscribe(1), id="subscribe", marks=pytest.mark.statement("MQTT-3.8.3-3")
        ),
        pytest.param(
            MQTT.unsubscribe(1), id="unsubscribe", marks=pytest.mark.statement("MQTT-3.10.3-2")
        ),
    ],
)
@pytest.mark.statement("MQTT-4.8.0-1")
def test_a_request_without_filters_closes_the_connection(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data)
    client.expect_close()


@pytest.mark.statement("MQTT-3.8.3-4")
@pytest.mark.parametrize("options", [3, 4, 0x11, 0x80], ids=hex)
def test_a_requested_qos_above_2_closes_the_connection(broker: Broker, options: int) -> None:
    client = broker.connect()
    client.send(MQTT.subscribe(1, (broker.topic(), options)))
    client.expect_close()


@pytest.mark.statement("MQTT-3.8.4-1", "MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
def test_suback_has_a_return_code_for_each_filter_in_order(broker: Broker) -> None:
    filters = [(broker.topic(f"{qos}"), qos) for qos in (2, 0, 1, 0, 2)]
    answer = broker.connect().subscribe(*filters)
    assert len(answer.reasons) == 5
    assert set(answer.reasons) <= {0, 1, 2, 0x80}
    assert answer.reasons == (2, 0, 1, 0, 2)


@pytest.mark.statement("MQTT-3.8.4-3")
def test_the_same_filter_replaces_the_subscription_and_sends_retained_again(
    broker: Broker,
) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"kept", qos=2, retain=True)
    client = broker.subscriber((topic, 2))
    client.acknowledge(client.expect_publish(topic, b"kept", 2))
    client.subscribe((topic, 1))
    again = client.expect_publish(topic, b"kept", 1)
    assert again.retain
    client.acknowledge(again)
    publisher.publish(topic, b"live", qos=2)
    publisher.publish(topic, b"end", qos=2)
    live = client.until(b"end")
    assert [(message.payload, message.qos) for message in live] == [(b"live", 1)]


@pytest.mark.statement("MQTT-3.10.4-3", "MQTT-4.4.0-1")
def test_a_started_delivery_survives_unsubscribe_and_reconnect(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, clean=False)
    client.subscribe((topic, 1))
    broker.connect().publish(topic, b"x", qos=1)
    client.expect_publish(topic, b"x", 1)
    client.unsubscribe(topic)
    client.close()
    assert broker.connect(name, clean=False).expect_publish(topic, b"x", 1).dup


@pytest.mark.statement("MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6")
def test_one_unsuback_answers_many_filters_even_unknown_ones(broker: Broker) -> None:
    client = broker.subscriber(*(broker.topic(name) for name in "abc"), broker.topic("end"))
    answer = client.unsubscribe(*(broker.topic(name) for name in "abxyz"))
    assert answer.body == two(answer.packet_id)
    for name in ("a", "b", "c"):
        client.publish(broker.topic(name), name.encode())
    client.publish(broker.topic("end"), b"end")
    assert [message.payload for message in client.until(b"end")] == [b"c"]


@pytest.mark.statement("MQTT-3.12.4-1")
def test_pingreq_is_answered_by_pingresp(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.pingreq(), MQTT.pingreq())
    assert client.expect(Kind.PINGRESP).body == b""
    client.expect(Kind.PINGRESP)


@pytest.mark.departs("mosquitto-2.0", "takes a PINGREQ with a body")
@pytest.mark.statement("MQTT-4.8.0-1")
def test_pingreq_with_a_body_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(packet(0xC0, b"x"))
    client.expect_close()


@pytest.mark.statement("MQTT-3.14.1-1")
@pytest.mark.parametrize("first_byte", [0xE1, 0xE2, 0xE8], ids=hex)
def test_reserved_bits_of_disconnect_close_the_connection(broker: Broker, first_byte: int) -> None:
    client = broker.connect()
    client.send(packet(first_byte))
    client.expect_close()


@pytest.mark.statement("MQTT-3.14.4-3")
def test_the_server_closes_after_disconnect_and_processes_no_more(broker: Broker) -> None:
    topic = broker.topic()
    watcher, client = broker.subscriber(topic), broker.connect()
    client.send(MQTT.disconnect(), MQTT.publish(topic, b"after the end"))
    client.expect_end()
    broker.connect().publish(topic, b"end")
    assert watcher.until(b"end") == []
