"""Whatever is malformed ends its own connection, with a reason in 5.0, and nobody else's.

Each case is followed by a client that behaves, on a connection of its own, and a message from it
to one that was there all the time.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from raw_client import Address, Broker, Client, ConnectionEndedError
from raw_packets import (
    V5,
    V311,
    Kind,
    Packets,
    Property,
    Will,
    binary,
    packet,
    parse,
    two,
    variable,
)

BOTH = (V311, V5)
ALIVE, ENDED = -1, -2
MALFORMED, PROTOCOL_ERROR = 0x81, 0x82
REASONS = {
    V311: {ENDED},
    V5: {MALFORMED, PROTOCOL_ERROR, 0x8F, 0x90, 0x94, 0x95},
}
"""The ends that a broken packet may bring: silence in 3.1.1, a DISCONNECT that fits in 5.0."""
BEFORE_THE_VERSION = {ENDED, 1, 0x84}
"""The ends of what may be no MQTT of this version: a return code in 3.1.1, a reason in 5.0."""


@pytest.fixture(autouse=True)
def _not_for_a_named_broker(request: pytest.FixtureRequest) -> None:
    """Other brokers take much of this; what they do otherwise is noted for the statements alone."""
    if request.config.getoption("broker_name", None):
        pytest.skip("no departures are noted for malformed input")


@pytest.fixture(scope="module", params=BOTH, ids=["3.1.1", "5.0"])
def bench(request: pytest.FixtureRequest, broker_address: Address) -> Iterator[Bench]:
    made = Bench(broker_address, request.param)
    yield made
    made.broker.close()


CONNECTS_PER_S = 1_000
"""A broker may refuse more; a gateway's limit is 2,000."""


class Bench:
    """A broker with a client that behaves."""

    _dialled: ClassVar[deque[float]] = deque(maxlen=CONNECTS_PER_S)
    """The times at which the last connections were made."""

    def __init__(self, address: Address, level: int) -> None:
        self.level = level
        self.mqtt = Packets(level)
        self.broker = Broker(address, level)
        self.topic = self.broker.topic("bystander")
        self.bystander = self.broker.subscriber((self.topic, 1), keep_alive_s=0)
        self.served = 0

    def dial(self) -> Client:
        """A connection, no sooner than the broker takes it."""
        if len(self._dialled) == CONNECTS_PER_S:
            time.sleep(max(0.0, self._dialled[0] + 1 - time.monotonic()))
        self._dialled.append(time.monotonic())
        return Client(self.broker.address, self.mqtt)

    def connected(self) -> Client:
        client = self.dial()
        client.connect(self.broker.client_id())
        return client

    def outcome(self, data: bytes, *, dialled: bool = False) -> int:
        """Send bytes; return ALIVE, ENDED, or the reason that a DISCONNECT or CONNACK gave."""
        client = self.dial() if dialled else self.connected()
        try:
            return self._outcome(client, data)
        finally:
            client.close()
            self.serve()

    def _outcome(self, client: Client, data: bytes) -> int:
        reason = ENDED
        try:
            client.send(data, self.mqtt.pingreq())
            while True:
                received = client.receive()
                if received.kind is Kind.PINGRESP:
                    return ALIVE
                if received.kind is Kind.DISCONNECT or (
                    received.kind is Kind.CONNACK and received.reason
                ):
                    reason = received.reason
        except (ConnectionEndedError, ConnectionError):
            return reason

    def serve(self) -> None:
        """A fresh client publishes, the old one receives."""
        self.served += 1
        payload = b"%d" % self.served
        fresh = self.connected()
        fresh.publish(self.topic, payload, qos=1)
        self.bystander.acknowledge(self.bystander.expect_publish(self.topic, payload, 1))
        fresh.disconnect()
        fresh.close()


# -- packets that are broken -----------------------------------------------------------------------


def publish(level: int, topic: bytes, props: bytes = b"", qos: int = 0) -> bytes:
    """A PUBLISH whose fields are taken as they are."""
    identifier = two(7) if qos in {1, 2} else b""
    field = variable(len(props)) + props if level == V5 else b""
    return packet(0x30 | qos << 1, binary(topic), identifier, field, b"x")


