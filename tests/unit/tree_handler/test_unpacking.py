"""Goal: what gateways pack for each other is bounded in bytes and elements, and honest ones fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch, batch_body, origin_clocks
from tree_handler.batch import MAX_ARRAY, Entry
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.ranges_wire import MAX_RANGES, MAX_STREAMS
from tree_handler.replication.repair import Request
from tree_handler.retained import sync_wire
from tree_handler.routing import wire
from tree_handler.routing.locator import MAX_BEHIND, ReachUpdate
from tree_handler.sharing.claims import GROUPS_MAX, Claims
from tree_handler.sharing.handed_on import HandedOn
from tree_handler.unpacking import MessageSize, unpack, unpack_head

SIZE = MessageSize(1_000, 50, 20)
NAMES = [f"gateway-of-a-longer-name-{number:04}" for number in range(MAX_BEHIND)]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 1 << 62)
    | st.text(max_size=5)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(values, st.binary(max_size=20))
def test_what_is_small_is_read_as_it_was_packed(value: object, behind: bytes) -> None:
    packed = msgpack.packb(value)
    size = MessageSize(10_000, 1_000, 100)
    assert unpack("message", packed, size) == value
    assert unpack_head("message", packed + behind, size)[1] == len(packed)


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (bytes(1_001), "message too large, bytes over 1000: 1001"),
        (msgpack.packb([[1, 2]] * 17), "message, elements over 50"),
        (msgpack.packb([{1: 2}] * 17), "message, elements over 50"),
        (msgpack.packb([1] * 21), "message: "),
        (b"\x91" * 600 + b"\1", "message, elements over 50"),
        (b"\xdc\0\x14" * 30, "message: "),
        (b"\1\2", "message: "),
        (b"\xc1", "message: "),
        (b"", "message: "),
    ],
)
def test_what_is_over_a_bound_or_no_message_is_refused(packed: bytes, why: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        unpack("message", packed, SIZE, strict_keys=False)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    "data", [b"\xc1" + b"x" * 70, b"\x92\1", b""], ids=["none", "cut", "empty"]
)
def test_a_head_that_is_none_is_refused_with_its_first_64_bytes(data: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        unpack_head("message", data, SIZE)
    assert str(refused.value) == f"message: {data[:64]!r}"


def test_the_largest_messages_that_gateways_send_fit() -> None:
    ranges = [Intervals((n, n) for n in range(1, 2 * MAX_RANGES // MAX_STREAMS, 2))] * MAX_STREAMS
    asked = {(name, 1): one for name, one in zip(NAMES, ranges, strict=False)}
    assert Request.decode(Request(asked).encode()).wanted == asked

    behind = ReachUpdate(True, dict.fromkeys(NAMES, 1 << 30), frozenset(NAMES))
    assert ReachUpdate.decode(behind.encode()).added == behind.added

    told = [(name, 1 << 30, 1 << 50, True) for name in NAMES]
    assert sum(len(origin_clocks.unpack(one)) for one in origin_clocks.pack(told)) == len(NAMES)

    carry = wire.Carry(tuple((name, 1 << 60) for name in NAMES), b"batch", listed=bytes(1 << 20))
    assert wire.decode(carry.encode())[0] == carry

    listed = [(f"a/topic/of/some/levels/{n}", 1 << 50, 1, NAMES[n], 1) for n in range(1_000)]
    ask = (2, list(range(256)), (0, ""), (256, ""), True, listed)
    assert len(sync_wire.ask_of(list(sync_wire.unpack(sync_wire.pack(ask))[1:]))[4]) == 1_000

    groups = {("workers", f"jobs/{n}/#"): 3 for n in range(4 * GROUPS_MAX)}
    claims = Claims("gw", 1, 1, groups=groups)
    assert Claims.decode(claims.encode()) == claims

    pairs = [("name", "value")] * MAX_ARRAY  # an earlier release let clients have so many nearly
    handed = HandedOn(("g", "#"), 1, Entry("t", bytes(1 << 20), 1, properties={38: pairs}))
    assert HandedOn.decode(handed.encode()).entry.payload == handed.entry.payload


@pytest.mark.parametrize(
    "decode",
    [Claims.decode, HandedOn.decode],
    ids=["shared subscriptions", "message handed on"],
)
def test_what_another_gateway_says_of_shared_subscriptions_makes_few_objects(
    decode: Callable[[bytes], object],
) -> None:
    with pytest.raises(ProtocolError, match="elements over"):
        decode(msgpack.packb([[[]] * 1_000] * 1_000))


def test_a_batch_is_cut_by_what_its_messages_say_besides() -> None:
    rows = [("t", 1, b"", {38: (("", ""),) * 512})] * 1_000
    parts = batch.cut(rows)
    assert [row for part in parts for row in part] == rows
    assert max(map(len, parts)) < 20
    most = max(elements(batch.rows(*made(part))) for part in parts)
    assert most < batch_body.MAX_ELEMENTS / 8


@pytest.mark.parametrize(
    "rows",
    [
        [("t", 1, b"", {38: (("", ""),) * 60})] * 1_000,
        [("t", 1, b"", {38: (("", ""),) * (MAX_ARRAY - 1)})],
    ],
    ids=["properties of many", "properties of one"],
)
def test_a_batch_of_a_build_that_did_not_cut_it_so_is_read(rows: list[batch.Row]) -> None:
    assert batch.rows(*made(rows)) == rows


def test_a_batch_of_more_elements_than_an_honest_one_could_have_is_refused() -> None:
    rows = [("t", 1, b"", {38: (("", ""),) * 100})] * 1_000
    assert elements(rows) > batch_body.MAX_ELEMENTS
    with pytest.raises(BatchError, match=f"elements over {batch_body.MAX_ELEMENTS}"):
        batch.rows(*made(rows))


def made(rows: Sequence[batch.Row]) -> tuple[bytes, batch.Header]:
    return batch.make("gw", 1, 1, rows, flags=1, origin_time_us=0)


def elements(value: object) -> int:
    """Return the number of elements of a value, where each list and each map counts as one more."""
    if isinstance(value, dict):
        return 1 + 2 * len(value) + sum(map(elements, value.values()))
    if isinstance(value, list | tuple):
        return 1 + len(value) + sum(map(elements, value))
    return 0
