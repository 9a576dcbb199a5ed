"""Statements between the collectors of a group, as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.collector.ownership import owner_of
from cloud_ingest.collector.spooled import SpoolStatement, signed, unsigned
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20})", fullmatch=True)
NUMBERS = st.integers(0, 2**64 - 1)
RANGES = st.lists(st.tuples(st.integers(1, 2**32), st.integers(0, 2**32)), max_size=5).map(
    lambda rows: Intervals((first, first + more) for first, more in rows)
)
STATEMENTS = st.builds(
    SpoolStatement,
    NAMES,
    NUMBERS,
    NAMES,
    NUMBERS,
    st.tuples(NUMBERS, NUMBERS),
    NUMBERS,
    NUMBERS,
    st.booleans(),
    st.dictionaries(st.tuples(NAMES, NUMBERS), RANGES, max_size=5),
)


@given(STATEMENTS)
def test_what_is_told_is_read(told: SpoolStatement) -> None:
    assert SpoolStatement.decode(told.encode()) == told


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for read in (SpoolStatement.decode, unsigned):
        try:
            read(data)
        except ProtocolError:
            continue


@given(STATEMENTS, st.data())
def test_a_statement_that_was_cut_is_refused(told: SpoolStatement, data: st.DataObject) -> None:
    whole = told.encode()
    with pytest.raises(ProtocolError):
        SpoolStatement.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_signature_goes_beside_it() -> None:
    assert unsigned(signed(b"body", b"signature")) == (b"body", b"signature")
    assert unsigned(signed(b"body", bytes(255))) == (b"body", bytes(255))
    with pytest.raises(ProtocolError):
        unsigned(signed(b"body", bytes(256)))


@given(st.sets(NAMES, min_size=2, max_size=6), st.lists(NAMES, min_size=1, max_size=20))
def test_when_one_goes_only_its_origins_move(members: set[str], origins: list[str]) -> None:
    gone = min(members)
    for origin in origins:
        before = owner_of(origin, members)
        after = owner_of(origin, members - {gone})
        assert before in (after, gone)
