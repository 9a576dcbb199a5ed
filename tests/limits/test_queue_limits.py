"""Messages for clients that are away: in memory, in the log, and those that outlive the log."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gateways import Gateway, Start
from raw_client import Broker, Client


def await_absence(gateway: Gateway, broker: Broker, count: int) -> list[tuple[str, str]]:
    """Clients with sessions that last, subscribed at QoS 1 and gone: names and topics."""
    gone = []
    for number in range(count):
        name, topic = broker.client_id(), broker.topic(f"t{number}")
        away = broker.connect(name, clean=False)
        away.subscribe((topic, 1))
        away.close()
        gone.append((name, topic))
    gateway.wait_for(lambda: gateway.metric("hedgerow_mqtt_disconnected_clients") == count)
    return gone


def test_what_is_beyond_the_bytes_of_a_queue_waits_in_the_log(start: Start) -> None:
    gateway = start("queue_bytes = 20000\ninflight_messages = 10")
    broker = gateway.broker()
    [(name, topic)] = await_absence(gateway, broker, 1)
    publisher = broker.connect()
    for number in range(100):
        publisher.publish(topic, b"%03d" % number + bytes(500), qos=1)
    assert gateway.metric("hedgerow_mqtt_queued_messages") == 100
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="all_queues_bytes"}') <= 20_000
    back = broker.dial()
    back.connect(name, clean=False)
    for number in range(100):
        message = back.expect_publish(topic, qos=1)
        assert message.payload[:3] == b"%03d" % number
        back.acknowledge(message)
    gateway.others_are_served()


def test_a_queue_and_what_is_beyond_it(start: Start) -> None:
    gateway = start("queue_messages = 30\ninflight_messages = 10")
    broker = gateway.broker()
    [(name, topic)] = await_absence(gateway, broker, 1)
    publisher = broker.connect()
    for number in range(100):
        publisher.publish(topic, b"%03d" % number + bytes(500), qos=1)
    assert gateway.metric("hedgerow_mqtt_queued_messages") == 30
    gateway.await_refusal("message dropped: queue full, expired or too large", 60)
    back = broker.dial()
    back.connect(name, clean=False)
    first = back.expect_publish(topic, qos=1)
    assert first.payload[:3] == b"000"  # the oldest are kept
    gateway.others_are_served()


LARGE = 900_000
SMALL_LOG = "[log]\nmax_bytes = 2000000\nsegment_bytes = 1000000"


def published_into_a_small_log(gateway: Gateway, log: Path, *topics: str) -> None:
    """Large messages, most of which the log lets go again."""
    publisher = gateway.broker().connect(username="greedy")
    for number, topic in enumerate(topics):
        publisher.publish(topic, b"%03d" % number + bytes(LARGE), qos=1)
    gateway.wait_for(lambda: size_of(log) < 4_000_000)


def size_of(log: Path) -> int:
    """Bytes of the segments of a log, which may be deleted while they are counted."""
    size = 0
    for segment in log.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += segment.stat().st_size
    return size


def numbers_got(client: Client, topic: str, last: int) -> list[int]:
    """Of the messages that come, up to one."""
    got: list[int] = []
    while not got or got[-1] < last:
        message = client.expect_publish(topic, qos=1)
        got.append(int(message.payload[:3]))
        client.acknowledge(message)
    return got


def test_what_the_log_lets_go_is_put_by_for_whom_it_waits(start: Start, tmp_path: Path) -> None:
    gateway = start(SMALL_LOG)
    broker = gateway.broker()
    [(name, topic)] = await_absence(gateway, broker, 1)
    published_into_a_small_log(gateway, tmp_path / "state" / "log", *[topic] * 14)
    back = broker.dial()
    back.connect(name, clean=False)
    assert numbers_got(back, topic, 13) == list(range(14))
    assert gateway.refused("message dropped: the log no longer has it") == 0


def test_what_one_user_has_waiting_costs_no_other_what_waits_for_him(
    start: Start, tmp_path: Path
) -> None:
    gateway = start(f"spared_bytes_per_user = 3000000\n{SMALL_LOG}")
    broker = gateway.broker()
    victim = broker.connect("victim", clean=False, username="modest")
    victim.subscribe(("modest/t", 1))
    victim.disconnect()
    topics = [f"greedy/{number}" for number in range(20)]
    for number, topic in enumerate(topics):
        greedy = broker.connect(f"greedy{number}", clean=False, username="greedy")
        greedy.subscribe((topic, 1))
        greedy.disconnect()
    publisher = broker.connect(username="modest")
    for number in range(50):
        publisher.publish("modest/t", b"%03d" % number, qos=1)
    published_into_a_small_log(gateway, tmp_path / "state" / "log", *topics)
    back = broker.dial()
    back.connect("victim", clean=False, username="modest")
    assert numbers_got(back, "modest/t", 49) == list(range(50))


def test_what_is_beyond_a_users_share_is_counted_when_his_client_comes(
    start: Start, tmp_path: Path
) -> None:
    gateway = start(f"spared_bytes_per_user = 3000000\n{SMALL_LOG}")
    broker = gateway.broker()
    [(name, topic)] = await_absence(gateway, broker, 1)
    published_into_a_small_log(gateway, tmp_path / "state" / "log", *[topic] * 14)
    back = broker.dial()
    back.connect(name, clean=False)
    got = numbers_got(back, topic, 13)
    missed = 14 - len(got)
    assert got == [0, 1, 2, *range(3 + missed, 14)]  # the oldest, and what the log still has
    assert missed > 3
    gateway.await_refusal("message dropped: the log no longer has it", missed)
    assert gateway.refused("message dropped: the log no longer has it") == missed


def test_all_queues_together(start: Start) -> None:
    gateway = start("all_queues_bytes = 50000\ninflight_messages = 1")
    broker = gateway.broker()
    gone = await_absence(gateway, broker, 10)
    publisher = broker.connect()
    for number in range(20):
        for _, topic in gone:
            publisher.publish(topic, b"%02d" % number + bytes(500), qos=1)
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="all_queues_bytes"}') <= 50_000
    for name, topic in gone:  # what found no room there waited in the log
        back = broker.dial()
        back.connect(name, clean=False)
        for number in range(20):
            message = back.expect_publish(topic, qos=1)
            assert message.payload[:2] == b"%02d" % number
            back.acknowledge(message)
    gateway.others_are_served()
