"""MQTT 3.1.1 section 4.7: which filter matches which topic name."""

from __future__ import annotations

import pytest
from raw_client import Broker, ConnectionEndedError
from raw_packets import V311, Packets

LEVEL = V311
MQTT = Packets(V311)


def delivered(broker: Broker, below: str, names: list[str]) -> list[str]:
    """Publish topics below the test's own; return those that a subscription to the filter gets."""
    client = broker.subscriber(broker.topic(below), broker.topic("the-end"))
    for name in [*names, "the-end"]:
        client.publish(broker.topic(name), name.encode())
    return [message.payload.decode() for message in client.until(b"the-end")]


@pytest.mark.statement("MQTT-4.7.1-2")
@pytest.mark.parametrize("bad", ["a/b#", "a/#/b", "#/a", "##", "a#"])
def test_a_hash_that_is_not_a_last_whole_level_is_refused(broker: Broker, bad: str) -> None:
    _refused(broker, bad)


@pytest.mark.statement("MQTT-4.7.1-3")
@pytest.mark.parametrize("bad", ["a+", "a/b+/c", "+a/b", "++", "a/+#"])
def test_a_plus_that_is_not_a_whole_level_is_refused(broker: Broker, bad: str) -> None:
    _refused(broker, bad)


@pytest.mark.statement("MQTT-4.7.3-1")
def test_an_empty_filter_is_refused(broker: Broker) -> None:
    _refused(broker, "")


@pytest.mark.statement("MQTT-4.7.3-1")
def test_an_empty_topic_name_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.publish("", b"x"))
    client.expect_close()


@pytest.mark.statement("MQTT-4.7.1-3")
def test_a_last_plus_matches_no_parent(broker: Broker) -> None:
    assert delivered(broker, "a/+", ["a", "a/", "a/b", "a/b/c"]) == ["a/", "a/b"]


@pytest.mark.statement("MQTT-4.7.3-4")
def test_unusual_characters_reach_the_subscriber_as_they_were(broker: Broker) -> None:
    name = broker.topic("\U0001f33f/\u65e5\u672c/\u0416 \u00df")
    client = broker.subscriber(name)
    client.publish(name, b"x")
    client.expect_publish(name, b"x")


def _refused(broker: Broker, bad: str) -> None:
    """The filter must end in a failure code or in the end of the connection."""
    client = broker.connect()
    client.send(MQTT.subscribe(1, bad))
    try:
        assert client.receive().reasons == (0x80,)
    except ConnectionEndedError:
        return