def request(level: int, first: int, rest: bytes, packet_id: int = 7) -> bytes:
    """A SUBSCRIBE or UNSUBSCRIBE."""
    return packet(first, two(packet_id), b"\0" if level == V5 else b"", rest)


Make = Callable[[int], bytes]
BROKEN: dict[str, Make] = {
    "type 0": lambda _: b"\0\0",
    "type 0 with a body": lambda _: packet(0x00, b"abc"),
    "AUTH that nobody asked for": lambda _: b"\xf0\0",
    "AUTH with a method": lambda v: (
        packet(0xF0, b"\x18", variable(4), b"\x15\0\1M") if v == V5 else b"\xf0\0"
    ),
    "second CONNECT": lambda v: Packets(v).connect("second"),
    "second CONNECT that is broken": lambda _: b"\x10\0",
    "CONNACK": lambda _: b"\x20\2\0\0",
    "SUBACK": lambda _: b"\x90\3\0\1\0",
    "UNSUBACK": lambda _: b"\xb0\2\0\1",
    "PINGRESP": lambda _: b"\xd0\0",
    "PINGREQ with a body": lambda _: b"\xc0\1\0",
    "length of five bytes": lambda _: b"\x30\xff\xff\xff\xff\1",
    "length of five bytes, all there": lambda _: b"\xc0\x80\x80\x80\x80\0",
    "length over the limit": lambda _: b"\x30\xff\xff\xff\x7f",
    "QoS 3": lambda v: publish(v, b"t", qos=3),
    "DUP with QoS 0": lambda v: b"\x38" + publish(v, b"t")[1:],
    "no topic": lambda v: publish(v, b""),
    "PUBLISH without anything": lambda _: b"\x30\0",
    "PUBLISH of one byte": lambda _: b"\x30\1\0",
    "topic of surrogates": lambda v: publish(v, b"\xed\xa0\x80"),
    "topic of surrogate pairs": lambda v: publish(v, b"\xed\xa0\xbd\xed\xb8\x80"),
    "topic in more bytes than needed": lambda v: publish(v, b"a\xc0\xaf"),
    "null in more bytes than needed": lambda v: publish(v, b"a\xc0\x80"),
    "topic over U+10FFFF": lambda v: publish(v, b"\xf4\x90\x80\x80"),
    "topic of five byte form": lambda v: publish(v, b"\xf8\x88\x80\x80\x80"),
    "topic cut in a character": lambda v: publish(v, b"a\xe2\x82"),
    "topic of a lone continuation": lambda v: publish(v, b"\x80"),
    "null in a topic": lambda v: publish(v, b"a\0b"),
    "+ in a topic": lambda v: publish(v, b"a/+/b", qos=1),
    "# in a topic": lambda v: publish(v, b"#", qos=2),
    "packet identifier 0, QoS 1": lambda v: Packets(v).publish("t", qos=1, packet_id=0),
    "packet identifier 0, QoS 2": lambda v: Packets(v).publish("t", qos=2, packet_id=0),
    "topic past its packet": lambda _: packet(0x30, two(9), b"short"),
    "identifier past its packet": lambda _: packet(0x32, binary("t"), b"\0"),
    "SUBSCRIBE without filter": lambda v: request(v, 0x82, b""),
    "SUBSCRIBE of id 0": lambda v: request(v, 0x82, binary("t") + b"\0", 0),
    "SUBSCRIBE without options": lambda v: request(v, 0x82, binary("t")),
    "SUBSCRIBE of QoS 3": lambda v: request(v, 0x82, binary("t") + b"\3"),
    "SUBSCRIBE with reserved bits": lambda v: request(v, 0x82, binary("t") + b"\x80"),
    "SUBSCRIBE, the second filter broken": lambda v: request(
        v, 0x82, binary("t") + b"\0" + binary("a#") + b"\0"
    ),
    "filter of nothing": lambda v: request(v, 0x82, binary("") + b"\0"),
    "filter with # not last": lambda v: request(v, 0x82, binary("#/a") + b"\0"),
    "filter with # in a level": lambda v: request(v, 0x82, binary("a#") + b"\0"),
    "filter with + in a level": lambda v: request(v, 0x82, binary("a+/b") + b"\0"),
    "filter of surrogates": lambda v: request(v, 0x82, binary(b"\xed\xb0\x80") + b"\0"),
    "null in a filter": lambda v: request(v, 0x82, binary("a\0") + b"\0"),
    "UNSUBSCRIBE without filter": lambda v: request(v, 0xA2, b""),
    "UNSUBSCRIBE of id 0": lambda v: request(v, 0xA2, binary("t"), 0),
    "UNSUBSCRIBE of ill-formed text": lambda v: request(v, 0xA2, binary(b"\xff")),
    "UNSUBSCRIBE with bytes left over": lambda v: request(v, 0xA2, binary("t") + b"\0"),
    "PUBACK of id 0": lambda _: b"\x40\2\0\0",
    "PUBREC of id 0": lambda _: b"\x50\2\0\0",
    "PUBREL of id 0": lambda _: b"\x62\2\0\0",
    "PUBCOMP of id 0": lambda _: b"\x70\2\0\0",
    "PUBACK of one byte": lambda _: b"\x40\1\0",
    "PUBACK with bytes left over": lambda _: b"\x40\5\0\1\0\0\0",
    "DISCONNECT with bytes left over": lambda _: b"\xe0\3\0\0\0",
}

