"""MQTT 3.1.1 chapter 4: delivery by QoS, redelivery, order, and errors."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V311, Kind, Packets

LEVEL = V311
MQTT = Packets(V311)


@pytest.mark.statement("MQTT-4.1.0-2", "MQTT-4.1.0-1")
def test_a_session_lasts_as_long_as_its_connection(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.subscriber((topic, 1))
    for number in range(3):
        broker.connect().publish(topic, b"%d" % number, qos=1)
        client.acknowledge(client.expect_publish(topic, b"%d" % number, 1))


@pytest.mark.statement("MQTT-3.6.1-1", "MQTT-2.2.2-2")
@pytest.mark.parametrize("flags", [0, 1, 3, 10])
def test_other_flags_of_pubrel_close_the_connection(broker: Broker, flags: int) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), qos=2, packet_id=1))
    client.expect(Kind.PUBREC, 1)
    client.send(MQTT.acknowledge(Kind.PUBREL, 1, flags=flags))
    client.expect_close()


@pytest.mark.statement("MQTT-4.4.0-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_clean_session_is_sent_nothing_again(broker: Broker, qos: int) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name)
    client.subscribe((topic, qos))
    publisher = broker.connect()
    publisher.publish(topic, b"x", qos=qos)
    client.expect_publish(topic, b"x", qos)
    client.close()
    back = broker.connect(name)
    back.subscribe((topic, qos))
    publisher.publish(topic, b"end", qos=qos)
    assert back.until(b"end") == []
