"""MQTT 5.0 sections 3.8 to 3.11: subscriptions, their options and identifiers."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property, binary, packet, two

LEVEL = V5
MQTT = Packets(V5)
MALFORMED, PROTOCOL_ERROR = 0x81, 0x82
NO_SUBSCRIPTION_EXISTED = 0x11
NO_LOCAL, AS_PUBLISHED = 0x04, 0x08
CALLED_MALFORMED = pytest.mark.departs(
    "mosquitto-2.0", "calls malformed what the standard calls a protocol error"
)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            MQTT.subscribe(1), id="subscribe", marks=pytest.mark.statement("MQTT-3.8.3-2")
        ),
        pytest.param(
            MQTT.unsubscribe(1), id="unsubscribe", marks=pytest.mark.statement("MQTT-3.10.3-2")
        ),
    ],
)
@CALLED_MALFORMED
def test_a_request_without_filters_is_a_protocol_error(broker: Broker, data: bytes) -> None:
    client = broker.connect()
    client.send(data)
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.8.3-3")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local_keeps_a_clients_own_messages_from_it(broker: Broker, qos: int) -> None:
    topic = broker.topic()
    client, other = broker.connect(), broker.connect()
    client.subscribe((topic, qos | NO_LOCAL))
    client.publish(topic, b"own", qos=qos)
    other.publish(topic, b"end", qos=qos)
    assert client.until(b"end") == []


@pytest.mark.statement("MQTT-3.8.3-3")
def test_no_local_means_the_client_identifier_and_not_the_connection(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    for_ever = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
    client = broker.connect(name, props=for_ever)
    client.subscribe((topic, 1 | NO_LOCAL))
    client.disconnect()
    client = broker.connect(name, clean=False, props=for_ever)
    client.publish(topic, b"own", qos=1)
    broker.connect().publish(topic, b"end", qos=1)
    assert client.until(b"end") == []


@pytest.mark.departs("mosquitto-2.0", "takes No Local on a shared subscription")
@pytest.mark.statement("MQTT-3.8.3-4")
def test_no_local_on_a_shared_subscription_is_a_protocol_error(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.subscribe(1, (f"$share/group/{broker.topic()}", 1 | NO_LOCAL)))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement("MQTT-3.8.3-5")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        *(pytest.param(bits, MALFORMED, id=hex(bits)) for bits in (0x40, 0x80, 0xC1)),
        pytest.param(0x03, PROTOCOL_ERROR, id="qos-3", marks=CALLED_MALFORMED),
        pytest.param(0x30, PROTOCOL_ERROR, id="retain-handling-3", marks=CALLED_MALFORMED),
    ],
)
def test_reserved_subscription_options_close_the_connection(
    broker: Broker, options: int, reason: int
) -> None:
    client = broker.connect()
    client.send(MQTT.subscribe(1, (broker.topic(), options)))
    client.expect_close(reason)


@pytest.mark.statement(
    *("MQTT-3.8.4-1", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
)
def test_suback_has_a_reason_code_for_each_filter_in_order(broker: Broker) -> None:
    filters = [(broker.topic(f"{qos}"), qos) for qos in (2, 0, 1, 0, 2)]
    assert broker.connect().subscribe(*filters).reasons == (2, 0, 1, 0, 2)


@pytest.mark.departs("mosquitto-2.0", "keeps the options of a subscription that is replaced")
@pytest.mark.statement("MQTT-3.8.4-3", "MQTT-3.8.4-4")
def test_the_same_filter_replaces_the_subscription_and_sends_retained_again(
    broker: Broker,
) -> None:
    topic, publisher = broker.topic(), broker.connect()
    publisher.publish(topic, b"kept", qos=2, retain=True)
    client = broker.subscriber((topic, 2))
    client.acknowledge(client.expect_publish(topic, b"kept", 2))
    client.subscribe((topic, 1 | AS_PUBLISHED))
    again = client.expect_publish(topic, b"kept", 1)
    assert again.retain
    client.acknowledge(again)
    publisher.publish(topic, b"live", qos=2, retain=True)
    publisher.publish(topic, b"end", qos=2)
    live = client.until(b"end")
    assert [(m.payload, m.qos, m.retain) for m in live] == [(b"live", 1, True)]


@pytest.mark.statement("MQTT-3.8.4-4")
def test_no_message_is_lost_while_a_subscription_is_replaced(broker: Broker) -> None:
    topic = broker.topic()
    client, publisher = broker.subscriber((topic, 1)), broker.connect()
    for number in range(20):
        publisher.send(MQTT.publish(topic, b"%d" % number, qos=1, packet_id=number + 1))
        client.send(MQTT.subscribe(number + 1, (topic, 1)))
    payloads = []
    for _ in range(40):
        received = client.receive()
        if received.kind is Kind.PUBLISH:
            payloads.append(received.payload)
            client.acknowledge(received)
    assert payloads == [b"%d" % number for number in range(20)]


@pytest.mark.statement("MQTT-3.3.4-2")
def test_overlapping_subscriptions_deliver_at_the_highest_of_their_qos(broker: Broker) -> None:
    subscriber = broker.subscriber(
        (broker.topic("#"), 0), (broker.topic("+"), 2), (broker.topic("a"), 1)
    )
    broker.connect().publish(broker.topic("a"), b"x", qos=2)
    copies = [subscriber.expect_publish(broker.topic("a"), b"x")]
    while copies[-1].qos != 2:
        copies.append(subscriber.expect_publish(broker.topic("a"), b"x"))
    assert len(copies) <= 3


@pytest.mark.statement("MQTT-3.3.4-3")
@pytest.mark.parametrize("way", ["live", "retained"])
def test_a_message_carries_the_identifier_of_its_subscription(broker: Broker, way: str) -> None:
    topic, publisher, client = broker.topic(), broker.connect(), broker.connect()
    identifier = [(Property.SUBSCRIPTION_IDENTIFIER, 268_435_455)]
    if way == "retained":
        publisher.publish(topic, b"x", qos=1, retain=True)
    client.subscribe((topic, 1), props=identifier)
    if way == "live":
        publisher.publish(topic, b"x", qos=1)
    assert client.expect_publish(topic, b"x").props == tuple(identifier)


@pytest.mark.statement("MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5")
def test_overlapping_subscriptions_all_have_their_identifiers_delivered(broker: Broker) -> None:
    client = broker.connect()
    for identifier, below in ((3, "#"), (1, "+"), (2, "a")):
        props = [(Property.SUBSCRIPTION_IDENTIFIER, identifier)]
        client.subscribe((broker.topic(below), 1), props=props)
    client.subscribe((broker.topic("+/#"), 1))
    broker.connect().publish(broker.topic("a"), b"x", qos=1)
    found: list[int] = []
    while set(found) != {1, 2, 3}:
        found += client.expect_publish(broker.topic("a"), b"x").values(
            Property.SUBSCRIPTION_IDENTIFIER
        )
    assert sorted(found) == [1, 2, 3]


@pytest.mark.statement("MQTT-3.3.4-3")
def test_a_replaced_subscription_has_the_new_identifier_or_none(broker: Broker) -> None:
    topic, client = broker.topic(), broker.connect()
    for props in ([7], [8], []):
        identifiers = [(Property.SUBSCRIPTION_IDENTIFIER, identifier) for identifier in props]
        client.subscribe((topic, 0), props=identifiers)
        client.publish(topic, b"x")
        assert client.expect_publish(topic, b"x").props == tuple(identifiers)


@pytest.mark.statement("MQTT-4.13.1-1")
@pytest.mark.parametrize("props", [[0], [1, 2]], ids=["zero", "two"])
@CALLED_MALFORMED
def test_a_wrong_subscription_identifier_is_a_protocol_error(
    broker: Broker, props: list[int]
) -> None:
    client = broker.connect()
    identifiers = [(Property.SUBSCRIPTION_IDENTIFIER, identifier) for identifier in props]
    client.send(MQTT.subscribe(1, broker.topic(), props=identifiers))
    client.expect_close(PROTOCOL_ERROR)


@pytest.mark.statement(
    *("MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6", "MQTT-3.11.3-1", "MQTT-3.11.3-2")
)
def test_one_unsuback_has_a_reason_code_for_each_filter_in_order(broker: Broker) -> None:
    client = broker.subscriber(*(broker.topic(name) for name in "abc"), broker.topic("end"))
    answer = client.unsubscribe(*(broker.topic(name) for name in "axbyz"))
    unknown = NO_SUBSCRIPTION_EXISTED
    assert answer.reasons == (0, unknown, 0, unknown, unknown)
    for name in ("a", "b", "c", "end"):
        client.publish(broker.topic(name), name.encode())
    assert [message.payload for message in client.until(b"end")] == [b"c"]


@pytest.mark.statement("MQTT-4.13.1-1")
def test_an_unsubscribe_may_have_no_subscription_identifier(broker: Broker) -> None:
    client = broker.connect()
    client.send(packet(0xA2, two(1), b"\x02\x0b\x01", binary(broker.topic())))
    client.expect_close(MALFORMED)