BROKEN_OF_5: dict[str, bytes] = {
    "property length past its packet": packet(0x30, binary("t"), b"\5", b"\1\1"),
    "property length in two bytes": packet(0x30, binary("t"), b"\x80\0"),
    "property length of five bytes": packet(0x30, binary("t"), b"\x80\x80\x80\x80\1"),
    "no property length": packet(0x30, binary("t")),
    "unknown property": publish(V5, b"t", b"\x04\0"),
    "property identifier in two bytes": publish(V5, b"t", b"\x81\0\1"),
    "property without its value": publish(V5, b"t", b"\2\0\0"),
    "topic alias 0": publish(V5, b"t", b"\x23\0\0"),
    "topic alias over the maximum": publish(V5, b"t", b"\x23\xff\xff"),
    "topic alias that was never set": publish(V5, b"", b"\x23\0\1"),
    "payload format 2": publish(V5, b"t", b"\1\2"),
    "subscription identifier from a client": publish(V5, b"t", b"\x0b\1"),
    "wildcard in a response topic": publish(V5, b"t", b"\x08" + binary("a/+")),
    "empty response topic": publish(V5, b"t", b"\x08" + binary("")),
    "ill-formed content type": publish(V5, b"t", b"\3" + binary(b"\xc0\x80")),
    "null in a user property": publish(V5, b"t", b"\x26" + binary("k") + binary("\0")),
    "half a user property": publish(V5, b"t", b"\x26" + binary("k")),
    "subscription identifier 0": packet(0x82, two(1), b"\2\x0b\0", binary("t"), b"\0"),
    "identifier in more bytes": packet(0x82, two(1), b"\3\x0b\x81\0", binary("t"), b"\0"),
    "identifier of five bytes": packet(
        0x82, two(1), b"\6\x0b\xff\xff\xff\xff\1", binary("t"), b"\0"
    ),
    "retain handling 3": request(V5, 0x82, binary("t") + b"\x30"),
    "no local, shared": request(V5, 0x82, binary("$share/g/t") + b"\4"),
    "share name of nothing": request(V5, 0x82, binary("$share//t") + b"\0"),
    "share name with a wildcard": request(V5, 0x82, binary("$share/+/t") + b"\0"),
    "shared without a filter": request(V5, 0x82, binary("$share/g") + b"\0"),
    "PUBACK with a reason of SUBACK": b"\x40\3\0\1\1",
    "PUBREC with a reason of PUBREL": b"\x50\3\0\1\x92",
    "PUBREL with a reason of PUBACK": b"\x62\3\0\1\x10",
    "PUBCOMP with an unknown reason": b"\x70\3\0\1\xff",
    "DISCONNECT with a reason of a server": b"\xe0\1\x8e",
    "DISCONNECT with a reason of CONNACK": b"\xe0\1\x84",
    "DISCONNECT that sets an expiry anew": b"\xe0\7\0\5\x11\0\0\0\1",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_packet_ends_its_connection_alone(bench: Bench, name: str) -> None:
    assert bench.outcome(BROKEN[name](bench.level)) in REASONS[bench.level]


@pytest.mark.parametrize("name", BROKEN_OF_5)
def test_a_broken_packet_of_5_0_ends_its_connection_alone(bench: Bench, name: str) -> None:
    if bench.level == V5:
        assert bench.outcome(BROKEN_OF_5[name]) in REASONS[V5]
    else:  # the same bytes may mean something in 3.1.1
        bench.outcome(BROKEN_OF_5[name])


FINE: dict[str, Make] = {
    "PUBACK of an unknown message": lambda _: b"\x40\2\0\x63",
    "PUBREC of an unknown message": lambda _: b"\x50\2\0\x63",
    "PUBREL of an unknown message": lambda _: b"\x62\2\0\x63",
    "PUBCOMP of an unknown message": lambda _: b"\x70\2\0\x63",
    "UNSUBSCRIBE of what was not subscribed to": lambda v: Packets(v).unsubscribe(1, "none"),
    "DUP with QoS 1": lambda v: Packets(v).publish("t", qos=1, packet_id=1, dup=True),
    "a topic of one slash": lambda v: Packets(v).publish("/"),
    "a topic with a byte order mark": lambda v: Packets(v).publish("\ufeff"),
    "a topic with a noncharacter": lambda v: Packets(v).publish("a\U0010fffd\ufdd0"),
    "an empty payload": lambda v: Packets(v).publish("t", b"", qos=2, packet_id=2),
    "two filters alike": lambda v: Packets(v).subscribe(1, "t", "t"),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_odd_but_allowed_is_taken(bench: Bench, name: str) -> None:
    assert bench.outcome(FINE[name](bench.level)) == ALIVE


# -- cut at every length ---------------------------------------------------------------------------


def samples(level: int) -> dict[str, tuple[bytes, set[int]]]:
    """A packet of each type, and the lengths of its body at which it is whole."""
    mqtt, v5 = Packets(level), level == V5
    rich = [
        (Property.PAYLOAD_FORMAT_INDICATOR, 1),
        (Property.MESSAGE_EXPIRY_INTERVAL, 9),
        (Property.USER_PROPERTY, ("k", "v")),
    ]
    expiry = [(Property.REASON_STRING, "r")]
    published = mqtt.publish("topic", b"payload", qos=1, packet_id=7, props=rich)
    payload_at = len(published) - 2 - len(b"payload")
    acknowledged = packet(0x40, two(7), b"\0\4\x1f\0\1r" if v5 else b"")
    return {
        "PUBLISH": (published, set(range(payload_at, len(published) - 1))),
        "PUBACK": (acknowledged, {2, 3, 8} if v5 else {2}),
        "PUBREL": (b"\x62" + acknowledged[1:], {2, 3, 8} if v5 else {2}),
        "SUBSCRIBE": (
            mqtt.subscribe(7, ("one", 1), ("two", 2)),
            {2 + v5 + 6, 2 + v5 + 12},
        ),
        "UNSUBSCRIBE": (mqtt.unsubscribe(7, "one", "two"), {2 + v5 + 5, 2 + v5 + 10}),
        "DISCONNECT": (mqtt.disconnect(4, expiry) if v5 else b"\xe0\0", {0, 1, 6} if v5 else {0}),
    }


@pytest.mark.parametrize("kind", samples(V5))
def test_a_packet_is_refused_at_every_length_at_which_it_is_not_whole(
    bench: Bench, kind: str
) -> None:
    data, whole = samples(bench.level)[kind]
    body = data[2:]
    for length in range(len(body) + 1):
        outcome = bench.outcome(packet(data[0], body[:length]))
        if length not in whole:
            assert outcome in REASONS[bench.level], length
        elif kind == "DISCONNECT":
            assert outcome == ENDED, length
        else:
            assert outcome == ALIVE, length


VERSION_AT = 7
"""The number of bytes that protocol name and version take in the body of a CONNECT."""


def test_a_connect_is_refused_at_every_length_at_which_it_is_not_whole(bench: Bench) -> None:
    data = bench.mqtt.connect(
        bench.broker.client_id(),
        will=Will("t", b"gone", props=[(Property.WILL_DELAY_INTERVAL, 1)]),
        username="user",
        password=b"password",
        props=[(Property.RECEIVE_MAXIMUM, 5), (Property.USER_PROPERTY, ("k", "v"))],
    )
    body = data[2:]
    for length in range(len(body)):
        outcome = bench.outcome(packet(0x10, body[:length]), dialled=True)
        refused = BEFORE_THE_VERSION if length < VERSION_AT else REASONS[bench.level]
        assert outcome in refused, length
    assert bench.outcome(data, dialled=True) == ALIVE


def test_a_stream_may_end_anywhere(bench: Bench) -> None:
    stream = bench.mqtt.connect(bench.broker.client_id()) + bench.mqtt.publish(
        "t", b"x" * 130, qos=2, packet_id=1
    )
    for length in range(len(stream)):
        client = bench.dial()
        client.send(stream[:length])
        client.close()
    bench.serve()


# -- every first byte, every connect flag, every property ------------------------------------------


def test_every_first_byte_with_an_empty_body(bench: Bench) -> None:
    for first in range(256):
        outcome = bench.outcome(bytes((first, 0)))
        if first == 0xC0:
            assert outcome == ALIVE
        elif first == 0xE0:
            assert outcome == ENDED
        else:
            assert outcome in REASONS[bench.level], hex(first)


def test_every_first_byte_with_a_packet_identifier(bench: Bench) -> None:
    allowed = {0x40, 0x50, 0x62, 0x70}
    for first in range(256):
        outcome = bench.outcome(bytes((first, 2, 0, 1)))
        assert outcome == ALIVE if first in allowed else outcome in REASONS[bench.level], hex(first)


def test_every_first_byte_before_connect(bench: Bench) -> None:
    for first in range(256):
        assert bench.outcome(bytes((first, 2, 0, 1)), dialled=True) == ENDED, hex(first)


def test_every_combination_of_connect_flags(bench: Bench) -> None:
    for flags in range(256):
        will = bool(flags & 4)
        wrong = (
            flags & 1
            or (flags >> 3 & 3) == 3
            or (not will and flags & 0x38)
            or (bench.level == V311 and flags & 0x40 and not flags & 0x80)
        )
        fields = [binary(bench.broker.client_id())]
        if will:
            fields += [bench.mqtt.properties(()), binary("t"), binary("gone")]
        fields += [binary(text) for bit, text in ((0x80, "user"), (0x40, "pass")) if flags & bit]
        data = bench.mqtt.connect(flags=flags, payload=b"".join(fields))
        outcome = bench.outcome(data, dialled=True)
        if wrong:
            assert outcome in REASONS[bench.level], hex(flags)
        else:
            assert outcome == ALIVE, hex(flags)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *(("MQTT", level) for level in (0, 1, 2, 3, 6, 0x7F)),
        *((name, 4) for name in ("", "MQT", "MQTTT", "mqtt", "hj", "MQIsdp", b"\xff\xff\xff\xff")),
        ("MQIsdp", 3),
    ],
)
def test_another_protocol_is_refused(bench: Bench, name: str, level: int) -> None:
    outcome = bench.outcome(bench.mqtt.connect("c", name=name, level=level), dialled=True)
    assert outcome in BEFORE_THE_VERSION


