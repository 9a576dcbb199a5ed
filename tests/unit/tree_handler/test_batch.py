from __future__ import annotations

import contextlib
import zlib
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import FRAME, MAX_FRAME_BYTES, Entry, Flags
from tree_handler.entry import accepted_at, accepted_us, row_size
from tree_handler.errors import BatchError

properties: st.SearchStrategy[dict[int, Any]] = st.dictionaries(
    st.integers(1, 127), st.integers(0, 2**32 - 1) | st.binary(max_size=20) | st.text(max_size=9)
)
entries = st.lists(
    st.builds(
        Entry,
        st.text(min_size=1, max_size=30),
        st.binary(max_size=100),
        st.integers(0, 2),
        st.booleans(),
        properties,
    ),
    min_size=1,
    max_size=10,
)
flags = st.sampled_from([Flags.NONE, Flags.LOGGED, Flags.CONTROL, Flags.LOGGED | Flags.CONTROL])
ONE = batch.encode("gw", 3, 7, [Entry("a/b", b"x", 1)], flags=Flags.LOGGED, origin_time_us=5)


@given(entries, flags, st.integers(0, 2**32 - 1), st.integers(1, batch.MAX_NUMBER - 9))
def test_decodes_to_what_was_encoded(
    messages: list[Entry], flag: int, epoch: int, first: int
) -> None:
    frame = batch.encode("gw-north", epoch, first, messages, flags=flag, origin_time_us=99)
    header = batch.check(frame)
    assert (header.origin, header.epoch, header.first) == ("gw-north", epoch, first)
    assert (header.count, header.flags, header.origin_time_us) == (len(messages), flag, 99)
    assert header.end == len(frame)
    name = "$gw-north" if flag & Flags.CONTROL else "gw-north"
    assert header.stream == (name, epoch)
    assert header.last == first + len(messages) - 1
    assert batch.decode(frame, header) == messages
    rows = [message.row() for message in messages]
    made = batch.make("gw-north", epoch, first, rows, flags=flag, origin_time_us=99)
    assert made == (frame, header)


