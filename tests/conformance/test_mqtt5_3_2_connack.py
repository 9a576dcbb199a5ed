"""MQTT 5.0 section 3.2, and what CONNECT asks of later packets: limits that both sides announce."""

from __future__ import annotations

import pytest
from raw_client import Broker, Client
from raw_packets import V5, Kind, Packets, Property, Will, packet

LEVEL = V5
MQTT = Packets(V5)
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
PROTOCOL_ERROR = 0x82
RETAIN_NOT_SUPPORTED, QOS_NOT_SUPPORTED = 0x9A, 0x9B
PACKET_TOO_LARGE, ALIAS_INVALID, RECEIVE_MAXIMUM_EXCEEDED = 0x95, 0x94, 0x93
KEEPS_ITS_PLACE = pytest.mark.departs(
    "mosquitto-2.0", "a message that it left out keeps its place in the window"
)
ALLOWED_IN_CONNACK = {
    *(Property.SESSION_EXPIRY_INTERVAL, Property.RECEIVE_MAXIMUM, Property.MAXIMUM_QOS),
    *(Property.RETAIN_AVAILABLE, Property.MAXIMUM_PACKET_SIZE, Property.USER_PROPERTY),
    *(Property.ASSIGNED_CLIENT_IDENTIFIER, Property.TOPIC_ALIAS_MAXIMUM, Property.REASON_STRING),
    *(Property.WILDCARD_SUBSCRIPTION_AVAILABLE, Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE),
    *(Property.SHARED_SUBSCRIPTION_AVAILABLE, Property.SERVER_KEEP_ALIVE),
    *(Property.RESPONSE_INFORMATION, Property.SERVER_REFERENCE),
}


def announced(client: Client, identifier: int, otherwise: int) -> int:
    """Return a limit as the CONNACK announces it, or its default."""
    assert client.connack is not None
    value = client.connack.value(identifier, otherwise)
    assert isinstance(value, int)
    return value


@pytest.mark.statement("MQTT-3.2.2-1", "MQTT-3.2.2-8", "MQTT-4.12.0-6")
def test_a_connack_has_only_properties_of_a_connack_each_once(broker: Broker) -> None:
    connack = broker.connect().connack
    assert connack is not None
    assert {identifier for identifier, _ in connack.props} <= ALLOWED_IN_CONNACK
    for identifier, _ in connack.props:
        connack.value(identifier)


@pytest.mark.statement("MQTT-3.1.2-28")
def test_no_response_information_comes_unasked(broker: Broker) -> None:
    connack = broker.connect(props=[(Property.REQUEST_RESPONSE_INFORMATION, 0)]).connack
    assert connack is not None
    assert not connack.values(Property.RESPONSE_INFORMATION)


