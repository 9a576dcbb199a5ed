"""MQTT 5.0 section 3.3: PUBLISH, its flags, its properties and retained messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property, Will, binary, packet

LEVEL = V5
MQTT = Packets(V5)
MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID = 0x81, 0x82, 0x90
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
ONLY_IF_NEW, NEVER, AS_PUBLISHED = 0x10, 0x20, 0x08


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        pytest.param(
            0x00, 1, 1, id="always", marks=pytest.mark.statement("MQTT-3.3.1-9", "MQTT-3.8.4-4")
        ),
        pytest.param(ONLY_IF_NEW, 1, 0, id="if-new", marks=pytest.mark.statement("MQTT-3.3.1-10")),
        pytest.param(NEVER, 0, 0, id="never", marks=pytest.mark.statement("MQTT-3.3.1-11")),
    ],
)
def test_retain_handling_says_when_retained_messages_are_sent(
    broker: Broker, options: int, first: int, second: int
) -> None:
    topic, end = broker.topic("a"), broker.topic("end")
    publisher = broker.connect()
    publisher.publish(topic, b"kept", qos=1, retain=True)
    client = broker.subscriber((end, 1))
    for number, copies in ((1, first), (2, second)):
        client.subscribe((topic, 1 | options))
        publisher.publish(end, b"end%d" % number, qos=1)
        assert [m.retain for m in client.until(b"end%d" % number)] == [True] * copies


@pytest.mark.statement("MQTT-3.3.1-12", "MQTT-3.3.1-13")
@pytest.mark.parametrize("retain", [False, True], ids=["plain", "retained"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retain_as_published_keeps_the_flag_and_its_absence_clears_it(
    broker: Broker, qos: int, retain: bool
) -> None:
    topic = broker.topic()
    keeping = broker.subscriber((topic, qos | AS_PUBLISHED))
    clearing = broker.subscriber((topic, qos))
    broker.connect().publish(topic, b"x", qos=qos, retain=retain)
    assert keeping.expect_publish(topic, b"x", qos).retain is retain
    assert clearing.expect_publish(topic, b"x", qos).retain is False


@pytest.mark.statement("MQTT-4.7.3-1")
def test_an_empty_topic_name_without_alias_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.publish(""))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.parametrize(
    ("identifier", "value"),
    [
        pytest.param(
            Property.PAYLOAD_FORMAT_INDICATOR, 1, marks=pytest.mark.statement("MQTT-3.3.2-4")
        ),
        pytest.param(
            Property.RESPONSE_TOPIC, "a/\u0416", marks=pytest.mark.statement("MQTT-3.3.2-15")
        ),
        pytest.param(
            Property.CORRELATION_DATA, b"\0\xff", marks=pytest.mark.statement("MQTT-3.3.2-16")
        ),
        pytest.param(Property.CONTENT_TYPE, "text/x", marks=pytest.mark.statement("MQTT-3.3.2-20")),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Property) else "",
)
@pytest.mark.parametrize("way", ["live", "retained", "queued"])
def test_a_property_reaches_the_subscriber_unaltered(
    broker: Broker, identifier: int, value: Any, way: str
) -> None:
    assert _delivered_properties(broker, [(identifier, value)], way) == ((identifier, value),)


@pytest.mark.statement("MQTT-3.3.2-17", "MQTT-3.3.2-18")
@pytest.mark.parametrize("way", ["live", "retained", "queued"])
def test_user_properties_reach_the_subscriber_in_their_order(broker: Broker, way: str) -> None:
    pairs = [("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("\u0416", "3")]
    props = [(Property.USER_PROPERTY, pair) for pair in pairs]
    assert _delivered_properties(broker, props, way) == tuple(props)


@pytest.mark.statement("MQTT-3.3.2-5", "MQTT-3.3.2-6")
@pytest.mark.parametrize("way", ["live", "retained", "queued"])
def test_a_message_expiry_interval_is_passed_on_less_the_time_that_it_waited(
    broker: Broker, way: str
) -> None:
    props = [(Property.MESSAGE_EXPIRY_INTERVAL, 1000)]
    ((identifier, seconds),) = _delivered_properties(broker, props, way)
    assert identifier == Property.MESSAGE_EXPIRY_INTERVAL
    assert 900 < seconds <= 1000


@pytest.mark.statement("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_expired_messages_are_neither_kept_nor_delivered_and_others_have_waited(
    broker: Broker,
) -> None:
    topic, lasting, name = broker.topic("a"), broker.topic("lasting"), broker.client_id()
    soon, late_on = ([(Property.MESSAGE_EXPIRY_INTERVAL, seconds)] for seconds in (1, 1000))
    away = broker.connect(name, props=FOR_EVER)
    away.subscribe((topic, 1), (lasting, 1))
    away.disconnect()
    publisher = broker.connect()
    publisher.publish(topic, b"expires", qos=1, retain=True, props=soon)
    publisher.publish(lasting, b"lasts", qos=1, retain=True, props=late_on)
    # A will of two seconds' delay tells when the message's second is over.
    clock = broker.subscriber((broker.topic("clock"), 0))
    _lost_after(broker, broker.topic("clock"), 2)
    clock.expect_publish()
    publisher.publish(topic, b"end", qos=1)
    late = broker.subscriber((topic, 1), (lasting, 1))
    publisher.publish(topic, b"late", qos=1)
    for messages in (broker.connect(name, clean=False).until(b"end"), late.until(b"late")):
        (message,) = messages
        assert message.payload == b"lasts"
        assert 900 < message.value(Property.MESSAGE_EXPIRY_INTERVAL) < 1000


@pytest.mark.departs("mosquitto-2.0", "takes wildcards in a response topic")
@pytest.mark.statement("MQTT-3.3.2-14")
@pytest.mark.parametrize("topic", ["a/#", "+"])
def test_a_wildcard_in_a_response_topic_closes_the_connection(broker: Broker, topic: str) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), props=[(Property.RESPONSE_TOPIC, topic)]))
    client.expect_close(MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID)


@pytest.mark.departs("mosquitto-2.0", "takes a subscription identifier from a publisher")
@pytest.mark.statement("MQTT-3.3.4-6")
def test_a_subscription_identifier_from_a_client_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.publish(broker.topic(), props=[(Property.SUBSCRIPTION_IDENTIFIER, 1)]))
    client.expect_close(MALFORMED, PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-3.7.2-1")
def test_acknowledgements_have_reason_codes_of_their_kind(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(MQTT.publish(topic, qos=1, packet_id=7), MQTT.publish(topic, qos=2, packet_id=8))
    assert client.expect(Kind.PUBACK, 7).reason in {0x00, 0x10}
    assert client.expect(Kind.PUBREC, 8).reason in {0x00, 0x10}
    client.send(MQTT.acknowledge(Kind.PUBREL, 8), MQTT.acknowledge(Kind.PUBREL, 9))
    assert client.expect(Kind.PUBCOMP, 8).reason == 0x00
    assert client.expect(Kind.PUBCOMP, 9).reason in {0x00, 0x92}


@pytest.mark.statement("MQTT-3.3.4-1")
def test_a_publish_of_no_properties_and_one_of_an_empty_payload_are_different(
    broker: Broker,
) -> None:
    client, topic = broker.connect(), broker.topic()
    client.send(packet(0x30, binary(topic)))
    client.expect_close(MALFORMED)


def _lost_after(broker: Broker, topic: str, delay_s: int) -> None:
    will = Will(topic, b"now", props=[(Property.WILL_DELAY_INTERVAL, delay_s)])
    broker.connect(props=FOR_EVER, will=will).close()


def _delivered_properties(
    broker: Broker, props: Sequence[tuple[int, Any]], way: str
) -> tuple[tuple[int, Any], ...]:
    """Publish with the properties; how they arrive, live, retained or after waiting."""
    topic, name, publisher = broker.topic(), broker.client_id(), broker.connect()
    if way != "retained":
        client = broker.connect(name, props=FOR_EVER)
        client.subscribe((topic, 1))
    if way == "queued":
        client.disconnect()
    publisher.publish(topic, b"x", qos=1, retain=way == "retained", props=props)
    if way == "queued":
        client = broker.connect(name, clean=False)
    elif way == "retained":
        client = broker.subscriber((topic, 1))
    return client.expect_publish(topic, b"x").props