@given(st.integers(0, len(ONE) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(at: int, change: int) -> None:
    damaged = bytearray(ONE)
    damaged[at] ^= change
    with pytest.raises(BatchError):
        batch.check(bytes(damaged))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_batch_error(data: bytes) -> None:
    for candidate in (data, ONE[:12] + data):
        with contextlib.suppress(BatchError):
            batch.decode(candidate, batch.check(candidate))


@given(
    st.binary(max_size=60)
    | st.lists(
        st.lists(st.none() | st.integers(0, 2**32) | st.binary() | st.text(max_size=5), max_size=5)
    ).map(msgpack.packb)
)
def test_a_body_decodes_to_messages_or_raises_batch_error(body: bytes) -> None:
    rest = ONE[12:39] + body
    crc = zlib.crc32(rest, zlib.crc32(b"\x01"))
    frame = batch.FRAME.pack(b"HB", 1, 1, len(rest), crc) + rest
    header = batch.check(frame)
    try:
        (message,) = batch.decode(frame, header)
    except BatchError:
        return
    assert isinstance(message.topic, str)
    assert isinstance(message.payload, bytes)


@given(st.lists(entries, min_size=1, max_size=5), st.integers(0, 60))
def test_a_segment_reads_back_up_to_its_torn_tail(parts: list[list[Entry]], torn: int) -> None:
    whole = [
        batch.encode("gw", 1, i + 1, part, flags=Flags.LOGGED, origin_time_us=0)
        for i, part in enumerate(parts)
    ]
    data = b"".join(whole)
    cut = max(0, len(data) - torn)
    found = list(batch.frames(data[:cut]))
    expected, at = [], 0
    for frame in whole:
        if at + len(frame) <= cut:
            expected.append(at)
        at += len(frame)
    assert [position for position, _ in found] == expected


@given(st.lists(st.integers(0, 120_000), min_size=1, max_size=30))
def test_cutting_keeps_every_message_in_order_and_within_the_limits(sizes: list[int]) -> None:
    messages = [Entry(f"t/{i}", bytes(size)).row() for i, size in enumerate(sizes)]
    parts = list(batch.cut(messages))
    assert [row for part in parts for row in part] == messages
    for part in parts:
        total = sum(len(payload) + len(topic) for topic, _, payload in part)
        assert len(part) == 1 or total <= batch.MAX_BODY_BYTES
    assert max(len(p) for p in batch.cut([("t", 0, b"")] * 2500)) == batch.MAX_ENTRIES


def test_an_origin_that_poses_as_a_control_stream_is_refused() -> None:
    frame = batch.encode("$gw", 1, 1, [Entry("t", b"x", 1)], flags=Flags.LOGGED, origin_time_us=0)
    with pytest.raises(BatchError, match="origin"):
        batch.check(frame)


def test_a_number_that_nobody_could_count_to_is_refused() -> None:
    about = {"flags": Flags.LOGGED, "origin_time_us": 0}
    messages = [Entry("t", b"x", 1)] * 2
    last = batch.encode("gw", 1, batch.MAX_NUMBER - 1, messages, **about)
    assert batch.check(last).last == batch.MAX_NUMBER
    for first in (batch.MAX_NUMBER, 2**63, 2**64 - 1):
        with pytest.raises(BatchError, match=f"batch number: {first + 1}"):
            batch.check(batch.encode("gw", 1, first, messages, **about))


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(BatchError, match="without entries"):
        batch.encode("gw", 1, 1, [], flags=Flags.LOGGED, origin_time_us=0)


def test_a_frame_of_16_mib_is_one_and_a_longer_one_is_not() -> None:
    for more in (0, 1):
        head = FRAME.pack(batch.MAGIC, batch.VERSION, 0, MAX_FRAME_BYTES - FRAME.size + more, 0)
        if more:
            with pytest.raises(BatchError, match=f"too large, bytes: {MAX_FRAME_BYTES + 1}"):
                batch.frame_length(head)
        else:
            assert batch.frame_length(head) == MAX_FRAME_BYTES == 16 << 20
            assert batch.frame_length(b"x" + head, 1) == MAX_FRAME_BYTES
            assert batch.frame_length(head[:-1]) is None
            assert batch.frame_length(head, 1) is None
            assert list(batch.frames(head)) == []


def test_another_version_is_named() -> None:
    with pytest.raises(BatchError, match="version: 9"):
        batch.check(ONE[:2] + b"\x09" + ONE[3:])


def test_messages_of_a_batch_are_counted_before_they_are_read() -> None:
    frame, header = batch.make("a", 1, 1, [("", 0, b"")] * 1_001, flags=1, origin_time_us=0)
    with pytest.raises(BatchError, match="batch entries: 1001"):
        batch.rows(frame, header)
    properties = {38: [("", "")] * 40_000}
    frame, header = batch.make("a", 1, 1, [("", 0, b"", properties)], flags=1, origin_time_us=0)
    with pytest.raises(BatchError, match="batch body"):
        batch.rows(frame, header)


@pytest.mark.parametrize("behind", [(), ({},)], ids=["plain", "with properties"])
@pytest.mark.parametrize(
    ("topic", "delivery", "payload", "why"),
    [
        (b"t", 1, b"", "batch entry"),
        ("t", 3, b"", "batch entry"),
        ("t", 7, b"", "batch entry"),
        ("t", 1.0, b"", "batch entry"),
        ("t", True, b"", "batch entry"),
        ("t", 1, "", "batch entry"),
        ("t", 1, None, "batch entry"),
    ],
)
def test_a_message_with_a_field_of_a_wrong_type_is_refused(
    topic: object, delivery: object, payload: object, why: str, behind: tuple[Any, ...]
) -> None:
    wrong = (topic, delivery, payload, *behind)
    frame, header = batch.make("gw", 1, 1, [("t", 1, b""), wrong], flags=1, origin_time_us=0)
    with pytest.raises(BatchError, match=why):
        batch.rows(frame, header)


def test_a_topic_that_is_no_text_is_refused() -> None:
    frame, header = batch.make("gw", 1, 1, [("topic", 1, b"")], flags=1, origin_time_us=0)
    with pytest.raises(BatchError, match="batch body"):
        batch.rows(frame.replace(b"topic", b"t\xff\xffic"), header)


@pytest.mark.parametrize(
    ("entry", "size"),
    [
        (Entry("topic", b"payload"), 12),
        (Entry("t", b"", properties={1: 5}), 1 + 32),
        (Entry("t", b"", properties={3: "text", 9: b"correlate"}), 1 + 2 * 32 + 4 + 9),
        (Entry("t", b"", properties={38: [("a", "bc"), ("", "d")]}), 1 + 32 + 2 * 32 + 4),
        (Entry("t", b"", properties={11: [1, 2]}), 1 + 32 + 2 * 32),
        (Entry("t", b"", accepted_us=1), 1),
        (Entry("t", b"", holders=(("workers", "jobs/#", "gw-b"),)), 1 + 7 + 6 + 4),
    ],
)
def test_a_message_costs_its_text_and_32_bytes_for_each_property_and_pair(
    entry: Entry, size: int
) -> None:
    assert row_size(entry.row()) == size


@pytest.mark.parametrize(
    ("said", "read"), [(1, 1), (1 << 60, 1 << 60), ((1 << 60) + 1, 0), (0, 0), (-1, 0), ("1", 0)]
)
def test_what_an_origins_clock_read_is_a_number_up_to_2_to_the_60(said: Any, read: int) -> None:
    row = ("t", 5, b"x", {}, b"", said)
    assert accepted_us(row) == read
    assert Entry.of(row) == Entry("t", b"x", 1, True, accepted_us=read)
    assert accepted_us(row[:5]) == 0


def test_a_message_that_may_expire_gets_what_the_clock_reads_and_keeps_the_rest() -> None:
    assert accepted_at(("t", 1, b"x", {2: 60}), 7) == ("t", 1, b"x", {2: 60}, b"", 7)
    assert accepted_at(("t", 1, b"x", {2: 60}, b"proof", 1, ()), 7) == (
        *("t", 1, b"x", {2: 60}),
        *(b"proof", 7, ()),
    )
    assert accepted_at(("t", 1, b"x", {2: 60}), 0) == ("t", 1, b"x", {2: 60})


@pytest.mark.parametrize(
    ("entry", "row"),
    [
        (Entry("t", b"x"), ("t", 0, b"x")),
        (Entry("t", b"x", 2, True), ("t", 6, b"x")),
        (Entry("t", b"x", 1, properties={3: "a"}), ("t", 1, b"x", {3: "a"})),
        (Entry("t", b"x", 1, True, proof=b"p"), ("t", 5, b"x", {}, b"p")),
        (Entry("t", b"x", accepted_us=9), ("t", 0, b"x", {}, b"", 9)),
        (
            Entry("t", b"x", holders=(("g", "#", "gw-b"),)),
            ("t", 0, b"x", {}, b"", 0, (("g", "#", "gw-b"),)),
        ),
    ],
)
def test_a_row_has_what_is_said_and_nothing_behind_it(entry: Entry, row: tuple[Any, ...]) -> None:
    assert entry.row() == row
    assert Entry.of(row) == entry
