"""MQTT 3.1.1 sections 3.1.2.5 to 3.1.2.7 and 3.14: when a will is published, and how."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Packets, Will, packet

LEVEL = V311
MQTT = Packets(V311)


@pytest.mark.statement("MQTT-3.1.2-8", "MQTT-3.14.1-1")
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
    ],
)
def test_the_will_of_a_client_that_breaks_the_protocol_is_published(
    broker: Broker, data: bytes
) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    offender = broker.connect(will=Will(topic, b"gone", 1))
    offender.send(data)
    offender.expect_close()
    watcher.expect_publish(topic, b"gone", 1)


@pytest.mark.statement("MQTT-3.1.2-10", "MQTT-3.14.4-3")
def test_disconnect_takes_the_will_back(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=Will(topic, b"gone", 1)).disconnect()
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.2-10", "MQTT-3.1.2-12")
def test_a_will_is_published_once_and_not_for_a_later_connection(broker: Broker) -> None:
    topic, name = broker.topic(), broker.client_id()
    watcher = broker.subscriber((topic, 1))
    broker.connect(name, clean=False, will=Will(topic, b"gone", 1)).close()
    watcher.acknowledge(watcher.expect_publish(topic, b"gone"))
    later = broker.connect(name, clean=False)
    later.send(MQTT.connect(name))
    later.expect_close()
    broker.connect().publish(topic, b"end", qos=1)
    assert watcher.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.2-17", "MQTT-3.3.1-11")
def test_an_empty_retained_will_removes_the_retained_message(broker: Broker) -> None:
    topic = broker.topic()
    broker.connect().publish(topic, b"here", qos=1, retain=True)
    watcher = broker.subscriber((topic, 1))
    watcher.acknowledge(watcher.expect_publish(topic, b"here"))
    broker.connect(will=Will(topic, b"", 1, retain=True)).close()
    watcher.expect_publish(topic, b"")
    late = broker.subscriber((topic, 1))
    broker.connect().publish(topic, b"end", qos=1)
    assert late.until(b"end") == []
