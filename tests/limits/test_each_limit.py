"""Every limit is reached from outside, is counted and logged, and others are still served."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time

import pytest
from gateways import Start
from raw_client import Broker, Client, ConnectionEndedError
from raw_packets import Kind, Will, packet, properties, two

QUOTA = 0x97
EMPTY = (0x26, ("", ""))
OVER = b"\x30\xff\xff\xff\x7f"
"""The start of a PUBLISH of 268,435,455 bytes, the longest there is."""


def quietly(client: Client, *data: bytes) -> None:
    """Send to a broker that may have closed."""
    with contextlib.suppress(ConnectionEndedError):
        client.send(*data)


def drops(client: Client) -> int:
    """Read until the broker closes; how many bytes came."""
    count = 0
    with contextlib.suppress(ConnectionError):
        while data := client.socket.recv(1 << 16):
            count += len(data)
    return count


def is_let_in(broker: Broker) -> Client | None:
    """A client, or None if the broker closed its connection."""
    with contextlib.suppress(ConnectionEndedError):
        return broker.connect()
    return None


def test_connections_in_all(start: Start) -> None:
    gateway = start("connections = 4")
    broker = gateway.broker()
    served = [broker.connect() for _ in range(4)]
    for _ in range(3):
        broker.dial().expect_end()
    for client in served:
        client.ping()
    gateway.await_refusal("connection over the limit", 3)
    assert gateway.metric('hedgerow_mqtt_limit{limit="connections"}') == 4
    served.pop().disconnect()
    broker.connect()


def test_connections_of_an_address(start: Start) -> None:
    gateway = start("connections_per_address = 3")
    broker = gateway.broker()
    for _ in range(3):
        broker.connect()
    broker.dial().expect_end()
    gateway.await_refusal("connection over the limit of an address")
    with socket.create_connection(gateway.address, 5, ("127.0.0.2", 0)) as other:
        other.sendall(broker.packets.connect(broker.client_id()))
        assert other.recv(4) == b"\x20\2\0\0"


def test_a_host_that_opens_connections_and_is_silent_shuts_nobody_out(start: Start) -> None:
    gateway = start("connections = 60\nunaccepted_per_address = 50\nconnect_s = 600")
    served = gateway.broker().connect()
    silent = [socket.create_connection(gateway.address, 5, ("127.0.0.2", 0)) for _ in range(70)]
    silent += [socket.create_connection(gateway.address, 5, ("127.0.0.3", 0)) for _ in range(70)]
    others = [gateway.broker().connect() for _ in range(20)]
    for client in (served, *others):
        client.ping()
    gateway.await_refusal("connection over the limit", 70)
    for one in silent:
        one.close()


def test_connections_of_a_user(start: Start) -> None:
    gateway = start("connections_per_user = 3")
    broker = gateway.broker(5)
    served = [broker.connect() for _ in range(3)]
    refused = broker.dial()
    refused.socket.sendall(broker.packets.connect(broker.client_id()))
    assert refused.socket.recv(64)[3] == 0x97
    gateway.await_refusal("connection refused (quota_exceeded)")
    served.pop().disconnect()
    broker.connect()


def test_connections_in_a_second(start: Start) -> None:
    gateway = start("connects_per_s = 10")
    broker = gateway.broker()
    served = broker.connect()
    for _ in range(40):
        broker.dial()
    gateway.await_refusal("connection over the limit of a second")
    served.ping()
    gateway.wait_for(lambda: is_let_in(broker))  # in the next second


@pytest.mark.parametrize("dribble", [b"", b"\x10\x40\0\4MQTT"])
def test_time_without_a_connect(start: Start, dribble: bytes) -> None:
    gateway = start("connect_s = 0.5")
    broker = gateway.broker()
    late = 0
    while (served := is_let_in(broker)) is None:  # a machine may stand still for as long
        late += 1
    silent = broker.dial()
    with contextlib.suppress(ConnectionEndedError):
        for byte in itertools.chain(dribble):  # a byte now and then does not help
            silent.send(bytes((byte,)))
            time.sleep(0.1)
    silent.expect_end()
    served.ping()
    gateway.await_refusal("connection without CONNECT", late + 1)


@pytest.mark.parametrize("level", [4, 5])
def test_size_of_a_packet_is_refused_by_its_header(start: Start, level: int) -> None:
    gateway = start("packet_bytes = 1000")
    broker = gateway.broker(level)
    stranger = broker.dial()
    stranger.send(b"\x10\xff\xff\xff\x7f")
    stranger.expect_end()
    client = broker.connect()
    client.send(OVER)
    client.expect_close(0x95)
    gateway.await_refusal("protocol error (packet_too_large)", 2)
    gateway.others_are_served()


@pytest.mark.parametrize("topic", ["a/" * 64 + "b", "x" * 5000])
def test_depth_and_length_of_a_topic(start: Start, topic: str) -> None:
    gateway = start("")
    broker = gateway.broker(5)
    client = broker.connect()
    assert client.subscribe(topic).reasons == (0x8F,)
    gateway.await_refusal("filter over the limit")
    client.publish(topic, b"x")
    client.expect_close(0x90)
    gateway.await_refusal("protocol error (topic_name_invalid)")
    gateway.others_are_served()


def test_a_topic_as_deep_as_allowed_is_delivered(start: Start) -> None:
    gateway = start("")
    broker = gateway.broker()
    topic = broker.topic("/".join("x" * 63))
    subscriber = broker.subscriber(topic)
    broker.connect().publish(topic, b"deep")
    subscriber.expect_publish(topic, b"deep")


def test_sessions(start: Start) -> None:
    gateway = start("sessions = 3")
    broker = gateway.broker(5)
    for _ in range(3):
        broker.connect(props=[(0x11, 100)]).disconnect()
    stranger = broker.dial()
    stranger.send(broker.packets.connect(broker.client_id()))
    stranger.expect_refusal(0x97)
    gateway.await_refusal("connection refused (quota_exceeded)")


def test_sessions_of_a_user(start: Start) -> None:
    gateway = start("sessions_per_user = 3")
    broker = gateway.broker(5)
    connect = broker.packets.connect
    kept = [(0x11, 100)]
    for _ in range(3):
        broker.connect(username="greedy", props=kept).disconnect()
    refused = broker.dial()
    refused.send(connect(broker.client_id(), username="greedy", props=kept))
    refused.expect_refusal(0x97)
    gateway.await_refusal("connection refused (quota_exceeded)")
    broker.connect(username="modest", props=kept)
    broker.connect(props=kept)


def test_subscriptions_of_a_client(start: Start) -> None:
    gateway = start("subscriptions_per_session = 5")
    broker = gateway.broker(5)
    client = broker.connect()
    answers = [client.subscribe(f"t/{number}").reasons[0] for number in range(7)]
    assert answers == [0] * 5 + [0x97] * 2
    assert client.subscribe(("t/1", 1)).reasons == (1,)  # a replacement needs no room
    gateway.await_refusal("subscription over the limit of a session", 2)
    client.send(broker.packets.subscribe(1, *["t"] * 6))
    client.expect_close(0x97)
    gateway.others_are_served()


def test_memory_of_all_subscriptions(start: Start) -> None:
    gateway = start("subscriptions_bytes = 1000000")
    broker = gateway.broker()
    reasons: list[int] = []
    for number in range(10):
        client = broker.connect()
        filters = [f"{number}/" + "/".join(f"{i}-{n}" for n in range(30)) for i in range(20)]
        reasons += client.subscribe(*filters).reasons
    assert reasons.count(0) in range(50, 100)
    gateway.await_refusal("subscription over the limit of all", 100)
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="subscriptions_bytes"}') < 1_050_000
    broker.close()
    gateway.wait_for(
        lambda: gateway.metric('hedgerow_mqtt_limit_used{limit="subscriptions_bytes"}') == 0
    )
    gateway.others_are_served()


def test_a_client_that_comes_again_and_again_is_held_back(start: Start) -> None:
    gateway = start("connects_per_minute_of_client = 60")
    broker = gateway.broker(5)
    begun_s = time.monotonic()
    times, reason = -1, 0
    while not reason:  # once more for each second that this takes
        times += 1
        flapping = broker.dial()
        flapping.send(broker.packets.connect("flapping"))
        reason = flapping.expect(Kind.CONNACK).reason
        if not reason:
            flapping.close()
    assert reason == 0x9F
    flapping.expect_end()
    assert 60 <= times <= 61 + (time.monotonic() - begun_s)
    gateway.await_refusal("connection refused (connection_rate_exceeded)")
    broker.connect("steady").ping()
    time.sleep(2.1)
    broker.connect("flapping").ping()


def test_bytes_of_one_user_in_a_second(start: Start) -> None:
    gateway = start("received_bytes_per_s_per_user = 100000")
    broker = gateway.broker(5)
    greedy = [broker.connect(username="greedy") for _ in range(2)]
    began_s = time.monotonic()
    for _ in range(20):
        for client in greedy:
            client.publish("t", bytes(10_000), qos=1)
    took_s = time.monotonic() - began_s
    held_back = "user held back that sends too fast"
    gateway.await_refusal(held_back)
    assert took_s > 2.0  # 400 kB, of which 100 may come at once
    before = gateway.refused(held_back)
    modest = broker.connect(username="modest")
    for _ in range(8):
        modest.publish("t", bytes(10_000), qos=1)
    assert gateway.refused(held_back) == before


def test_memory_of_one_users_subscriptions(start: Start) -> None:
    gateway = start("subscriptions_bytes_per_user = 10000")
    broker = gateway.broker(5)
    greedy = [broker.connect(username="greedy") for _ in range(2)]
    reasons = [client.subscribe(f"{n}/a/b").reasons[0] for n in range(10) for client in greedy]
    assert reasons == [0] * 8 + [0x97] * 12
    gateway.await_refusal("subscription over the limit of a user", 12)
    assert broker.connect(username="modest").subscribe("0/a/b", "1/a/b").reasons == (0, 0)
    for client in greedy:
        client.unsubscribe("0/a/b")
    assert greedy[0].subscribe("9/a/b").reasons == (0,)


@pytest.mark.parametrize(
    "limits", ["retained_messages_per_user = 10", "retained_bytes_per_user = 5200"]
)
def test_retained_messages_of_one_user(start: Start, limits: str) -> None:
    gateway = start(limits)
    broker = gateway.broker(5)
    greedy, modest = (broker.connect(username=name) for name in ("greedy", "modest"))
    seen = broker.subscriber("r/#")
    for number in range(10):
        greedy.publish(f"r/{number}", bytes(300), qos=1, retain=True)
    refused = [greedy.publish("r/10", bytes(300), qos=qos, retain=True) for qos in (1, 2)]
    assert [answer.reason for answer in refused if answer is not None] == [0x97, 0x97]
    greedy.publish("r/11", bytes(300), retain=True)  # QoS 0: delivered, and not retained
    modest.publish("r/12", b"modest", qos=1, retain=True)
    greedy.publish("r/9", bytes(200), qos=1, retain=True)  # a smaller one in place of its own
    assert [seen.expect_publish().topic for _ in range(13)][-3:] == ["r/11", "r/12", "r/9"]
    kept = broker.subscriber("r/#")
    topics = {kept.expect_publish().topic for _ in range(11)}
    assert topics == {*(f"r/{n}" for n in range(10)), "r/12"}
    greedy.publish("r/0", b"", qos=1, retain=True)  # room again
    greedy.publish("r/13", b"last", qos=1, retain=True)
    broker.subscriber("r/13").expect_publish("r/13", b"last")


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ("retained_messages_per_gateway = 10", "retained messages"),
        ("retained_bytes_per_gateway = 5200", "bytes of retained messages"),
    ],
)
def test_retained_messages_of_one_gateway(start: Start, limits: str, what: str) -> None:
    gateway = start(limits)
    client = gateway.broker(5).connect()
    answers = [client.publish(f"r/{n}", bytes(300), qos=1, retain=True) for n in range(12)]
    reasons = [answer.reason for answer in answers if answer is not None]
    assert reasons[-1] == 0x97
    assert set(reasons[: reasons.index(0x97)]) == {0}
    gateway.await_refusal(f"message not retained: too many {what} of this gateway")
    client.publish("r/0", b"", qos=1, retain=True)  # room again
    again = client.publish("r/20", bytes(300), qos=1, retain=True)
    assert again is not None
    assert again.reason == 0


def test_deletions_of_one_user(start: Start) -> None:
    gateway = start("retained_tombstones_per_user = 3")
    broker = gateway.broker(5)
    greedy, modest = (broker.connect(username=name) for name in ("greedy", "modest"))
    answers = [greedy.publish(f"r/{n}", b"", qos=1, retain=True) for n in range(4)]
    assert [answer.reason for answer in answers if answer is not None] == [0, 0, 0, 0x97]
    gateway.await_refusal("message not retained: too many deletions of this user")
    modest.publish("r/kept", b"1", qos=1, retain=True)
    deleted = greedy.publish("r/kept", b"", qos=1, retain=True)
    assert deleted is not None
    assert deleted.reason == 0


def test_properties_of_retained_messages_take_room(start: Start) -> None:
    gateway = start("retained_bytes = 20000")
    client = gateway.broker(5).connect()
    for number in range(30):
        props = [(0x26, ("k", "v" * 3000))]
        client.publish(f"r/{number}", b"1", qos=1, retain=True, props=props)
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="retained_messages"}') < 7
    gateway.await_refusal("message not retained", 20)


@pytest.mark.parametrize("limits", ["retained_messages = 10", "retained_bytes = 20000"])
def test_retained_messages_and_their_bytes(start: Start, limits: str) -> None:
    gateway = start(limits)
    broker = gateway.broker()
    client = broker.connect()
    for number in range(30):
        client.publish(f"r/{number}", bytes(400), qos=1, retain=True)
    count = gateway.metric('hedgerow_mqtt_limit_used{limit="retained_messages"}')
    gateway.await_refusal("message not retained", int(30 - count))
    assert count in range(8, 30)
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="retained_bytes"}') <= 20_000
    seen = broker.subscriber("r/#")
    assert len({seen.expect_publish().topic for _ in range(int(count))}) == count
    client.publish("r/0", b"", qos=1, retain=True)  # room again
    client.publish("r/29", b"last", qos=1, retain=True)
    broker.subscriber("r/29").expect_publish("r/29", b"last")


def test_all_wills_together(start: Start) -> None:
    gateway = start("all_wills_bytes = 10000")
    broker = gateway.broker(5)
    will = Will("w", bytes(3000))
    for _ in range(3):
        broker.connect(will=will)
    stranger = broker.dial()
    stranger.send(broker.packets.connect(broker.client_id(), will=will))
    stranger.expect_refusal(0x97)
    gateway.await_refusal("connection refused (quota_exceeded)")
    gateway.others_are_served()


@pytest.mark.parametrize("level", [4, 5])
def test_exchanges_of_qos_2_left_open(start: Start, level: int) -> None:
    gateway = start("unreleased_messages = 50")
    broker = gateway.broker(level)
    client = broker.connect()
    flood = [
        broker.packets.publish("t", b"", qos=2, packet_id=number) for number in range(1, 65_536)
    ]
    quietly(client, *flood)
    drops(client)
    gateway.await_refusal("protocol error (receive_maximum_exceeded)")
    gateway.others_are_served()


def test_topic_aliases(start: Start) -> None:
    gateway = start("topic_aliases = 4")
    broker = gateway.broker(5)
    client = broker.connect()
    for alias in range(1, 5):
        client.publish(f"t/{alias}", b"x", props=[(0x23, alias)])
    client.ping()
    client.publish("t/5", b"x", props=[(0x23, 5)])
    client.expect_close(0x94)
    gateway.await_refusal("protocol error (topic_alias_invalid)")
    gateway.others_are_served()


def test_properties_without_end_are_refused(start: Start) -> None:
    gateway = start("")
    broker = gateway.broker(5)
    client = broker.connect()
    quietly(client, broker.packets.publish("t", b"", props=[(0x26, ("k", "v"))] * 100_000))
    client.expect_close(0x95)
    gateway.await_refusal("protocol error (packet_too_large)")
    gateway.others_are_served()


def test_small_properties_are_counted_before_it_is_known_whose_they_are_and_behind_that(
    start: Start,
) -> None:
    gateway = start("")
    broker = gateway.broker(5)
    packets = broker.packets
    stranger = broker.dial()
    stranger.socket.sendall(packets.connect(broker.client_id(), props=[EMPTY] * 25_000))
    assert stranger.socket.recv(64)[3] == QUOTA
    gateway.await_refusal("connection refused (quota_exceeded)")
    assert "CONNECT with more properties than: 64" in gateway.log()
    few, many = ([EMPTY] * count for count in (512, 513))
    made = {
        "PUBLISH": lambda props: packets.publish("t", b"", props=props),
        "SUBSCRIBE": lambda props: packets.subscribe(1, ("t", 0), props=props),
        "UNSUBSCRIBE": lambda props: packet(0xA2, two(1), properties(props), two(1), b"t"),
        "PUBACK": lambda props: packet(0x40, two(1), b"\0", properties(props)),
    }
    for one in made.values():
        client = broker.connect()
        client.send(one(few), packets.pingreq())
        while client.receive().kind != Kind.PINGRESP:
            pass
        quietly(client, one(many))
        client.expect_close(QUOTA)
    gateway.await_refusal("protocol error (quota_exceeded)", len(made))
    assert "PUBLISH with more properties than: 512" in gateway.log()
    gateway.others_are_served()


def test_levels_of_all_filters_of_a_packet_are_counted(start: Start) -> None:
    gateway = start("subscriptions_per_session = 10")
    broker = gateway.broker(5)
    for asked in (
        broker.packets.subscribe(1, *[("/" * 17, 0)] * 10),
        broker.packets.unsubscribe(1, *["/" * 17] * 10),
    ):
        client = broker.connect()
        quietly(client, asked)
        client.expect_close(QUOTA)
    gateway.await_refusal("protocol error (quota_exceeded)", 2)
    assert "levels of all filters in a packet: 170" in gateway.log()
    gateway.others_are_served()


def test_a_client_that_ends_as_half_a_packet_holds_nothing(start: Start) -> None:
    gateway = start("all_buffers_bytes = 1000000")
    broker = gateway.broker()
    halves = []
    for _ in range(10):
        halves.append(broker.connect())
        quietly(halves[-1], b"\x30\xff\xff\x3f\0\1t" + bytes(300_000))
    gateway.await_refusal("connection that held most of too much in buffers", 5)
    assert gateway.metric('hedgerow_mqtt_limit_used{limit="all_buffers_bytes"}') <= 1_000_000
    gateway.others_are_served()
    alive = 0
    for half in halves:
        half.socket.setblocking(False)
        try:
            alive += half.socket.recv(1) != b""
        except BlockingIOError:
            alive += 1
        except OSError:
            pass
    assert 0 < alive < 10
