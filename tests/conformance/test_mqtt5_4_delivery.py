"""MQTT 5.0 sections 4.1 to 4.6 and 4.9: delivery by QoS, redelivery, order and flow control."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, Kind, Packets, Property

LEVEL = V5
MQTT = Packets(V5)
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
UNSPECIFIED, NOT_FOUND = 0x80, 0x92


@pytest.mark.statement("MQTT-4.1.0-1")
def test_a_session_lasts_as_long_as_its_connection(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.connect(props=[(Property.SESSION_EXPIRY_INTERVAL, 0)])
    client.subscribe((topic, 1))
    for number in range(3):
        broker.connect().publish(topic, b"%d" % number, qos=1)
        client.acknowledge(client.expect_publish(topic, b"%d" % number, 1))


@pytest.mark.statement("MQTT-4.3.3-4", "MQTT-4.4.0-2", "MQTT-3.6.2-1")
def test_a_pubrec_of_an_unknown_packet_identifier_does_no_harm(broker: Broker) -> None:
    client = broker.connect()
    client.send(MQTT.acknowledge(Kind.PUBREC, 777), MQTT.pingreq())
    assert client.expect(Kind.PUBREL, 777).reason in {0, NOT_FOUND}
    client.expect(Kind.PINGRESP)


@pytest.mark.statement("MQTT-4.4.0-2")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_failure_code_ends_the_delivery_for_good(broker: Broker, qos: int) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, props=FOR_EVER)
    client.subscribe((topic, qos))
    publisher = broker.connect()
    publisher.publish(topic, b"refused", qos=qos)
    message = client.expect_publish(topic, b"refused", qos)
    kind = Kind.PUBACK if qos == 1 else Kind.PUBREC
    client.send(MQTT.acknowledge(kind, message.packet_id, UNSPECIFIED), MQTT.pingreq())
    client.expect(Kind.PINGRESP)
    client.close()
    publisher.publish(topic, b"end", qos=qos)
    assert broker.connect(name, clean=False).until(b"end") == []


@pytest.mark.statement("MQTT-4.3.3-9")
def test_after_a_pubrec_that_refuses_the_same_packet_identifier_is_a_new_message(
    broker: Broker,
) -> None:
    topic = broker.topic()
    subscriber, publisher = broker.subscriber((topic, 2)), broker.connect()
    publisher.send(MQTT.publish("$SYS/not-allowed", b"x", qos=2, packet_id=5))
    if publisher.expect(Kind.PUBREC, 5).reason < 0x80:
        pytest.skip("the server refuses no message of QoS 2")
    publisher.send(MQTT.publish(topic, b"new", qos=2, packet_id=5))
    assert publisher.expect(Kind.PUBREC, 5).reason == 0
    publisher.send(MQTT.acknowledge(Kind.PUBREL, 5))
    assert publisher.expect(Kind.PUBCOMP, 5).reason == 0
    subscriber.expect_publish(topic, b"new", 2)


@pytest.mark.statement("MQTT-4.3.3-13")
def test_an_exchange_of_qos_2_is_completed_even_for_a_message_that_expired(
    broker: Broker,
) -> None:
    publisher = broker.connect()
    expired = [(Property.MESSAGE_EXPIRY_INTERVAL, 0)]
    publisher.publish(broker.topic(), b"x", qos=2, props=expired)


@pytest.mark.statement("MQTT-4.4.0-1")
def test_nothing_is_sent_again_on_a_connection_that_stays(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.subscriber((topic, 1))
    broker.connect().publish(topic, b"x", qos=1)
    client.expect_publish(topic, b"x", 1)
    clock = broker.subscriber(broker.topic("clock"))
    for _ in range(3):
        client.ping()
        broker.connect().publish(broker.topic("clock"), b"tick", qos=1)
        clock.expect_publish(payload=b"tick")
    client.send(MQTT.pingreq())
    client.expect(Kind.PINGRESP)


@pytest.mark.statement("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2", "MQTT-4.9.0-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_no_more_unacknowledged_messages_are_sent_than_the_clients_receive_maximum(
    broker: Broker, qos: int
) -> None:
    topic = broker.topic()
    client = broker.connect(props=[(Property.RECEIVE_MAXIMUM, 3)])
    client.subscribe((topic, qos))
    publisher = broker.connect()
    for number in range(6):
        publisher.publish(topic, b"%d" % number, qos=qos)
    window = [client.expect_publish(topic, b"%d" % number, qos) for number in range(3)]
    client.send(MQTT.pingreq())
    client.expect(Kind.PINGRESP)
    for number, message in enumerate(window):
        client.acknowledge(message)
        window.append(client.expect_publish(topic, b"%d" % (number + 3), qos))
        if number == 2:
            break
    for message in window[3:]:
        client.acknowledge(message)
    client.ping()


@pytest.mark.statement("MQTT-3.3.4-10", "MQTT-4.9.0-3")
def test_with_the_window_full_messages_of_qos_0_and_answers_are_still_sent(
    broker: Broker,
) -> None:
    topic = broker.topic()
    client = broker.connect(props=[(Property.RECEIVE_MAXIMUM, 1)])
    client.subscribe((topic, 1))
    publisher = broker.connect()
    publisher.publish(topic, b"1", qos=1)
    publisher.publish(topic, b"2", qos=1)
    first = client.expect_publish(topic, b"1", 1)
    publisher.publish(topic, b"0")
    client.expect_publish(topic, b"0", 0)
    client.unsubscribe(broker.topic("other"))
    client.acknowledge(first)
    client.expect_publish(topic, b"2", 1)
