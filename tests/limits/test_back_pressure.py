"""A client that does not read or sends too much: memory is bounded and nobody else suffers.

That the loop is not kept is shown by order, not by a clock: what another client asks for comes
before the end of what the flooding client sent first.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from itertools import product

import pytest
from gateways import Gateway, Start
from raw_client import Broker, Client, ConnectionEndedError
from raw_packets import Kind

MIB = 1 << 20
PATIENCE_S = 60.0


@contextlib.contextmanager
def sending(client: Client, data: bytes) -> Iterator[threading.Thread]:
    """Send beside; the broker may well take its time, or close."""
    client.socket.settimeout(PATIENCE_S)

    def send() -> None:
        with contextlib.suppress(ConnectionEndedError):
            client.send(data)

    thread = threading.Thread(target=send)
    thread.start()
    yield thread
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def slow_subscriber(broker: Broker, *filters: str | tuple[str, int]) -> Client:
    """Subscribes, and does not read any more."""
    client = broker.dial()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(broker.client_id())
    client.subscribe(*filters)
    return client


def test_a_subscriber_that_does_not_read_costs_its_limit_and_the_other_gets_all_at_qos_1(
    start: Start,
) -> None:
    gateway = start("queue_bytes = 2000000\ninflight_bytes = 1000000")
    broker = gateway.broker()
    topic = broker.topic()
    slow_subscriber(broker, (topic, 1))
    reader = broker.subscriber((topic, 1))
    publisher = broker.connect()
    before = gateway.own_bytes()
    count, size = 3_000, 10_000  # 30 MB, of which the slow one may hold some 5
    for number in range(count):
        publisher.publish(topic, number.to_bytes(4, "big") + bytes(size - 4), qos=1)
        message = reader.expect_publish(topic, qos=1)
        assert message.payload[:4] == number.to_bytes(4, "big")
        reader.acknowledge(message)
    assert gateway.own_bytes() - before < 20 * MIB
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="all_queues_bytes"}') <= 2_000_000
    gateway.await_refusal("message dropped: queue full, expired or too large")


def test_many_that_do_not_read_are_closed_before_they_hold_too_much(start: Start) -> None:
    gateway = start("all_buffers_bytes = 10000000\nheld_bytes = 500000")
    broker = gateway.broker()
    topic = broker.topic()
    for _ in range(30):
        slow_subscriber(broker, topic)
    reader = broker.subscriber(topic)
    publisher = broker.connect()
    before = gateway.own_bytes()
    for number in range(500):
        publisher.publish(topic, number.to_bytes(4, "big") + bytes(20_000))
        reader.expect_publish(topic, number.to_bytes(4, "big") + bytes(20_000))
    gateway.await_refusal("connection that held most of too much in buffers")
    assert gateway.own_bytes() - before < 60 * MIB  # without limits: 300 MB
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="all_buffers_bytes"}') <= 10_000_000


def test_a_publisher_that_floods_is_slowed_and_a_subscriber_that_reads_gets_all_of_it(
    start: Start,
) -> None:
    gateway = start("")
    broker = gateway.broker()
    topic = broker.topic()
    reader, publisher = broker.subscriber((topic, 1)), broker.connect()
    before = gateway.own_bytes()
    count = 10_000  # what fits into the reader's queue, should it be the slower one
    flood = b"".join(
        broker.packets.publish(topic, b"%05d" % number + bytes(1000), qos=1, packet_id=number + 1)
        for number in range(count)
    )
    with sending(publisher, flood):  # and it does not read its acknowledgements meanwhile
        for number in range(count):
            message = reader.expect_publish(topic, qos=1)
            assert message.payload[:5] == b"%05d" % number
            reader.acknowledge(message)
    for number in range(count):
        publisher.expect(Kind.PUBACK, number + 1)
    assert gateway.own_bytes() - before < 60 * MIB
    assert gateway.metric("hedgerow_mqtt_dropped_messages_total") == 0


def test_a_publisher_that_reads_no_acknowledgements_is_not_read_from(start: Start) -> None:
    gateway = start("held_bytes = 10000\nwrite_buffer_bytes = 10000")
    broker = gateway.broker()
    client = broker.dial()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(broker.client_id())
    client.socket.settimeout(2)
    with pytest.raises(ConnectionEndedError, match="timed out"):  # what TCP does to it
        while True:
            client.send(b"\xc0\0" * 500_000)
    gateway.others_are_served()
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="all_buffers_bytes"}') < 1 * MIB


def unique_topics(broker: Broker) -> bytes:
    """Each topic is new, so its receivers must be found."""
    return b"".join(broker.packets.publish(f"u/{number}", b"") for number in range(60_000))


def wide_filters(broker: Broker) -> bytes:
    """Each topic meets a thousand filters of wildcards."""
    filters = ["/".join(levels) for levels in product("a+", repeat=10)][:1000]
    for start in range(0, len(filters), 500):
        broker.connect().subscribe(*filters[start : start + 500])
    return b"".join(
        broker.packets.publish("/".join("a" * 9) + f"/{number}", b"") for number in range(3_000)
    )


def deep_topics(broker: Broker) -> bytes:
    return b"".join(
        broker.packets.publish("/".join(f"{number}-{level}" for level in range(60)), b"")
        for number in range(5_000)
    )


def retained(broker: Broker) -> bytes:
    return b"".join(
        broker.packets.publish(f"r/{number}", b"x", retain=True) for number in range(40_000)
    )


def fan_out(broker: Broker) -> bytes:
    for _ in range(200):
        broker.connect().subscribe(("fan", 0))
    return b"".join(broker.packets.publish("fan", b"") for _ in range(20_000))


def shared_groups(broker: Broker) -> bytes:
    for part in range(2):
        groups = [f"$share/g{part}-{number}/s/#" for number in range(500)]
        broker.connect().subscribe(*groups)
    return b"".join(broker.packets.publish(f"s/{number}", b"") for number in range(300))


def subscriptions(broker: Broker) -> bytes:
    filters = [f"+/{number}/#" for number in range(900)]
    one = broker.packets.subscribe(1, *filters) + broker.packets.unsubscribe(2, *filters)
    return one * 20


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    "flood",
    [
        *(unique_topics, retained, fan_out, subscriptions),
        pytest.param(wide_filters, marks=pytest.mark.soak("slow to match, as unique topics are")),
        pytest.param(deep_topics, marks=pytest.mark.soak("slow to match, as unique topics are")),
        pytest.param(shared_groups, marks=pytest.mark.soak("many receivers, as fan-out has")),
    ],
)
def test_others_have_their_turn_before_a_flood_is_dealt_with(start: Start, flood: object) -> None:
    gateway = start("")
    data = flood(gateway.broker(5))  # type: ignore[operator]  # one of the functions above
    broker = gateway.broker(5)
    other, flooder = broker.connect(), broker.connect()
    answers = 0
    with sending(flooder, data + broker.packets.pingreq()) as thread:
        ended = threading.Event()

        def read() -> None:
            with contextlib.suppress(ConnectionEndedError):
                while flooder.receive().kind is not Kind.PINGRESP:
                    pass
            ended.set()

        reading = threading.Thread(target=read)
        reading.start()
        while not ended.is_set():
            other.ping()
            answers += 1
        reading.join(PATIENCE_S)
        thread.join(PATIENCE_S)
    assert answers >= 5
    gateway.others_are_served()


def test_what_is_retained_goes_to_a_subscriber_as_fast_as_it_reads(start: Start) -> None:
    gateway = start("write_buffer_bytes = 100000\nheld_bytes = 1000")
    broker = gateway.broker()
    publisher = broker.connect()
    count = 3_000
    publisher.send(
        b"".join(
            broker.packets.publish(f"r/{number}", bytes(5_000), retain=True)
            for number in range(count)
        )
    )
    publisher.ping()
    client = broker.dial()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.connect(broker.client_id())
    before = gateway.own_bytes()
    client.send(broker.packets.subscribe(1, "r/#"))
    gateway.others_are_served()
    assert gateway.own_bytes() - before < 8 * MIB  # of 15 MB
    client.expect(Kind.SUBACK)
    topics = {client.expect_publish().topic for _ in range(count)}
    assert len(topics) == count
    assert gateway.metric("hedgerow_mqtt_dropped_messages_total") == 0


def test_connections_that_come_and_go_leave_nothing(start: Start) -> None:
    gateway = start("connects_per_s = 100000")
    broker = gateway.broker()

    def come_and_go(count: int) -> None:
        for _ in range(count):
            with socket.create_connection(gateway.address, 5) as one:
                one.sendall(broker.packets.connect(broker.client_id()))
                one.recv(4)

    def none_is_left() -> bool:
        return gateway.metric("hedgerow_mqtt_connected_clients") == 0

    come_and_go(300)
    gateway.wait_for(none_is_left)  # the first visit of /metrics loads what tells it
    before = gateway.own_bytes()
    come_and_go(2_000)
    gateway.wait_for(none_is_left)
    assert gateway.own_bytes() - before < 4 * MIB
    _is_quiet(gateway)


def _is_quiet(gateway: Gateway) -> None:
    for limit in ("connections", "sessions", "all_buffers_bytes", "all_queues_bytes"):
        used = f'hedgerow_mqtt_limit_used{{limit="{limit}"}}'
        gateway.wait_for(lambda used=used: gateway.metric(used) == 0)
