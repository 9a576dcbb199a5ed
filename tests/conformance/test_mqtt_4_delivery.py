"""MQTT 3.1.1 and 5.0, chapter 4: delivery by QoS, redelivery, order, and errors."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, V311, Kind

LEVELS = (V311, V5)


@pytest.mark.statement_3_1_1("MQTT-4.3.2-1")
@pytest.mark.statement_5_0("MQTT-4.3.2-2", "MQTT-4.3.2-3")
def test_a_message_of_qos_1_is_over_with_its_puback(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, lasting=True)
    client.subscribe((topic, 1))
    publisher = broker.connect()
    publisher.publish(topic, b"done", qos=1)
    message = client.expect_publish(topic, b"done", 1)
    assert not message.dup
    client.acknowledge(message)
    client.ping()
    client.close()
    publisher.publish(topic, b"end", qos=1)
    assert broker.connect(name, clean=False).until(b"end") == []


@pytest.mark.statement_3_1_1("MQTT-4.3.2-2")
@pytest.mark.statement_5_0("MQTT-4.3.2-5")
def test_after_puback_the_same_packet_identifier_is_a_new_message(broker: Broker) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, 1)), broker.connect()
    for payload, dup in ((b"one", False), (b"two", False), (b"three", True)):
        publisher.send(broker.packets.publish(topic, payload, qos=1, packet_id=9, dup=dup))
        publisher.expect(Kind.PUBACK, 9)
        subscriber.acknowledge(subscriber.expect_publish(topic, payload, 1))


@pytest.mark.statement_3_1_1("MQTT-4.3.3-1")
@pytest.mark.statement_5_0("MQTT-4.3.3-2", "MQTT-4.3.3-3", "MQTT-4.3.3-4", "MQTT-3.6.2-1")
def test_pubrec_is_answered_by_pubrel_and_pubcomp_ends_the_exchange(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, lasting=True)
    client.subscribe((topic, 2))
    publisher = broker.connect()
    publisher.publish(topic, b"done", qos=2)
    message = client.expect_publish(topic, b"done", 2)
    assert not message.dup
    client.send(broker.packets.acknowledge(Kind.PUBREC, message.packet_id))
    release = client.expect(Kind.PUBREL, message.packet_id)
    assert (release.flags, release.reason) == (2, 0)
    client.send(broker.packets.acknowledge(Kind.PUBCOMP, message.packet_id))
    client.ping()
    client.close()
    publisher.publish(topic, b"end", qos=2)
    assert broker.connect(name, clean=False).until(b"end") == []


@pytest.mark.statement_3_1_1("MQTT-4.3.3-1", "MQTT-4.4.0-1")
@pytest.mark.statement_5_0("MQTT-4.3.3-5", "MQTT-4.3.3-6", "MQTT-4.4.0-1")
def test_after_pubrec_pubrel_is_sent_again_and_never_the_message(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, lasting=True)
    client.subscribe((topic, 2))
    broker.connect().publish(topic, b"x", qos=2)
    message = client.expect_publish(topic, b"x", 2)
    client.send(broker.packets.acknowledge(Kind.PUBREC, message.packet_id))
    client.expect(Kind.PUBREL, message.packet_id)
    client.close()
    back = broker.connect(name, clean=False)
    back.expect(Kind.PUBREL, message.packet_id)
    back.send(broker.packets.acknowledge(Kind.PUBCOMP, message.packet_id))
    back.ping()


@pytest.mark.statement_3_1_1("MQTT-4.3.3-2")
@pytest.mark.statement_5_0("MQTT-4.3.3-10")
@pytest.mark.parametrize("reconnect", [False, True], ids=["same-connection", "reconnected"])
@pytest.mark.parametrize("dup", [True, False], ids=["dup", "no-dup"])
def test_a_message_of_qos_2_sent_twice_is_delivered_once(
    broker: Broker, reconnect: bool, dup: bool
) -> None:
    topic, name = broker.topic(), broker.client_id()
    subscriber, publisher = broker.subscriber((topic, 2)), broker.connect(name, lasting=True)
    publisher.send(broker.packets.publish(topic, b"x", qos=2, packet_id=5))
    publisher.expect(Kind.PUBREC, 5)
    if reconnect:
        publisher.close()
        publisher = broker.connect(name, clean=False)
    publisher.send(broker.packets.publish(topic, b"x", qos=2, packet_id=5, dup=dup))
    assert publisher.expect(Kind.PUBREC, 5).reason < 0x80
    publisher.send(broker.packets.acknowledge(Kind.PUBREL, 5))
    publisher.expect(Kind.PUBCOMP, 5)
    publisher.publish(topic, b"end", qos=2)
    assert [message.payload for message in subscriber.until(b"end")] == [b"x"]


@pytest.mark.statement_3_1_1("MQTT-4.3.3-2")
@pytest.mark.statement_5_0("MQTT-4.3.3-12")
def test_after_pubcomp_the_same_packet_identifier_is_a_new_message(broker: Broker) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, 2)), broker.connect()
    for payload in (b"one", b"two", b"end"):
        publisher.send(broker.packets.publish(topic, payload, qos=2, packet_id=5))
        publisher.expect(Kind.PUBREC, 5)
        publisher.send(broker.packets.acknowledge(Kind.PUBREL, 5))
        publisher.expect(Kind.PUBCOMP, 5)
    assert [message.payload for message in subscriber.until(b"end")] == [b"one", b"two"]


@pytest.mark.statement_3_1_1("MQTT-4.3.3-2")
@pytest.mark.statement_5_0("MQTT-4.3.3-11")
def test_a_pubrel_that_is_sent_again_is_answered_again(broker: Broker) -> None:
    client = broker.connect()
    client.send(broker.packets.publish(broker.topic(), b"x", qos=2, packet_id=5))
    client.expect(Kind.PUBREC, 5)
    for _ in range(2):
        client.send(broker.packets.acknowledge(Kind.PUBREL, 5))
        client.expect(Kind.PUBCOMP, 5)


@pytest.mark.statement_3_1_1("MQTT-4.4.0-1", "MQTT-4.6.0-1", "MQTT-4.6.0-6")
@pytest.mark.statement_5_0("MQTT-4.4.0-1", "MQTT-4.6.0-1", "MQTT-4.6.0-5")
@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_messages_are_sent_again_in_their_order(broker: Broker, qos: int) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, lasting=True)
    client.subscribe((topic, qos))
    publisher = broker.connect()
    for number in range(10):
        publisher.publish(topic, b"%d" % number, qos=qos)
    sent = [client.expect_publish(topic, qos=qos) for _ in range(10)]
    client.acknowledge(sent[0])
    client.ping()
    client.close()
    back = broker.connect(name, clean=False)
    again = [back.expect_publish(topic, qos=qos) for _ in range(9)]
    assert [m.payload for m in again] == [m.payload for m in sent[1:]]
    assert [m.packet_id for m in again] == [m.packet_id for m in sent[1:]]
    assert all(m.dup for m in again)


@pytest.mark.statement_3_1_1("MQTT-4.5.0-1", "MQTT-3.3.2-3")
@pytest.mark.statement_5_0("MQTT-4.5.0-1", "MQTT-3.3.2-3")
def test_every_client_with_a_matching_subscription_gets_the_message(broker: Broker) -> None:
    topic = broker.topic("a/b")
    filters = [topic, broker.topic("#"), broker.topic("+/b"), broker.topic("a/+")]
    clients = [broker.subscriber((name, qos)) for name in filters for qos in (0, 1, 2)]
    broker.connect().publish(topic, b"x", qos=2)
    for number, client in enumerate(clients):
        client.expect_publish(topic, b"x", number % 3)


@pytest.mark.statement_3_1_1("MQTT-4.6.0-2", "MQTT-4.6.0-3")
@pytest.mark.statement_5_0("MQTT-4.6.0-2", "MQTT-4.6.0-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_messages_are_acknowledged_in_the_order_in_which_they_came(
    broker: Broker, qos: int
) -> None:
    client, topic = broker.connect(), broker.topic()
    order = [9, 3, 7, 1, 8]
    client.send(
        *(broker.packets.publish(topic, b"x", qos=qos, packet_id=number) for number in order)
    )
    kind = Kind.PUBACK if qos == 1 else Kind.PUBREC
    assert [client.expect(kind).packet_id for _ in order] == order


@pytest.mark.statement_3_1_1("MQTT-4.6.0-4")
@pytest.mark.statement_5_0("MQTT-4.6.0-4")
def test_pubrels_come_in_the_order_of_the_pubrecs(broker: Broker) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, 2)), broker.connect()
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=2)
    identifiers = [subscriber.expect_publish(topic, qos=2).packet_id for _ in range(5)]
    subscriber.send(*(broker.packets.acknowledge(Kind.PUBREC, number) for number in identifiers))
    assert [subscriber.expect(Kind.PUBREL).packet_id for _ in range(5)] == identifiers


@pytest.mark.statement_3_1_1("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.statement_5_0("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_a_topic_come_in_the_order_in_which_they_were_published(
    broker: Broker, qos: int
) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, qos)), broker.connect()
    expected = [b"%d" % number for number in range(50)]
    for payload in expected:
        publisher.publish(topic, payload, qos=qos)
    publisher.publish(topic, b"end", qos=qos)
    assert [message.payload for message in subscriber.until(b"end")] == expected


@pytest.mark.statement_3_1_1("MQTT-4.8.0-1", "MQTT-4.8.0-2")
@pytest.mark.statement_5_0("MQTT-4.13.1-1", "MQTT-4.13.2-1")
def test_the_error_of_one_client_leaves_the_others_alone(broker: Broker) -> None:
    topic = broker.topic()
    others = [broker.subscriber((topic, 1)) for _ in range(3)]
    offender = broker.subscriber((topic, 1))
    offender.send(broker.packets.publish("a", qos=3, packet_id=1))
    offender.expect_close(0x81, 0x82)
    broker.connect().publish(topic, b"x", qos=1)
    for client in others:
        client.expect_publish(topic, b"x", 1)
