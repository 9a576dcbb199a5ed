"""MQTT 3.1.1 and 5.0, section 4.7: which filter matches which topic name."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, V311

LEVELS = (V311, V5)


def delivered(broker: Broker, below: str, names: list[str]) -> list[str]:
    """Publish topics below the test's own; return those that a subscription to the filter gets."""
    client = broker.subscriber(broker.topic(below), broker.topic("the-end"))
    for name in [*names, "the-end"]:
        client.publish(broker.topic(name), name.encode())
    return [message.payload.decode() for message in client.until(b"the-end")]


@pytest.mark.statement_3_1_1("MQTT-4.7.1-2")
@pytest.mark.statement_5_0("MQTT-4.7.1-1")
def test_a_hash_matches_the_parent_and_every_level_below(broker: Broker) -> None:
    names = ["a", "a/", "a/b", "a/b/c/d", "ab", "b/a"]
    assert delivered(broker, "a/#", names) == ["a", "a/", "a/b", "a/b/c/d"]


@pytest.mark.statement_3_1_1("MQTT-4.7.1-3")
@pytest.mark.statement_5_0("MQTT-4.7.1-2")
def test_a_plus_matches_one_level_even_an_empty_one(broker: Broker) -> None:
    names = ["a/x/c", "a//c", "a/c", "a/x/y/c", "a/x/c/"]
    assert delivered(broker, "a/+/c", names) == ["a/x/c", "a//c"]


@pytest.mark.statement_3_1_1("MQTT-4.7.1-3")
@pytest.mark.statement_5_0("MQTT-4.7.1-2")
def test_a_plus_may_be_first_and_last_level_and_go_with_a_hash(broker: Broker) -> None:
    names = ["a/b", "b", "/b", "a/b/c", "a/c"]
    assert delivered(broker, "+/b/#", names) == ["a/b", "/b", "a/b/c"]


@pytest.mark.statement_3_1_1("MQTT-4.7.3-4", "MQTT-3.10.4-1")
@pytest.mark.statement_5_0("MQTT-4.7.3-4", "MQTT-3.3.2-3")
def test_topics_are_compared_character_by_character(broker: Broker) -> None:
    names = ["a/b", "A/b", "a/b/", "/a/b", "a//b", "a/b ", " a/b", "a/B"]
    assert delivered(broker, "a/b", names) == ["a/b"]


@pytest.mark.statement_3_1_1("MQTT-4.7.3-4")
@pytest.mark.statement_5_0("MQTT-4.7.3-4")
def test_characters_of_one_look_and_two_codes_are_different(broker: Broker) -> None:
    assert delivered(broker, "\u00c5", ["\u00c5", "A\u030a", "\u212b"]) == ["\u00c5"]


@pytest.mark.statement_3_1_1("MQTT-4.7.3-3")
@pytest.mark.statement_5_0("MQTT-4.7.3-3")
def test_a_topic_may_be_65535_bytes_long(broker: Broker) -> None:
    name = broker.topic("") + "x" * (65535 - len(broker.topic("")))
    subscriber = broker.subscriber((name, 1))
    broker.connect().publish(name, b"x", qos=1)
    subscriber.expect_publish(name, b"x", 1)


@pytest.mark.statement_3_1_1("MQTT-4.7.2-1")
@pytest.mark.statement_5_0("MQTT-4.7.2-1")
@pytest.mark.parametrize("wildcard", ["#", "+/{}", "+/#"])
def test_a_first_wildcard_does_not_match_topics_that_begin_with_a_dollar(
    broker: Broker, wildcard: str
) -> None:
    level, end = broker.topic("x").replace("/", ""), broker.topic("end")
    watcher = broker.subscriber(wildcard.format(level), end)
    broker.connect().send(broker.packets.publish(f"$own/{level}", b"hidden"))
    broker.connect().publish(end, b"end")
    assert not [m for m in watcher.until(b"end") if m.topic.startswith("$")]