CLIENTS_PROPERTIES: dict[str, set[int]] = {
    "CONNECT": {0x11, 0x15, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27},
    "will": {0x01, 0x02, 0x03, 0x08, 0x09, 0x18, 0x26},
    "PUBLISH": {0x01, 0x02, 0x03, 0x08, 0x09, 0x23, 0x26},
    "PUBACK": {0x1F, 0x26},
    "PUBREC": {0x1F, 0x26},
    "PUBREL": {0x1F, 0x26},
    "PUBCOMP": {0x1F, 0x26},
    "SUBSCRIBE": {0x0B, 0x26},
    "UNSUBSCRIBE": {0x26},
}
"""The properties that a client may send, by their place (table 2-4)."""
VALUES: dict[int, Any] = {
    **dict.fromkeys(Property, 1),
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), "text"),
    **dict.fromkeys((0x09, 0x16), b"data"),
    0x26: ("k", "v"),
    0x27: 1_000,  # with 1 the client could be answered nothing
}


def carrying(mqtt: Packets, place: str, client_id: str, *props: tuple[int, Any]) -> bytes:
    """A packet of this type with these properties."""
    field = mqtt.properties(props)
    match place:
        case "CONNECT":
            return mqtt.connect(client_id, props=props)
        case "will":
            return mqtt.connect(client_id, will=Will("t", props=props))
        case "PUBLISH":
            return mqtt.publish("t", props=props)
        case "SUBSCRIBE":
            return mqtt.subscribe(1, "t", props=props)
        case "UNSUBSCRIBE":
            return mqtt.unsubscribe(1, "t", props=props)
    first = Kind[place] << 4 | (2 if place == "PUBREL" else 0)
    return packet(first, two(9), b"\0", field)


