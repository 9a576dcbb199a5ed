"""MQTT 5.0 section 4.1: how long sessions last, and who may take them up with which limits."""

from __future__ import annotations

import pytest
from raw_client import Broker
from raw_packets import V5, V311, Kind, Packets, Property, Will

LEVEL = V5
MQTT = Packets(V5)
FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]


def wait(broker: Broker, delay_s: int) -> None:
    """Until a will of this delay has come: the broker's own clock, without a sleep here."""
    clock = broker.topic(f"clock/{delay_s}")
    watcher = broker.subscriber(clock)
    will = Will(clock, props=[(Property.WILL_DELAY_INTERVAL, delay_s)])
    broker.connect(props=FOR_EVER, will=will).close()
    watcher.expect_publish(clock)


@pytest.mark.statement("MQTT-4.1.0-2", "MQTT-3.1.2-23")
def test_a_session_ends_when_its_expiry_interval_is_over_and_not_before(broker: Broker) -> None:
    names = [broker.client_id(), broker.client_id()]
    for name, expiry_s in zip(names, (1, 1000), strict=True):
        client = broker.connect(name, props=[(Property.SESSION_EXPIRY_INTERVAL, expiry_s)])
        client.subscribe((broker.topic(), 1))
        client.disconnect()
    wait(broker, 3)
    present = []
    for name in names:
        connack = broker.connect(name, clean=False).connack
        assert connack is not None
        present.append(connack.session_present)
    assert present == [False, True]


@pytest.mark.statement("MQTT-3.1.2-23")
def test_a_disconnect_may_lengthen_a_session_that_has_an_expiry_interval(broker: Broker) -> None:
    name = broker.client_id()
    client = broker.connect(name, props=[(Property.SESSION_EXPIRY_INTERVAL, 1)])
    client.disconnect(0, [(Property.SESSION_EXPIRY_INTERVAL, 1000)])
    wait(broker, 2)
    connack = broker.connect(name, clean=False).connack
    assert connack is not None
    assert connack.session_present


@pytest.mark.departs("mosquitto-2.0", "drops a message that expired after it was sent")
@pytest.mark.statement("MQTT-4.3.3-7")
def test_a_message_of_qos_2_that_was_sent_before_it_expired_is_sent_again(broker: Broker) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, props=FOR_EVER)
    client.subscribe((topic, 2))
    expiry = [(Property.MESSAGE_EXPIRY_INTERVAL, 2)]
    broker.connect().publish(topic, b"x", qos=2, props=expiry)
    client.expect_publish(topic, b"x", 2)
    wait(broker, 3)
    client.close()
    back = broker.connect(name, clean=False)
    again = back.expect_publish(topic, b"x", 2)
    assert again.dup
    back.acknowledge(again)
    back.ping()


@pytest.mark.statement("MQTT-3.1.2-8", "MQTT-4.1.0-2")
def test_a_will_is_published_when_its_session_expires_before_its_delay_is_over(
    broker: Broker,
) -> None:
    topic = broker.topic()
    watcher = broker.subscriber((topic, 1))
    will = Will(topic, b"gone", 1, props=[(Property.WILL_DELAY_INTERVAL, 3600)])
    broker.connect(props=[(Property.SESSION_EXPIRY_INTERVAL, 1)], will=will).close()
    watcher.expect_publish(topic, b"gone", 1)


@pytest.mark.statement("MQTT-3.1.4-3", "MQTT-4.4.0-1", "MQTT-3.3.1-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_taken_over_connection_left_unacknowledged_is_sent_to_the_newer_one(
    broker: Broker, qos: int
) -> None:
    name, topic = broker.client_id(), broker.topic()
    older = broker.connect(name, props=FOR_EVER)
    older.subscribe((topic, qos))
    broker.connect().publish(topic, b"x", qos=qos)
    first = older.expect_publish(topic, b"x", qos)
    newer = broker.connect(name, clean=False, props=FOR_EVER)
    again = newer.expect_publish(topic, b"x", qos)
    assert (again.packet_id, again.dup) == (first.packet_id, True)
    newer.acknowledge(again)
    newer.ping()


