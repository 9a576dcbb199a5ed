"""Queue of one link: what waits to be sent, and what goes first. Sans-I/O.

Hellos go at once, between the pieces of a long message too. All else waits until it may be under
way: control messages first, then batches in the order in which they were queued. The queue is
short: batches that are in the log are queued up to `LOGGED_LIMIT_BYTES`, beyond which the log is
the queue. QoS 0 batches are nowhere else, so beyond `UNLOGGED_LIMIT_BYTES` of them the oldest are
dropped, and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from gateway.node.links import wire
from gateway.node.links.wire import PIECE_BYTES, PIECE_OF_BATCH, PIECE_OF_CONTROL

LOGGED_LIMIT_BYTES: Final = 1 << 20
UNLOGGED_LIMIT_BYTES = 2 << 20
ROOM_BYTES: Final = LOGGED_LIMIT_BYTES // 4
"""A full queue takes batches again when no more than this waits."""
CONTROL_LIMIT_BYTES: Final = 32 << 20
"""More control messages wait only for a neighbour that does not read."""
BATCH_LIMIT_BYTES: Final = 32 << 20
"""Likewise more batches of the log: whoever sends many waits for room between them."""
ITEMS_LIMIT: Final = 100_000
"""Likewise more messages of either kind, however short: each takes some hundred bytes besides."""


class _Batch:
    """A batch that waits, or was dropped meanwhile."""

    __slots__ = ("frame", "is_dropped", "messages", "topic")

    def __init__(self, topic: bytes, frame: bytes, messages: int) -> None:
        self.topic = topic
        self.frame = frame
        self.messages = messages
        self.is_dropped = False


Buffers = list[bytes | memoryview]


class SendQueue:
    """The queue of one link.

    Attributes:
        logged_bytes: batches of the log that wait.
        unlogged_bytes: QoS 0 batches that wait.
        control_bytes: control messages that wait.
        hello_bytes: hellos, echoes and acknowledgements that wait.
        dropped: QoS 0 messages that were dropped.

    """

    def __init__(self) -> None:
        self.logged_bytes = 0
        self.unlogged_bytes = 0
        self.control_bytes = 0
        self.hello_bytes = 0
        self.dropped = 0
        self._hellos: list[bytes] = []
        self._control: deque[bytes] = deque()
        self._batches: deque[_Batch] = deque()
        self._unlogged: deque[_Batch] = deque()
        self._begun: Iterator[tuple[bytes, memoryview]] | None = None
        self._begun_bytes = 0

    def clear(self) -> None:
        """Let go of all that waits: the link has ended."""
        self._hellos.clear()
        self._control.clear()
        self._batches.clear()
        self._unlogged.clear()
        self._begun = None
        self.hello_bytes = self.control_bytes = self.logged_bytes = self.unlogged_bytes = 0
        self._begun_bytes = 0

    def add_hello(self, packet: bytes) -> None:
        """Queue a small packet that goes before all else and does not wait for room."""
        self._hellos.append(packet)
        self.hello_bytes += len(packet)

    def add_control(self, topic: bytes, payload: bytes) -> None:
        """Queue a control message, which goes before all batches."""
        if len(payload) <= PIECE_BYTES:
            packets = [wire.publish(topic, payload)]
        else:
            pieces = wire.pieces(PIECE_OF_CONTROL, topic, payload)
            packets = [head + piece for head, piece in pieces]
        self._control += packets
        self.control_bytes += sum(map(len, packets))

    def add_batch(self, topic: bytes, frame: bytes, unlogged: int = 0) -> None:
        """Queue a batch; ``unlogged`` is the number of its messages, for QoS 0."""
        batch = _Batch(topic, frame, unlogged)
        self._batches.append(batch)
        if not unlogged:
            self.logged_bytes += len(frame)
            return
        self._unlogged.append(batch)
        self.unlogged_bytes += len(frame)
        while self.unlogged_bytes > UNLOGGED_LIMIT_BYTES and len(self._unlogged) > 1:
            oldest = self._unlogged.popleft()
            self.unlogged_bytes -= len(oldest.frame)
            self.dropped += oldest.messages
            oldest.is_dropped = True
            oldest.frame = b""
        while self._batches[0].is_dropped:
            self._batches.popleft()

    @property
    def is_over_limit(self) -> bool:
        """Return whether more waits than does for any neighbour that reads."""
        return (
            self.control_bytes > CONTROL_LIMIT_BYTES
            or self.logged_bytes > BATCH_LIMIT_BYTES
            or len(self._control) + len(self._batches) > ITEMS_LIMIT
        )

    @property
    def is_full(self) -> bool:
        """Return whether batches of the log are to wait there."""
        return self.logged_bytes > LOGGED_LIMIT_BYTES

    @property
    def has_room(self) -> bool:
        """Return whether batches of the log may be queued again."""
        return self.logged_bytes <= ROOM_BYTES

    @property
    def size(self) -> int:
        """Bytes that wait."""
        batches = self.logged_bytes + self.unlogged_bytes + self._begun_bytes
        return self.hello_bytes + self.control_bytes + batches

    def take(self, room_bytes: int) -> tuple[Buffers, int]:
        """Return the next whole packets and their size: hellos, and about as much else as there is
        room.

        Nothing if nothing waits that may be sent.
        """
        out: Buffers = []
        size = 0
        if self._hellos:
            out += self._hellos
            size = self.hello_bytes
            self._hellos.clear()
            self.hello_bytes = 0
        while size < room_bytes:
            if self._control:
                packet = self._control.popleft()
                self.control_bytes -= len(packet)
                out.append(packet)
                size += len(packet)
            elif self._begun is not None:
                size += self._take_piece(self._begun, out)
            elif self._batches:
                size += self._take_batch(self._batches.popleft(), out)
            else:
                break
        return out, size

    def _take_batch(self, batch: _Batch, out: Buffers) -> int:
        frame = batch.frame
        if batch.is_dropped:
            return 0
        length = len(frame)
        if batch.messages:
            self._unlogged.popleft()
            self.unlogged_bytes -= length
        else:
            self.logged_bytes -= length
        if length > PIECE_BYTES:
            self._begun = wire.pieces(PIECE_OF_BATCH, batch.topic, frame)
            self._begun_bytes = length
            return self._take_piece(self._begun, out)
        head = wire.publish_head(batch.topic, length)
        out += (head, frame)
        return len(head) + length

    def _take_piece(self, begun: Iterator[tuple[bytes, memoryview]], out: Buffers) -> int:
        piece = next(begun, None)
        if piece is None:
            self._begun, self._begun_bytes = None, 0
            return 0
        head, payload = piece
        out += piece
        self._begun_bytes -= len(payload)
        return len(head) + len(payload)