@pytest.mark.parametrize("place", CLIENTS_PROPERTIES)
def test_a_property_is_taken_just_where_it_may_stand_and_once(
    broker_address: Address, place: str
) -> None:
    bench = Bench(broker_address, V5)
    dialled = place in {"CONNECT", "will"}
    for identifier in Property:
        one = (identifier, VALUES[identifier])
        for props in ((one,), (one, one)):
            data = carrying(bench.mqtt, place, bench.broker.client_id(), *props)
            outcome = bench.outcome(data, dialled=dialled)
            allowed = identifier in CLIENTS_PROPERTIES[place] and (
                len(props) == 1 or identifier == Property.USER_PROPERTY
            )
            if identifier == Property.AUTHENTICATION_METHOD and allowed:
                assert outcome == 0x8C  # no method is supported
            else:
                shown = f"{identifier.name} {len(props)} times"
                assert outcome == ALIVE if allowed else outcome in REASONS[V5], shown
    bench.broker.close()


OUT_OF_RANGE = [
    ("CONNECT", Property.REQUEST_PROBLEM_INFORMATION, 2),
    ("CONNECT", Property.REQUEST_RESPONSE_INFORMATION, 2),
    ("CONNECT", Property.RECEIVE_MAXIMUM, 0),
    ("CONNECT", Property.MAXIMUM_PACKET_SIZE, 0),
    ("CONNECT", Property.AUTHENTICATION_DATA, b"without a method"),
    ("will", Property.PAYLOAD_FORMAT_INDICATOR, 2),
    ("will", Property.RESPONSE_TOPIC, "a/#"),
    ("PUBLISH", Property.PAYLOAD_FORMAT_INDICATOR, 255),
    ("PUBLISH", Property.RESPONSE_TOPIC, "+"),
    ("PUBLISH", Property.TOPIC_ALIAS, 0),
    ("SUBSCRIBE", Property.SUBSCRIPTION_IDENTIFIER, 0),
]