@pytest.mark.statement("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2", "MQTT-4.4.0-1")
@pytest.mark.departs("mosquitto-2.0", "sends all that was unacknowledged again at once")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_smaller_receive_maximum_holds_for_what_is_sent_again(broker: Broker, qos: int) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, props=FOR_EVER)
    client.subscribe((topic, qos))
    publisher = broker.connect()
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=qos)
    for _ in range(5):
        client.expect_publish(topic, qos=qos)
    client.close()
    back = broker.connect(name, clean=False, props=[*FOR_EVER, (Property.RECEIVE_MAXIMUM, 2)])
    window = [back.expect_publish(topic, b"%d" % number, qos) for number in range(2)]
    back.send(MQTT.pingreq())
    back.expect(Kind.PINGRESP)
    for number in range(2, 5):
        back.acknowledge(window.pop(0))
        window.append(back.expect_publish(topic, b"%d" % number, qos))


@pytest.mark.statement("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("sent", [False, True], ids=["queued", "unacknowledged"])
def test_a_smaller_maximum_packet_size_holds_for_what_waited(broker: Broker, sent: bool) -> None:
    name, topic = broker.client_id(), broker.topic()
    client = broker.connect(name, props=FOR_EVER)
    client.subscribe((topic, 1))
    publisher = broker.connect()
    if not sent:
        client.disconnect()
    publisher.publish(topic, bytes(200), qos=1)
    if sent:
        client.expect_publish(topic, bytes(200), 1)
        client.close()
    back = broker.connect(name, clean=False, props=[*FOR_EVER, (Property.MAXIMUM_PACKET_SIZE, 100)])
    publisher.publish(topic, b"end", qos=1)
    assert back.until(b"end") == []


@pytest.mark.statement("MQTT-3.3.4-2", "MQTT-3.8.3-3")
def test_no_local_on_one_filter_takes_nothing_from_an_overlapping_one(broker: Broker) -> None:
    client = broker.connect()
    client.subscribe((broker.topic("a"), 0x05), (broker.topic("+"), 1))
    client.publish(broker.topic("a"), b"own", qos=1)
    client.publish(broker.topic("b"), b"end", qos=1)
    assert [message.payload for message in client.until(b"end")] == [b"own"]


@pytest.mark.statement("MQTT-3.1.2-5", "MQTT-3.1.3-2", "MQTT-2.2.2-1")
@pytest.mark.parametrize(("first", "second"), [(V311, V5), (V5, V311)], ids=["up", "down"])
@pytest.mark.parametrize("sent", [False, True], ids=["queued", "unacknowledged"])
def test_a_session_may_be_resumed_in_the_other_protocol_version(
    broker: Broker, first: int, second: int, sent: bool
) -> None:
    name, topic = broker.client_id(), broker.topic()
    brokers = {level: Broker(broker.address, level) for level in (V311, V5)}
    client = brokers[first].connect(name, clean=False, props=FOR_EVER)
    client.subscribe((topic, 1))
    props = [(Property.CONTENT_TYPE, "text")]
    if not sent:
        client.disconnect()
    broker.connect().publish(topic, b"x", qos=1, props=props)
    if sent:
        client.expect_publish(topic, b"x", 1)
        client.close()
    back = brokers[second].connect(name, clean=False)
    assert back.connack is not None
    assert back.connack.session_present
    message = back.expect_publish(topic, b"x", 1)
    assert message.dup is sent
    assert message.props == (tuple(props) if second == V5 else ())
    for other in brokers.values():
        other.close()


@pytest.mark.statement("MQTT-4.5.0-1", "MQTT-2.2.2-1", "MQTT-3.3.2-20")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retained", [False, True], ids=["live", "retained"])
def test_messages_go_between_clients_of_both_protocol_versions(
    broker: Broker, qos: int, retained: bool
) -> None:
    topic, older = broker.topic(), Broker(broker.address, V311)
    props = [(Property.CONTENT_TYPE, "text")]
    for publishing, subscribing in ((broker, older), (older, broker)):
        publisher = publishing.connect()
        if retained:
            publisher.publish(topic, b"x", qos=qos, retain=True, props=props)
            publisher.ping()
        subscriber = subscribing.subscriber((topic, 2))
        if not retained:
            publisher.publish(topic, b"x", qos=qos, props=props)
        message = subscriber.expect_publish(topic, b"x", qos)
        assert message.props == ()
    older.close()
