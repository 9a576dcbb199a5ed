"""A packet or payload over the limit is refused wherever it stands, and all before it is served.

A gateway may read packets in more than one way: alone or among others, on a topic that it has met
or a new one, whole or in pieces. The limit must hold in each of them, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateways import Gateway
from raw_client import Broker, Client
from raw_packets import V5, V311, Kind

PACKET_TOO_LARGE = 0x95
PACKET_BYTES, PAYLOAD_BYTES = 600, 300
ANSWERS = {Kind.PUBACK, Kind.PUBREC, Kind.PINGRESP}
BEHIND_TOPIC_BYTES = 20
"""More than the fields of a PUBLISH take besides topic and payload."""
ALONE, KNOWN, LATER, AMONG_OTHERS, IN_PIECES = (
    *("on a new topic", "alone on a known topic", "later in a run"),
    *("among packets of other types", "in pieces"),
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    limits = f"[limits]\npacket_bytes = {PACKET_BYTES}\npayload_bytes = {PAYLOAD_BYTES}\n"
    made = Gateway(tmp_path_factory.mktemp("gateway"), limits)
    yield made
    made.stop()


class Stream:
    """A publisher, and one who gets all that it publishes.

    Args:
        broker: fresh names, and the version that is spoken.
        qos: of everything that is published.
        limit: what is reached, "packet" or "payload".

    """

    def __init__(self, broker: Broker, qos: int, limit: str) -> None:
        self._broker = broker
        self._qos = qos
        self._pings = 0
        self._topic = broker.topic("t")
        self._longest_bytes = PAYLOAD_BYTES
        if limit == "packet":  # which is reached before the payload's limit
            self._topic = self._topic.ljust(PACKET_BYTES - PAYLOAD_BYTES + BEHIND_TOPIC_BYTES, "x")
            others_bytes = len(self.packet(PAYLOAD_BYTES)) - PAYLOAD_BYTES
            self._longest_bytes = PACKET_BYTES - others_bytes
        self._subscriber = broker.subscriber((broker.topic("#"), 0))
        self._publisher: Client = broker.connect()

    @property
    def longest(self) -> bytes:
        """A PUBLISH of exactly the limit."""
        return self.packet(self._longest_bytes)

    @property
    def over(self) -> bytes:
        """A PUBLISH of one byte more."""
        return self.packet(self._longest_bytes + 1, packet_id=99)

    def packet(self, payload_bytes: int, packet_id: int = 1) -> bytes:
        """A PUBLISH of the stream's topic and QoS."""
        return self._broker.packets.publish(
            self._topic,
            bytes(payload_bytes),
            qos=self._qos,
            packet_id=packet_id if self._qos else None,
        )

    def send(self, place: str, last: bytes) -> int:
        """Send a packet where it is to stand; how many of the longest came before it."""
        ping = self._broker.packets.pingreq()
        match place:
            case "alone on a known topic" | "in pieces":
                self._publisher.publish(self._topic, bytes(self._longest_bytes), qos=self._qos)
                self._publisher.ping()
            case "later in a run":
                packets = (self.packet(self._longest_bytes, number) for number in (2, 3, 4))
                self._publisher.send(*packets, last)
                return 3
            case "among packets of other types":
                self._publisher.send(ping, self.packet(self._longest_bytes, 2), ping, last)
                self._pings = 2
                return 1
            case "on a new topic":
                self._publisher.send(last)
                return 0
        if place == IN_PIECES:
            self._publisher.send(last[:100])
            self._broker.connect().ping()  # meanwhile they were read
            last = last[100:]
        self._publisher.send(last)
        return 1

    def is_refused(self) -> None:
        """The publisher's connection must end, in 5.0 for the size of the packet."""
        if self._broker.packets.level == V5:
            while (received := self._publisher.receive()).kind is not Kind.DISCONNECT:
                assert received.kind in ANSWERS, received
            assert received.reason == PACKET_TOO_LARGE
            self._publisher.expect_end()
        else:
            while self._publisher.socket.recv(1 << 16):
                pass

    def is_taken(self) -> None:
        """All that was sent must have been read, and the publisher is served on."""
        self._publisher.send(self._broker.packets.pingreq())
        pongs = 0
        while pongs <= self._pings:
            received = self._publisher.receive()
            assert received.kind in ANSWERS, received
            pongs += received.kind is Kind.PINGRESP

    def came(self, count: int) -> None:
        """The longest message must have come so many times, and nothing else."""
        # Of QoS 1, so that the log has it behind all that was published before.
        self._broker.connect().publish(self._broker.topic("end"), b"end", qos=1)
        messages = self._subscriber.until(b"end")
        assert [len(message.payload) for message in messages] == [self._longest_bytes] * count


@pytest.fixture(params=[V311, V5], ids=["3.1.1", "5.0"])
def broker(gateway: Gateway, request: pytest.FixtureRequest) -> Broker:
    return gateway.broker(request.param)


@pytest.mark.parametrize("limit", ["packet", "payload"])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("place", [ALONE, KNOWN, LATER, AMONG_OTHERS, IN_PIECES])
def test_one_byte_over_a_limit_ends_the_connection_and_is_delivered_to_nobody(
    broker: Broker, place: str, qos: int, limit: str
) -> None:
    stream = Stream(broker, qos, limit)
    before = stream.send(place, stream.over)
    stream.is_refused()
    stream.came(before)


@pytest.mark.parametrize("limit", ["packet", "payload"])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("place", [ALONE, KNOWN, LATER, AMONG_OTHERS, IN_PIECES])
def test_what_just_fits_a_limit_is_delivered(
    broker: Broker, place: str, qos: int, limit: str
) -> None:
    stream = Stream(broker, qos, limit)
    before = stream.send(place, stream.longest)
    stream.is_taken()
    stream.came(before + 1)
