from __future__ import annotations

import contextlib
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import BpduError
from tree_handler.spanning.bpdu import (
    MAX_BYTES,
    MAX_COST_MS,
    MAX_HOPS,
    MAX_NUMBER,
    UNREACHABLE_MS,
    Bpdu,
    BpduFlags,
    Kind,
)
from tree_handler.spanning.election import MAX_CAPABILITY, MAX_EPOCH, Root

ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
epochs = st.integers(0, MAX_EPOCH)
numbers = st.integers(0, MAX_NUMBER)
capabilities = st.floats(0, MAX_CAPABILITY)
roots = st.builds(Root, ids, epochs, capabilities, st.ip_addresses().map(str))
bpdus = st.builds(
    Bpdu,
    st.sampled_from(Kind),
    numbers,
    ids,
    epochs,
    capabilities,
    roots,
    numbers,
    st.one_of(st.integers(0, MAX_COST_MS), st.just(UNREACHABLE_MS)),
    st.integers(0, MAX_HOPS),
    st.one_of(st.just(""), ids),
    st.integers(0, 255).map(BpduFlags),
    numbers,
)
HELLO = Bpdu(
    Kind.HELLO,
    12,
    "gw-b",
    3,
    2.0,
    Root("gw-a", 7, 4.0, "10.0.0.1"),
    44,
    3,
    1,
    "gw-a",
    BpduFlags.TRANSIT | BpduFlags.AGREEMENT,
)


@given(bpdus)
def test_a_bpdu_is_read_as_it_was_written(bpdu: Bpdu) -> None:
    assert Bpdu.decode(bpdu.encode()) == bpdu


@given(bpdus)
def test_every_bpdu_is_within_the_size_limit_and_fits_a_log_line(bpdu: Bpdu) -> None:
    assert len(bpdu.encode()) <= MAX_BYTES
    assert "\n" not in str(bpdu)


@given(st.binary(max_size=600))
def test_any_bytes_are_a_bpdu_or_a_bpdu_error(data: bytes) -> None:
    with contextlib.suppress(BpduError):
        Bpdu.decode(data)


@given(bpdus, st.data())
def test_a_damaged_bpdu_is_a_bpdu_or_a_bpdu_error(bpdu: Bpdu, data: st.DataObject) -> None:
    body = bytearray(bpdu.encode())
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(BpduError):
        Bpdu.decode(bytes(body[: data.draw(st.integers(0, len(body)))]))


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text()),
    lambda inner: st.lists(inner, max_size=3),
)


@given(st.integers(0, 15), values)
def test_a_wrong_field_is_a_bpdu_or_a_bpdu_error(at: int, value: object) -> None:
    row = msgpack.unpackb(HELLO.encode())
    row[at] = value
    data = msgpack.packb(row, unicode_errors="surrogatepass")
    try:
        assert isinstance(Bpdu.decode(data), Bpdu)
    except BpduError as error:
        assert str(error).startswith("BPDU")


@pytest.mark.parametrize(
    ("at", "value", "named"),
    [
        (0, 2, "version"),
        (1, 0, "kind"),
        (1, 99, "kind"),
        (1, True, "kind"),
        (2, -1, "number"),
        (3, "Gateway", "sender"),
        (3, "gw-b\n", "sender"),
        (4, 2**63, "sender epoch"),
        (5, float("nan"), "capability"),
        (5, -1.0, "capability"),
        (5, 1, "capability"),
        (6, "", "gateway_id"),
        (7, -1, "root epoch"),
        (8, float("inf"), "capability"),
        (9, "localhost", "address"),
        (10, 1.5, "sequence"),
        (11, MAX_COST_MS + 1, "cost_ms"),
        (11, UNREACHABLE_MS + 1, "cost_ms"),
        (12, MAX_HOPS + 1, "hops"),
        (13, "-", "parent"),
        (14, 256, "flags"),
        (15, None, "answers"),
    ],
)
def test_the_error_names_the_field(at: int, value: object, named: str) -> None:
    row = msgpack.unpackb(HELLO.encode())
    row[at] = value
    with pytest.raises(BpduError, match=named):
        Bpdu.decode(msgpack.packb(row))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "not msgpack"),
        (b"\xc1", "not msgpack"),
        (b"\x80", "not an array"),
        (b"\x90", "not an array"),
        (msgpack.packb([1] * 15), "fields"),
        (msgpack.packb([1] * 18), "fields"),
        (HELLO.encode() + b"\x00", "not msgpack"),
        (b"\x00" * (MAX_BYTES + 1), "too large"),
    ],
)
def test_what_is_no_bpdu_at_all_is_refused(data: bytes, named: str) -> None:
    with pytest.raises(BpduError, match=named):
        Bpdu.decode(data)


def test_a_bpdu_reads_well_in_a_log() -> None:
    assert str(HELLO) == (
        "HELLO #12 of gw-b/3 root gw-a/7 sequence 44 cost 3 ms hops 1 parent gw-a TRANSIT|AGREEMENT"
    )


def test_the_seal_of_the_root_travels_with_it() -> None:
    sealed = replace(HELLO, root=replace(HELLO.root, seal=b"signature"))
    assert Bpdu.decode(sealed.encode()).root.seal == b"signature"
    assert Bpdu.decode(sealed.encode()) == HELLO  # the same root, whoever has signed it
    longest = replace(HELLO, root=replace(HELLO.root, seal=bytes(128)))
    assert Bpdu.decode(longest.encode()).root.seal == bytes(128)
    for seal in ("text", bytes(129)):
        row = [*msgpack.unpackb(HELLO.encode()), seal]
        with pytest.raises(BpduError, match="seal"):
            Bpdu.decode(msgpack.packb(row))
