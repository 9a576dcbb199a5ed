"""No bytes of what is signed, or travels beside it, do more than be refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.errors import ProtocolError
from tree_handler.flags import ADDRESS_BYTES
from tree_handler.intervals import Intervals
from tree_handler.proof import Verdict
from tree_handler.replication.repair import SearchResult
from tree_handler.routing import wire
from tree_handler.routing.wire import Ack, Ask, Carry, Claim, Tell, before_in, pack_pairs
from tree_handler.seal import Seals, address_of, is_addressed
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=12,
)
PAIRS = (("gw-b", 3), ("gw-c", 0))


@given(st.binary(max_size=200) | values.map(msgpack.packb))
def test_any_list_of_destinations_is_read_or_is_none(listed: bytes) -> None:
    assert before_in(listed, "gw-z") is None
    assert before_in(pack_pairs(PAIRS), "gw-b") == 3


@given(st.lists(values, max_size=10), st.sampled_from([0, 1, 2, 3, 4]))
def test_any_routed_message_is_read_or_refused(fields: list[Any], kind: int) -> None:
    with suppress(ProtocolError):
        wire.decode(msgpack.packb([kind, 5, *fields]))


@given(st.lists(values, max_size=8))
def test_any_answer_to_a_search_is_read_or_refused(row: list[Any]) -> None:
    with suppress(ProtocolError):
        SearchResult.decode(msgpack.packb(row))
    with suppress(ProtocolError):
        SearchResult.decode(msgpack.packb(["gw-a", 1, 1, [], [], True, row]))


@given(st.binary(max_size=120), st.sampled_from([0, Flags.ADDRESSED]))
def test_a_seal_of_any_bytes_is_no_seal(tail: bytes, address: int) -> None:
    def any_bytes(flags: int, rest: bytes) -> bytes:
        return tail + bytes((len(tail),))

    rows = [Entry("t", b"x", 1).row()]
    frame, header = batch.make(
        "gw-a",
        1,
        1,
        rows,
        flags=Flags.LOGGED,
        origin_time_us=0,
        seal=any_bytes,
        address=bytes(ADDRESS_BYTES) if address else b"",
    )
    assert batch.check(frame) == header
    assert batch.rows(frame, header) == rows
    seals = Seals(ModelSigner("gw-b"), ModelRing(), "t")
    assert seals.check(frame, header) is not Verdict.PROVEN
    assert not is_addressed(frame, header, pack_pairs(PAIRS))


def test_a_batch_is_addressed_to_the_list_that_it_was_sealed_for_and_to_no_other() -> None:
    listed = pack_pairs(PAIRS)
    rows = [Entry("t", b"x", 1).row()]

    def made(address: bytes) -> tuple[bytes, Header]:
        seal = Seals(ModelSigner("gw-a"), ModelRing(), "t").seal
        return batch.make(
            "gw-a", 1, 1, rows, flags=Flags.LOGGED, origin_time_us=0, seal=seal, address=address
        )

    sealed = made(address_of(listed))
    assert is_addressed(*sealed, listed)
    assert not is_addressed(*sealed, pack_pairs(PAIRS[:1]))
    assert not is_addressed(*made(b""), listed)


def test_what_is_signed_comes_over_the_wire_as_it_was() -> None:
    stream, numbers = ("gw-a", 1), Intervals([(1, 3)])
    for word in (
        Claim(stream, 9, (("gw-b", 3, 1),), b"seal"),
        Tell("gw-b", stream, 9, 3, numbers, numbers, 4, b"seal"),
        Ask(stream, "gw-b", numbers, 4, b"seal"),
        Ack(stream, "gw-b", 9, b"seal"),
    ):
        found, hops = wire.decode(word.encode(7))
        assert (found, hops) == (word, 7)
        assert wire.signed_part(word) == wire.signed_part(found)  # type: ignore[arg-type]  # a word
    carry = Carry((PAIRS[0],), b"frame", listed=pack_pairs(PAIRS))
    assert wire.decode(carry.encode()) == (carry, wire.MAX_HOPS)
    assert carry.whole_list() == Carry(PAIRS, b"frame").whole_list()
    assert len(address_of(carry.whole_list())) == ADDRESS_BYTES
