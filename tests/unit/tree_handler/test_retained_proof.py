"""A retained message proves its origin by itself, whoever hands it over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from counting_ring import CountingRing
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Row
from tree_handler.proof import Verdict
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import EXPIRY, VERSION, Retained
from tree_handler.retained.proof import (
    GROUP,
    MAX_PROOF_BYTES,
    OWN,
    RetainedProofs,
    Signed,
    expired_proof,
)
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

STREAM = ("gw-a", 7)
USER_PROPERTY = 38


def proofs(gateway_id: str = "gw-a") -> RetainedProofs:
    return RetainedProofs(ModelSigner(gateway_id), ModelRing(), "t")


READER = RetainedProofs(None, ModelRing(), "t")
properties = st.fixed_dictionaries(
    {},
    optional={
        EXPIRY: st.integers(1, 1_000),
        3: st.text(max_size=5),
        USER_PROPERTY: st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3),
    },
)
messages = st.lists(
    st.tuples(
        st.text("ab/", min_size=1, max_size=5),
        st.integers(0, 2),
        st.booleans(),
        st.binary(max_size=10),
        properties,
    ),
    min_size=1,
    max_size=3 * GROUP,
)


def rows_of(drawn: list[tuple[str, int, bool, bytes, dict[int, Any]]]) -> list[Row]:
    rows: list[Row] = []
    for number, (topic, qos, retain, payload, some) in enumerate(drawn):
        stamp = {VERSION: (1_000 + number, number)} if retain else {}
        rows.append(Entry(topic, payload, qos, retain, {**some, **stamp}).row())
    return rows


def told_of(entry: Entry, number: int) -> Retained:
    """Return the form in which a gateway tells of a message that a batch brought."""
    us, logical = entry.properties[VERSION]
    version = RetainedVersion(us, logical, *STREAM)
    shown = {i: value for i, value in entry.properties.items() if i != VERSION}
    dead_s = None if entry.payload else 1.0
    shown = shown if entry.payload else {}
    where = entry.topic, version, number, entry.qos
    return Retained(*where, entry.payload, shown, None, dead_s, entry.proof)


def had_of(told: Retained) -> Signed:
    return told.number, told.qos or 0, told.payload, told.properties


def arrived(rows: list[Row]) -> list[tuple[int, Entry]]:
    """Return the numbered messages of a batch that the origin made of these rows."""
    proven = proofs().prove_rows(rows, STREAM, 5)
    frame = batch.make(*STREAM, 5, proven, flags=Flags.LOGGED, origin_time_us=1)[0]
    return list(enumerate(batch.decode(frame, batch.check(frame)), 5))


@given(messages)
def test_each_retained_message_of_a_batch_proves_itself(
    drawn: list[tuple[str, int, bool, bytes, dict[int, Any]]],
) -> None:
    rows = rows_of(drawn)
    for (number, entry), row in zip(arrived(rows), rows, strict=True):
        assert bool(entry.proof) == entry.retain
        assert entry.row()[:3] == row[:3]
        if entry.retain:
            assert len(entry.proof) <= MAX_PROOF_BYTES
            told = Retained.of(
                msgpack.unpackb(
                    msgpack.packb(told_of(entry, number).proven_row()),
                    use_list=False,
                    strict_map_key=False,
                )
            )
            assert READER.check(told) is Verdict.PROVEN


@given(messages, st.data())
def test_nothing_of_it_can_be_another(
    drawn: list[tuple[str, int, bool, bytes, dict[int, Any]]], data: st.DataObject
) -> None:
    rows = rows_of([(topic, qos, True, *rest) for topic, qos, _, *rest in drawn])  # type: ignore[misc]  # the rest is two
    number, entry = data.draw(st.sampled_from(arrived(rows)))
    told = told_of(entry, number)
    version, shown = told.version, told.properties
    bent = bytearray(told.proof)
    bent[data.draw(st.integers(0, len(bent) - 1))] ^= data.draw(st.integers(1, 255))
    for other in (
        replace(told, topic=told.topic + "/b"),
        replace(told, version=version._replace(physical_us=version.physical_us + 1)),
        replace(told, version=version._replace(logical=version.logical + 1)),
        replace(told, version=version._replace(origin="gw-b")),
        replace(told, version=version._replace(epoch=8)),
        replace(told, number=told.number + 1),
        replace(told, qos=((told.qos or 0) + 1) % 3),
        replace(told, payload=told.payload + b"!"),
        replace(told, qos=None, payload=b"", properties={}, dead_s=1.0),
        replace(told, proof=b""),
        replace(told, proof=OWN),
        *([replace(told, properties={**shown, 8: "answer"})] if told.payload else []),
        *([replace(told, payload=b"", properties={}, dead_s=0.0)] if told.payload else []),
        replace(told, properties={**shown, EXPIRY: shown.get(EXPIRY, 0) + 1})
        if told.payload
        else replace(told, payload=b"x", dead_s=None),
    ):
        assert READER.check(other) is not Verdict.PROVEN, other
    changed = replace(told, proof=bytes(bent))
    if READER.check(changed) is Verdict.PROVEN:  # msgpack may write the same in another way
        assert msgpack.unpackb(changed.proof)[:3] == msgpack.unpackb(told.proof)[:3]


def test_a_proof_that_says_a_side_of_nothing_is_none() -> None:
    """A proof has one form: a bit that nobody reads would make another one of it."""
    ((number, entry),) = arrived(rows_of([("a", 1, True, b"x", {})]))
    told = told_of(entry, number)
    signature, sides, path, *rest = msgpack.unpackb(told.proof)
    assert (sides, path) == (0, b"")
    other = replace(told, proof=msgpack.packb((signature, 1, path, *rest)))
    assert READER.check(other) is Verdict.FORGED


@pytest.mark.parametrize("had", [("1", 1, b"x"), (1, True, b"x"), (1, 1, "x")])
def test_a_proof_of_what_expired_that_is_of_other_types_is_none(had: tuple[Any, ...]) -> None:
    ((number, entry),) = arrived(rows_of([("a", 1, True, b"x", {})]))
    told = told_of(entry, number)
    expired = replace(told, qos=None, payload=b"", properties={}, dead_s=0.0)
    other = replace(expired, proof=msgpack.packb((*msgpack.unpackb(told.proof), *had)))
    assert READER.check(other) is Verdict.FORGED


def test_another_gateway_can_not_sign_for_it() -> None:
    told = Retained("a", RetainedVersion(1, 1, *STREAM), 3, 1, b"x", {})
    (forged,) = proofs("gw-x").prove([told])
    assert READER.check(forged) is Verdict.UNKNOWN
    (own,) = proofs().prove([told])
    assert READER.check(own) is Verdict.PROVEN


def test_a_message_that_waited_is_proven_with_less_to_live_and_not_with_more() -> None:
    told = Retained("a", RetainedVersion(1, 1, *STREAM), 3, 1, b"x", {EXPIRY: 60})
    (told,) = proofs().prove([told])
    for left_s, verdict in ((60, Verdict.PROVEN), (7, Verdict.PROVEN), (61, Verdict.FORGED)):
        assert READER.check(replace(told, properties={EXPIRY: left_s})) is verdict
    assert READER.check(replace(told, properties={})) is Verdict.FORGED


def test_what_has_expired_is_proven_where_it_had_an_expiry_and_nowhere_else() -> None:
    version = RetainedVersion(1, 1, *STREAM)
    gone = Retained("a", version, 0, None, b"", {}, None, 5.0)
    told = Retained("a", version, 3, 1, b"x", {EXPIRY: 60, 3: "text"})
    lasting = Retained("a", version, 3, 1, b"x", {})
    for one, verdict in ((told, Verdict.PROVEN), (lasting, Verdict.FORGED)):
        (proven,) = proofs().prove([one])
        proof = expired_proof(proven.proof, had_of(proven))
        assert len(proof) <= MAX_PROOF_BYTES
        assert READER.check(replace(gone, proof=proof)) is verdict
        assert READER.check(replace(one, proof=proof)) is Verdict.FORGED
        assert READER.check(replace(gone, number=3, proof=proof)) is Verdict.FORGED
    (own,) = proofs().prove([gone])  # its origin need not have kept what it was
    assert READER.check(own) is Verdict.PROVEN
    assert expired_proof(OWN, had_of(told)) == OWN


def test_under_load_sixteen_messages_are_under_one_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signed: list[bytes] = []
    sign = ModelSigner.sign

    def count(self: ModelSigner, message: bytes) -> bytes:
        signed.append(message)
        return sign(self, message)

    monkeypatch.setattr(ModelSigner, "sign", count)
    rows = rows_of([(f"t/{i}", 1, True, b"x", {}) for i in range(100)])
    proofs().prove_rows(rows, STREAM, 1)
    assert len(signed) == -(-100 // GROUP)
    proofs().prove_rows(rows_of([("t", 1, False, b"x", {})] * 100), STREAM, 1)
    assert len(signed) == -(-100 // GROUP)


def test_a_release_of_before_reads_a_batch_with_proofs_as_it_did() -> None:
    row = rows_of([("a/b", 1, True, b"x", {3: "text"})])
    frame = batch.make(
        *STREAM, 5, proofs().prove_rows(row, STREAM, 5), flags=Flags.LOGGED, origin_time_us=1
    )[0]
    header = batch.check(frame)
    (found,) = msgpack.unpackb(
        frame[header.body_at : header.end], use_list=False, strict_map_key=False
    )
    # As `Entry.of` was: by place, and nothing behind the properties was looked at.
    assert found[:4] == row[0]
    assert len(found) == 5


@given(st.binary(max_size=300))
def test_any_bytes_are_a_proof_or_none(data: bytes) -> None:
    told = Retained("a", RetainedVersion(1, 1, *STREAM), 3, 1, b"x", {}, proof=data)
    assert READER.check(told) is not Verdict.PROVEN
    assert isinstance(expired_proof(data, had_of(told)), bytes)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.binary(max_size=5)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.integers(-3, 50) | st.text(max_size=2) | st.booleans(), values))
def test_properties_of_any_kind_are_looked_at_without_harm(some: dict[Any, Any]) -> None:
    told = Retained("a", RetainedVersion(1, 1, *STREAM), 3, 1, b"x", {EXPIRY: 60})
    (told,) = proofs().prove([told])
    if some != told.properties:
        assert READER.check(replace(told, properties=some)) in {Verdict.FORGED, Verdict.PROVEN}


def test_what_a_gateway_wrote_that_only_receives_is_not_allowed() -> None:
    reader = RetainedProofs(None, CountingRing(), "t")
    for origin, verdict in (("gw-a", Verdict.PROVEN), ("gw-x", Verdict.NOT_ALLOWED)):
        told = Retained("a", RetainedVersion(1, 1, origin, 7), 3, 1, b"x", {})
        (proven,) = proofs(origin).prove([told])
        for _ in range(2):
            assert reader.check(proven) is verdict


def test_a_thousand_signatures_are_not_looked_at_again_and_the_first_goes_first() -> None:
    ring = CountingRing()
    reader = RetainedProofs(None, ring, "t")
    told = [
        proofs().prove([Retained("a", RetainedVersion(1, at, *STREAM), 3, 1, b"x", {})])[0]
        for at in range(1_001)
    ]

    def looks(*some: Retained) -> int:
        before = ring.looks
        assert {reader.check(one) for one in some} == {Verdict.PROVEN}
        return ring.looks - before

    assert looks(*told[:1_000]) == 1_000
    assert looks(*told[:1_000]) == 0
    assert looks(told[1_000]) == 1
    assert looks(*told[1:]) == 0
    assert looks(told[0]) == 1
