"""The queue of a link: hellos and control messages go first, and a full queue drops QoS 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.node.links import send_queue, wire
from gateway.node.links.send_queue import SendQueue
from gateway.node.links.wire import LinkPacket, Type
from tests.held_objects import held_objects
from tree_handler.errors import ProtocolError

BATCH, CONTROL = b"$hedgerow/batch", b"$hedgerow/summary"
TAKES = 64 * 1024


def read(stream: bytes) -> list[LinkPacket]:
    """The packets and whole messages of a stream."""
    reader, assembly, found = wire.LinkReader(wire.MAX_PACKET_BYTES), wire.Assembly(), []
    reader.feed(stream)
    while (packet := reader.next()) is not None:
        whole = assembly.add(packet) if packet.type is Type.PUBLISH else packet
        if whole is not None:
            found.append(whole)
    return found


def emptied(queue: SendQueue) -> bytes:
    out = b""
    while queue.size:
        buffers, size = queue.take(TAKES)
        taken = b"".join(buffers)
        assert len(taken) == size
        out += taken
    assert queue.take(TAKES) == ([], 0)
    return out


def test_a_hello_goes_before_all_batches_and_between_the_pieces_of_one() -> None:
    queue = SendQueue()
    long = bytes(10 * wire.PIECE_BYTES)
    queue.add_batch(BATCH, long)
    queue.add_batch(BATCH, b"next")
    queue.add_hello(wire.ping(1, b"first"))
    begun = b"".join(queue.take(2 * wire.PIECE_BYTES)[0])
    queue.add_hello(wire.ping(2, b"second"))
    rest = emptied(queue)
    assert read(begun)[0].body[4:] == b"first"
    assert read(rest)[0].body[4:] == b"second"
    batches = [packet.body for packet in read(begun + rest) if packet.type is Type.PUBLISH]
    assert batches == [long, b"next"]


def test_a_control_message_comes_between_the_pieces_of_a_batch() -> None:
    queue = SendQueue()
    long, summary = bytes(5 * wire.PIECE_BYTES), b"s" * (3 * wire.PIECE_BYTES + 1)
    queue.add_batch(BATCH, long)
    begun = b"".join(queue.take(1)[0])
    queue.add_control(CONTROL, summary)
    found = read(begun + emptied(queue))
    assert [(packet.topic, packet.body) for packet in found] == [(CONTROL, summary), (BATCH, long)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["packet", "control", "logged", "unlogged", "take"]),
            st.one_of(st.integers(0, 50), st.integers(0, 4 * wire.PIECE_BYTES)),
        ),
        max_size=40,
    )
)
def test_everything_comes_out_whole_and_in_the_order_of_its_kind(
    steps: list[tuple[str, int]],
) -> None:
    queue, stream, put = SendQueue(), b"", {"control": [], "batch": [], "packet": []}
    for number, (what, length) in enumerate(steps):
        body = b"%d." % number + bytes(length)
        if what == "take":
            stream += b"".join(queue.take(length + 1)[0])
        elif what == "packet":
            queue.add_hello(wire.ping(number, b""))
            put["packet"].append(b"%d" % number)
        elif what == "control":
            queue.add_control(CONTROL, body)
            put["control"].append(body)
        else:
            queue.add_batch(BATCH, body, unlogged=what == "unlogged")
            put["batch"].append(body)
    found = read(stream + emptied(queue))
    assert (
        queue.dropped
        == queue.logged_bytes
        == queue.unlogged_bytes
        == queue.control_bytes
        == queue.hello_bytes
        == 0
    )
    assert put == {
        "control": [packet.body for packet in found if packet.topic == CONTROL],
        "batch": [packet.body for packet in found if packet.topic == BATCH],
        "packet": [
            b"%d" % wire.split_ping(packet.body)[0]
            for packet in found
            if packet.type is Type.PINGREQ
        ],
    }


def test_of_too_many_qos_0_batches_the_oldest_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_queue, "UNLOGGED_LIMIT_BYTES", 300)
    queue = SendQueue()
    for number in range(10):
        queue.add_batch(BATCH, b"unlogged %d" % number + bytes(90), unlogged=7)
        queue.add_batch(BATCH, b"logged %d" % number)
    found = [packet.body.rstrip(b"\0") for packet in read(emptied(queue))]
    assert queue.dropped == 7 * 7
    assert [body for body in found if body.startswith(b"un")] == [
        b"unlogged %d" % number for number in (7, 8, 9)
    ]
    assert [body for body in found if body.startswith(b"l")] == [
        b"logged %d" % number for number in range(10)
    ]


def test_of_what_was_dropped_nothing_is_left_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_queue, "UNLOGGED_LIMIT_BYTES", 1_000)
    queue = SendQueue()
    for _ in range(200):
        queue.add_batch(BATCH, bytes(100), 1)
    before = held_objects(queue)
    for _ in range(5_000):
        queue.add_batch(BATCH, bytes(100), 1)
    assert held_objects(queue) <= before + 10
    assert len(read(emptied(queue))) == 10


@pytest.mark.parametrize("is_control", [True, False])
def test_more_messages_wait_for_nobody_who_reads_however_short_they_are(is_control: bool) -> None:
    queue = SendQueue()
    for _ in range(send_queue.ITEMS_LIMIT):
        if is_control:
            queue.add_control(CONTROL, b"")
        else:
            queue.add_batch(BATCH, b"")
    assert not queue.is_over_limit
    queue.add_batch(BATCH, b"")
    assert queue.is_over_limit
    queue.take(TAKES)
    assert not queue.is_over_limit


def test_a_queue_that_is_full_has_room_again_when_a_quarter_is_left() -> None:
    queue = SendQueue()
    while not queue.is_full:
        queue.add_batch(BATCH, bytes(TAKES))
    assert queue.logged_bytes == send_queue.LOGGED_LIMIT_BYTES + TAKES
    while not queue.has_room:
        assert queue.logged_bytes > send_queue.ROOM_BYTES
        queue.take(TAKES)
    assert queue.logged_bytes > 0


def test_pieces_without_end_are_refused() -> None:
    assembly = wire.Assembly()
    piece = LinkPacket(Type.PUBLISH, bytes(1 << 20), wire.PIECE_OF_BATCH)
    with pytest.raises(ProtocolError, match="too large"):
        for _ in range(18):
            assert assembly.add(piece) is None


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\5abcd"])
def test_a_last_piece_without_its_topic_is_refused(body: bytes) -> None:
    last = LinkPacket(Type.PUBLISH, body, wire.PIECE_OF_BATCH + b"/last")
    with pytest.raises(ProtocolError):
        wire.Assembly().add(last)


def test_so_many_bytes_of_qos_0_wait_but_for_one_batch_that_is_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_queue, "UNLOGGED_LIMIT_BYTES", 300)
    queue = SendQueue()
    for _ in range(3):
        queue.add_batch(BATCH, bytes(100), unlogged=1)
    assert (queue.dropped, queue.unlogged_bytes) == (0, 300)
    queue.add_batch(BATCH, b"x", unlogged=1)
    assert (queue.dropped, queue.unlogged_bytes) == (1, 201)
    queue.add_batch(BATCH, bytes(301), unlogged=1)
    assert (queue.dropped, queue.unlogged_bytes) == (4, 301)
    assert [len(packet.body) for packet in read(emptied(queue))] == [301]
