"""A message that may expire says when its origin accepted it, to who knows what that is."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Row
from tree_handler.entry import MAX_CLOCK_US, accepted_at, accepted_us
from tree_handler.holders import holders_of, with_holders
from tree_handler.retained.message import VERSION
from tree_handler.retained.proof import RetainedProofs
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

EXPIRY = 2
ROW: Row = ("a/b", 1, b"x", {EXPIRY: 60})


def arrived(*rows: Row) -> list[Row]:
    """Messages as they come from another gateway."""
    frame, header = batch.make("gw", 1, 1, rows, flags=Flags.LOGGED, origin_time_us=0)
    return batch.rows(frame, header)


@given(st.integers(1, MAX_CLOCK_US))
def test_a_stamp_arrives_as_it_was_made(stamp_us: int) -> None:
    (row,) = arrived(accepted_at(ROW, stamp_us))
    entry = Entry.of(row)
    assert accepted_us(row) == entry.accepted_us == stamp_us
    assert entry.row() == row
    assert (entry.properties, entry.proof) == ({EXPIRY: 60}, b"")


def test_without_a_clock_a_message_is_as_it_was() -> None:
    assert accepted_at(ROW, 0) == ROW
    assert Entry.of(ROW).accepted_us == 0
    assert Entry.of(ROW).row() == ROW


def test_a_release_of_before_reads_a_stamped_message_as_it_did() -> None:
    (found,) = arrived(accepted_at(ROW, 7))
    # By place, and nothing behind the proof was looked at.
    assert found[:4] == ROW
    assert found[4] == b""
    assert len(found) == 6


def test_a_retained_message_is_stamped_beside_its_proof() -> None:
    proofs = RetainedProofs(ModelSigner("gw"), ModelRing(), "tree")
    row: Row = ("a/b", 1 | 4, b"x", {EXPIRY: 60, VERSION: (5, 0)})
    (proven,) = proofs.prove_rows([accepted_at(row, 7)], ("gw", 1), 1)
    assert proven[4]
    assert accepted_us(proven) == 7
    assert accepted_at(proven, 9)[:5] == proven[:5]


@pytest.mark.parametrize("stamp", [None, "7", 7.0, True, b"7", (7,), -1, MAX_CLOCK_US + 1])
def test_what_is_no_stamp_costs_nothing(stamp: Any) -> None:
    (row,) = arrived((*ROW, b"", stamp))
    assert accepted_us(row) == 0
    assert Entry.of(row).payload == b"x"
    msgpack.packb(Entry.of(row).row())


def test_another_stamp_leaves_whose_members_get_a_message() -> None:
    named = with_holders(accepted_at(ROW, 7), (("share", "t", "gw-b"),))
    assert holders_of(accepted_at(named, 9)) == (("share", "t", "gw-b"),)
