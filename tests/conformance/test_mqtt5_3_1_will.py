"""MQTT 5.0 sections 3.1.2.5 to 3.1.2.7, 3.1.3.2 and 3.14: when a will is published, and how."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Packets, Property, Will, packet

LEVEL = V5
MQTT = Packets(V5)
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
DISCONNECT_WITH_WILL = 0x04


def delayed(topic: str, delay_s: int) -> Will:
    return Will(topic, b"gone", 1, props=[(Property.WILL_DELAY_INTERVAL, delay_s)])


@pytest.mark.statement("MQTT-3.1.2-8")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            MQTT.connect("second"),
            id="second-connect",
            marks=pytest.mark.departs("mosquitto-2.0", "drops the will at a second CONNECT"),
        ),
        pytest.param(MQTT.publish("a/#"), id="wildcard-in-topic-name"),
        pytest.param(packet(0xE1), id="disconnect-with-reserved-bits"),
        pytest.param(MQTT.disconnect(DISCONNECT_WITH_WILL), id="disconnect-with-will"),
    ],
)
def test_every_end_but_a_normal_disconnect_publishes_the_will(broker: Broker, data: bytes) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=Will(topic, b"gone", 1)).send(data)
    watcher.expect_publish(topic, b"gone", 1)


@pytest.mark.statement("MQTT-3.1.2-10", "MQTT-3.14.4-3")
def test_a_normal_disconnect_takes_the_will_back(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=Will(topic, b"gone", 1)).disconnect()
    broker.connect(will=delayed(topic, 1), props=FOR_EVER).disconnect()
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.2-10")
def test_a_will_is_published_once_and_not_for_a_later_connection(broker: Broker) -> None:
    topic, name = broker.topic(), broker.client_id()
    watcher = broker.subscriber((topic, 1))
    broker.connect(name, props=FOR_EVER, will=Will(topic, b"gone", 1)).close()
    watcher.acknowledge(watcher.expect_publish(topic, b"gone"))
    later = broker.connect(name, clean=False, props=FOR_EVER)
    later.send(MQTT.disconnect(DISCONNECT_WITH_WILL))
    later.expect_end()
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.3-9")
def test_a_client_that_is_back_within_the_will_delay_has_no_will_published(broker: Broker) -> None:
    topic, name = broker.topic(), broker.client_id()
    watcher = broker.subscriber((topic, 1))
    broker.connect(name, props=FOR_EVER, will=delayed(topic, 2)).close()
    broker.connect(name, clean=False, props=FOR_EVER)
    probe = broker.topic("probe")
    probing = broker.subscriber((probe, 1))
    # A later will of the same delay: when it comes, the first would have come before it.
    broker.connect(props=FOR_EVER, will=delayed(probe, 2)).close()
    probing.expect_publish(probe, b"gone")
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []


@pytest.mark.departs("mosquitto-2.0", "waits out the delay of a will whose session is over")
@pytest.mark.statement("MQTT-3.1.2-8")
def test_the_end_of_the_session_publishes_the_will_before_its_delay(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=delayed(topic, 3600)).close()
    watcher.expect_publish(topic, b"gone", 1)


@pytest.mark.departs("mosquitto-2.0", "waits out the delay of a will whose session is over")
@pytest.mark.statement("MQTT-3.1.2-8", "MQTT-3.1.2-4")
def test_a_clean_start_ends_the_session_and_so_publishes_its_will(broker: Broker) -> None:
    topic, name = broker.topic(), broker.client_id()
    watcher = broker.subscriber((topic, 1))
    broker.connect(name, props=FOR_EVER, will=delayed(topic, 3600)).close()
    broker.connect(name)
    watcher.expect_publish(topic, b"gone", 1)


@pytest.mark.statement("MQTT-3.1.3-10", "MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16")
def test_the_properties_of_a_will_are_published_with_it_in_their_order(broker: Broker) -> None:
    topic = broker.topic()
    props: list[tuple[int, object]] = [
        (Property.PAYLOAD_FORMAT_INDICATOR, 1),
        (Property.CONTENT_TYPE, "text"),
        (Property.RESPONSE_TOPIC, "answer/here"),
        (Property.CORRELATION_DATA, b"\0\1"),
        (Property.USER_PROPERTY, ("b", "1")),
        (Property.USER_PROPERTY, ("a", "2")),
        (Property.USER_PROPERTY, ("b", "1")),
    ]
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=Will(topic, b"gone", 1, props=props)).close()
    message = watcher.expect_publish(topic, b"gone")
    assert sorted(message.props, key=lambda item: item[0]) == props
