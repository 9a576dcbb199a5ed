"""MQTT 3.1.1 and 5.0, sections 3.1.2.5 to 3.1.2.7: when a will is published, and how."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, V311, Will

LEVELS = (V311, V5)


@pytest.mark.statement_3_1_1("MQTT-3.1.2-8")
@pytest.mark.statement_5_0("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-12")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_of_a_lost_client_is_published_at_its_qos(broker: Broker, qos: int) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 2))
    broker.connect(will=Will(topic, b"gone", qos)).close()
    watcher.expect_publish(topic, b"gone", qos)


@pytest.mark.statement_3_1_1("MQTT-3.1.2-8", "MQTT-3.1.4-2")
@pytest.mark.statement_5_0("MQTT-3.1.2-8", "MQTT-3.1.4-3")
def test_the_will_of_a_connection_that_is_taken_over_is_published(broker: Broker) -> None:
    topic, name = broker.topic(), broker.client_id()
    watcher = broker.subscriber((topic, 1))
    broker.connect(name, will=Will(topic, b"gone", 1))
    broker.connect(name)
    watcher.expect_publish(topic, b"gone", 1)


@pytest.mark.statement_3_1_1("MQTT-3.1.2-16")
@pytest.mark.statement_5_0("MQTT-3.1.2-14")
def test_a_will_without_retain_is_not_kept(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=Will(topic, b"gone", 1)).close()
    watcher.expect_publish(topic, b"gone")
    late = broker.subscriber((topic, 1))
    broker.connect().publish(topic, b"end", qos=1)
    assert late.until(b"end") == []


@pytest.mark.statement_3_1_1("MQTT-3.1.2-17")
@pytest.mark.statement_5_0("MQTT-3.1.2-15")
def test_a_will_with_retain_is_kept_for_later_subscribers(broker: Broker) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    broker.connect(will=Will(topic, b"gone", 1, retain=True)).close()
    assert not watcher.expect_publish(topic, b"gone").retain
    assert broker.subscriber((topic, 1)).expect_publish(topic, b"gone").retain
