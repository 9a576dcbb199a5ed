"""The promises to publishers beside what subscribers got: lost, doubled, out of order, and when.

A stream is what one publisher sends on one topic, numbered from 1. Numbers are kept as ranges, so
an hour's run takes no more memory than a minute's.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field

from tree_handler.intervals import Intervals

_HEAD = struct.Struct(">HId")
MIN_PAYLOAD_BYTES = _HEAD.size
_MAX_EXAMPLES = 20


def payload(stream: int, number: int, sent_s: float, size: int) -> bytes:
    """Return the payload of a message: its stream, its number and the time of sending it."""
    return _HEAD.pack(stream, number, sent_s).ljust(size, b"\0")


@dataclass(slots=True)
class Stream:
    """One publisher's messages on one topic.

    Attributes:
        publisher: a client identifier.
        host: of the gateway that it publishes to.
        sent: the last number.
        acknowledged: the numbers of those that were.
        connections: the first number of each connection: after a restart of its gateway that is
            the first of another boot epoch.

    """

    number: int
    publisher: str
    host: int
    topic: str
    qos: int
    sent: int = 0
    acknowledged: Intervals = field(default_factory=Intervals)
    connections: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Received:
    """The messages of one stream that one subscriber has.

    Attributes:
        arrivals: (arrived, number, sent) of each first coming while `Count.keeps_arrivals`.
        redelivered: came again flagged as such, at QoS 1, which that allows.
        disordered: came after a later one of the same connection of its publisher.
        overtaken: came after a later one that its publisher sent when its gateway had restarted.

    """

    have: Intervals = field(default_factory=Intervals)
    last: int = 0
    doubled: int = 0
    disordered: int = 0
    overtaken: int = 0
    redelivered: int = 0
    arrivals: list[tuple[float, int, float]] = field(default_factory=list)


class Count:
    """All notes of one run."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.received: defaultdict[str, dict[int, Received]] = defaultdict(dict)
        """By subscriber and stream."""
        self.keeps_arrivals = True
        self.lost_sessions: list[str] = []
        """Clients whose session was gone when they came back."""
        self.examples: list[str] = []
        """The first few faults, with their time."""

    def stream(self, publisher: str, host: int, topic: str, qos: int) -> Stream:
        """Begin a stream."""
        stream = Stream(len(self.streams), publisher, host, topic, qos)
        self.streams.append(stream)
        return stream

    def arrived(
        self, subscriber: str, body: bytes | memoryview, now: float, *, again: bool
    ) -> Received:
        """Note an arrival; ``again`` if it came flagged as a duplicate at QoS 1."""
        number_of, number, sent_s = _HEAD.unpack_from(body)
        streams = self.received[subscriber]
        received = streams.get(number_of)
        if received is None:
            received = streams[number_of] = Received()
        if not received.have.add(number, number):
            if again:
                received.redelivered += 1
            else:
                received.doubled += 1
                self._example(f"{now:.3f} {subscriber} got {number_of}/{number} twice")
            return received
        if number < received.last:
            connections = self.streams[number_of].connections
            if any(number < first <= received.last for first in connections):
                received.overtaken += 1
            else:
                received.disordered += 1
            self._example(f"{now:.3f} {subscriber} got {number_of}/{number} after {received.last}")
        received.last = max(received.last, number)
        if self.keeps_arrivals:
            received.arrivals.append((now, number, sent_s))
        return received

    def _example(self, line: str) -> None:
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(line)

    # -- judgement -------------------------------------------------------------------------------

    def missing(self, subscriber: str, stream: Stream) -> list[tuple[int, int]]:
        """Return ranges of acknowledged numbers that a subscriber lacks."""
        received = self.received[subscriber].get(stream.number)
        if received is None:
            return list(stream.acknowledged)
        return list(stream.acknowledged.without(received.have))

    def lost(self, subscriber: str) -> int:
        """Return the number of acknowledged messages, of all streams, that a subscriber lacks."""
        return sum(
            last - first + 1
            for stream in self.streams
            for first, last in self.missing(subscriber, stream)
        )

    @property
    def acknowledged(self) -> int:
        """Messages that publishers had an acknowledgement for."""
        return sum(stream.acknowledged.count() for stream in self.streams)

    @property
    def delivered(self) -> int:
        """Messages that subscribers have, each once for each of them."""
        return sum(
            received.have.count()
            for streams in self.received.values()
            for received in streams.values()
        )

    def total(self, what: str) -> int:
        """Return the sum of ``doubled``, ``disordered``, ``overtaken`` or ``redelivered`` over
        all."""
        return sum(
            getattr(received, what)
            for streams in self.received.values()
            for received in streams.values()
        )

    def describe_lost(self, subscribers: list[str]) -> list[str]:
        """Return a line for each stream that somebody lacks something of."""
        return [
            f"{subscriber} lacks {ranges[:5]} of stream {stream.number} ({stream.topic}, QoS "
            f"{stream.qos}, {stream.publisher}; {stream.sent} sent)"
            for subscriber in subscribers
            for stream in self.streams
            if (ranges := self.missing(subscriber, stream))
        ]