@pytest.mark.statement("MQTT-3.2.0-1")
def test_connack_comes_first_even_where_the_session_has_messages(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    away = broker.connect(name, props=FOR_EVER)
    away.subscribe((topic, 1))
    away.disconnect()
    broker.connect().publish(topic, b"x", qos=1)
    back = broker.dial()
    back.send(MQTT.connect(name, clean=False), MQTT.pingreq())
    back.expect(Kind.CONNACK)


@pytest.mark.statement("MQTT-3.2.2-9", "MQTT-3.2.2-10")
def test_a_subscription_of_any_qos_is_accepted(broker: Broker) -> None:
    client = broker.connect()
    highest = announced(client, Property.MAXIMUM_QOS, 2)
    answer = client.subscribe(*((broker.topic(f"{qos}"), qos) for qos in range(3)))
    assert answer.reasons == tuple(min(qos, highest) for qos in range(3))


@pytest.mark.statement("MQTT-3.2.2-12")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_will_is_accepted_up_to_the_maximum_qos_and_refused_above_it(
    broker: Broker, qos: int
) -> None:
    highest = announced(broker.connect(), Property.MAXIMUM_QOS, 2)
    client = broker.dial()
    client.send(MQTT.connect(broker.client_id(), will=Will(broker.topic(), b"gone", qos)))
    if qos > highest:
        client.expect_refusal(QOS_NOT_SUPPORTED)
    else:
        assert client.expect(Kind.CONNACK).reason == 0


@pytest.mark.statement("MQTT-3.2.2-13")
def test_a_retained_will_is_accepted_unless_the_server_has_no_retained_messages(
    broker: Broker,
) -> None:
    available = announced(broker.connect(), Property.RETAIN_AVAILABLE, 1)
    client = broker.dial()
    will = Will(broker.topic(), b"gone", retain=True)
    client.send(MQTT.connect(broker.client_id(), will=will))
    if available:
        assert client.expect(Kind.CONNACK).reason == 0
    else:
        client.expect_refusal(RETAIN_NOT_SUPPORTED)


@pytest.mark.statement("MQTT-3.3.1-5")
def test_retained_messages_work_unless_the_server_says_that_they_do_not(broker: Broker) -> None:
    client, topic = broker.connect(), broker.topic()
    if not announced(client, Property.RETAIN_AVAILABLE, 1):
        pytest.skip("the server has no retained messages, and says so")
    client.publish(topic, b"kept", qos=1, retain=True)
    broker.subscriber((topic, 1)).expect_publish(topic, b"kept")


@pytest.mark.statement("MQTT-3.2.2-15")
def test_a_packet_over_the_servers_maximum_closes_the_connection(broker: Broker) -> None:
    client = broker.connect()
    limit = announced(client, Property.MAXIMUM_PACKET_SIZE, 0)
    if not limit:
        pytest.skip("the server announces no limit")
    head = packet(0x30, MQTT.publish(broker.topic())[2:], bytes(limit))
    client.send(head[:1000])
    client.expect_close(PACKET_TOO_LARGE)


@pytest.mark.statement("MQTT-3.1.2-24", "MQTT-3.1.2-25", "MQTT-3.3.4-9")
@pytest.mark.parametrize("qos", [0, *(pytest.param(qos, marks=KEEPS_ITS_PLACE) for qos in (1, 2))])
def test_a_message_over_the_clients_maximum_is_left_out_as_if_it_were_sent(
    broker: Broker, qos: int
) -> None:
    topic = broker.topic()
    props = [(Property.MAXIMUM_PACKET_SIZE, 100), (Property.RECEIVE_MAXIMUM, 1)]
    client = broker.connect(props=props)
    client.subscribe((topic, qos))
    publisher = broker.connect()
    for _ in range(3):
        publisher.publish(topic, bytes(100), qos=qos)
    publisher.publish(topic, b"end", qos=qos)
    assert client.until(b"end") == []


@pytest.mark.statement("MQTT-3.1.2-24")
@pytest.mark.departs(
    "mosquitto-2.0", "leaves the first byte out when it counts the size of a packet"
)
def test_a_message_of_exactly_the_clients_maximum_is_sent(broker: Broker) -> None:
    topic = broker.topic()
    payload = bytes(100)
    client = broker.connect(
        props=[(Property.MAXIMUM_PACKET_SIZE, len(MQTT.publish(topic, payload)))]
    )
    client.subscribe(topic)
    publisher = broker.connect()
    publisher.publish(topic, payload)
    publisher.publish(topic, payload + b"x")
    publisher.publish(topic, b"end")
    assert [message.payload for message in client.until(b"end")] == [payload]


@pytest.mark.statement(
    *("MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.4.2-2", "MQTT-3.4.2-3", "MQTT-3.5.2-2"),
    *(
        "MQTT-3.5.2-3",
        "MQTT-3.6.2-2",
        "MQTT-3.6.2-3",
        "MQTT-3.7.2-2",
        "MQTT-3.7.2-3",
        "MQTT-3.9.2-1",
        "MQTT-3.9.2-2",
    ),
    *("MQTT-3.11.2-1", "MQTT-3.11.2-2"),
)
def test_answers_keep_within_the_clients_maximum(broker: Broker) -> None:
    limit = 30
    client = broker.connect(props=[(Property.MAXIMUM_PACKET_SIZE, limit)])
    assert client.connack is not None
    answers = [
        client.connack,
        client.subscribe(broker.topic("a")),
        client.unsubscribe(broker.topic("no-subscription")),
        client.publish("a", b"nobody listens", qos=1),
        client.publish("a", b"nobody listens", qos=2),
    ]
    client.send(MQTT.acknowledge(Kind.PUBREL, 999))
    answers.append(client.expect(Kind.PUBCOMP))
    client.send(MQTT.acknowledge(Kind.PUBREC, 999), MQTT.pingreq())
    while (answer := client.receive()).kind is not Kind.PINGRESP:
        assert answer.kind is Kind.PUBREL
        answers.append(answer)
    assert all(len(answer.body) + 2 <= limit for answer in answers if answer)


@pytest.mark.statement("MQTT-3.1.2-29")
def test_without_problem_information_no_answer_has_a_reason_string(broker: Broker) -> None:
    client = broker.connect(props=[(Property.REQUEST_PROBLEM_INFORMATION, 0)])
    answers = [
        client.subscribe(broker.topic("a")),
        client.unsubscribe(broker.topic("no-subscription")),
        client.publish(broker.topic("nobody"), b"x", qos=1),
        client.publish(broker.topic("nobody"), b"x", qos=2),
    ]
    client.send(MQTT.acknowledge(Kind.PUBREL, 999))
    answers.append(client.expect(Kind.PUBCOMP))
    assert all(answer is None or answer.props == () for answer in answers)


@pytest.mark.statement("MQTT-3.1.2-26", "MQTT-3.1.2-27", "MQTT-3.3.2-8", "MQTT-3.3.2-11")
@pytest.mark.parametrize("maximum", [None, 0, 2])
def test_the_server_sends_no_topic_alias_above_the_clients_maximum(
    broker: Broker, maximum: int | None
) -> None:
    props = [] if maximum is None else [(Property.TOPIC_ALIAS_MAXIMUM, maximum)]
    client = broker.connect(props=props)
    client.subscribe((broker.topic("#"), 0))
    aliases: dict[int, str] = {}
    for number in range(20):
        topic = broker.topic(f"{number % 5}")
        client.publish(topic, b"x")
        message = client.expect_publish(payload=b"x")
        alias = message.value(Property.TOPIC_ALIAS)
        if alias is not None:
            assert 1 <= alias <= (maximum or 0)
            if message.topic:
                aliases[alias] = message.topic
        assert (message.topic or aliases[alias]) == topic


@pytest.mark.statement("MQTT-3.3.2-12", "MQTT-3.3.2-7")
def test_every_topic_alias_up_to_the_servers_maximum_is_taken(broker: Broker) -> None:
    publisher, watcher = broker.connect(), broker.subscriber(broker.topic("#"))
    maximum = announced(publisher, Property.TOPIC_ALIAS_MAXIMUM, 0)
    aliases = range(1, min(maximum, 50) + 1)
    for alias in [*aliases, maximum] if maximum else []:
        props = [(Property.TOPIC_ALIAS, alias)]
        publisher.publish(broker.topic(f"{alias}"), b"named", props=props)
        watcher.expect_publish(broker.topic(f"{alias}"), b"named")
    for alias in aliases:
        publisher.publish("", b"alias", props=[(Property.TOPIC_ALIAS, alias)])
        watcher.expect_publish(broker.topic(f"{alias}"), b"alias")


@pytest.mark.statement("MQTT-3.3.2-7")
def test_a_topic_alias_may_be_given_another_topic_and_ends_with_its_connection(
    broker: Broker,
) -> None:
    name = broker.client_id()
    publisher, watcher = broker.connect(name), broker.subscriber(broker.topic("#"))
    if not announced(publisher, Property.TOPIC_ALIAS_MAXIMUM, 0):
        pytest.skip("the server takes no aliases")
    alias = [(Property.TOPIC_ALIAS, 1)]
    publisher.publish(broker.topic("a"), b"1", props=alias)
    publisher.publish(broker.topic("b"), b"2", props=alias)
    publisher.publish("", b"3", props=alias)
    for below, payload in (("a", b"1"), ("b", b"2"), ("b", b"3")):
        watcher.expect_publish(broker.topic(below), payload)
    publisher.disconnect()
    again = broker.connect(name, clean=False)
    again.publish("", b"4", props=alias)
    again.expect_close(PROTOCOL_ERROR, ALIAS_INVALID)


@pytest.mark.statement("MQTT-3.3.2-8", "MQTT-3.3.2-9", "MQTT-3.2.2-17", "MQTT-3.2.2-18")
@pytest.mark.parametrize(
    "over",
    [
        pytest.param(True, id="over-the-maximum"),
        pytest.param(
            False,
            id="zero",
            marks=pytest.mark.departs("mosquitto-2.0", "calls a topic alias of 0 malformed"),
        ),
    ],
)
def test_a_topic_alias_out_of_range_closes_the_connection(broker: Broker, over: bool) -> None:
    client = broker.connect()
    maximum = announced(client, Property.TOPIC_ALIAS_MAXIMUM, 0)
    if maximum == 0xFFFF and over:
        pytest.skip("the server takes every alias")
    props = [(Property.TOPIC_ALIAS, maximum + 1 if over else 0)]
    client.publish(broker.topic(), b"x", props=props)
    client.expect_close(ALIAS_INVALID)


@pytest.mark.departs("mosquitto-2.0", "answers 0x97 where it is sent too much")
@pytest.mark.statement("MQTT-3.3.4-7")
def test_more_unfinished_messages_than_the_servers_receive_maximum_close_the_connection(
    broker: Broker,
) -> None:
    client, topic = broker.connect(), broker.topic()
    maximum = announced(client, Property.RECEIVE_MAXIMUM, 65535)
    if maximum > 10_000:
        pytest.skip("the server takes as many as there are packet identifiers")
    for packet_id in range(1, maximum + 2):
        client.send(MQTT.publish(topic, b"x", qos=2, packet_id=packet_id))
    # A broker may take its time to store what it was allowed to be sent.
    while (answer := client.receive()).kind is Kind.PUBREC:
        assert answer.packet_id <= maximum
    assert answer.kind is Kind.DISCONNECT
    assert answer.reasons == (RECEIVE_MAXIMUM_EXCEEDED,)