@pytest.mark.parametrize(("place", "identifier", "value"), OUT_OF_RANGE)
def test_a_property_whose_value_is_out_of_range_is_refused(
    broker_address: Address, place: str, identifier: int, value: Any
) -> None:
    bench = Bench(broker_address, V5)
    data = carrying(bench.mqtt, place, bench.broker.client_id(), (identifier, value))
    assert bench.outcome(data, dialled=place in {"CONNECT", "will"}) in REASONS[V5]
    bench.broker.close()


# -- what 3.1.1 leaves open ------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_length_of_more_bytes_than_needed_is_taken_in_3_1_1_and_not_passed_on(
    broker_address: Address, qos: int
) -> None:
    broker = Broker(broker_address, V311)
    topic = broker.topic()
    subscriber, client = broker.subscriber((topic, qos)), broker.connect()
    data = Packets(V311).publish(topic, b"x", qos=qos, packet_id=5 if qos else None)
    for header in (bytes((data[1] | 0x80, 0)), bytes((data[1] | 0x80, 0x80, 0))):
        client.send(data[:1] + header + data[2:])
        if qos:
            client.expect(Kind.PUBACK if qos == 1 else Kind.PUBREC, 5)
        if qos == 2:
            client.send(Packets(V311).acknowledge(Kind.PUBREL, 5))
            client.expect(Kind.PUBCOMP, 5)
        first, length = subscriber.socket.recv(2, socket.MSG_WAITALL)
        body = subscriber.socket.recv(length, socket.MSG_WAITALL)
        assert parse(first, body, V311).payload == b"x"
    broker.close()
