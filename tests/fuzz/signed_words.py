"""Batches and remote requests that gateways have signed, spoilt: what is fuzzed, and seeds.

An input's first byte says which signed word it begins with, the rest are edits: place (two bytes),
what is done there, and a value. Most batches get a right CRC again afterwards, for anybody can make
that. What must hold: no exception but the protocol's own; nothing counts as proven but what was
signed as it is; and what a gateway has asked is executed once, by its target alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tree_handler import batch
from tree_handler.batch import FRAME, Entry, Flags
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.proof import Verdict
from tree_handler.remote.message import opened
from tree_handler.remote.query import Execute, Publication, RemoteQueries
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import RemoteSeals
from tree_handler.seal import Seals
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

TREE = "campus"
_REFRAMED = 16
"""The bit that says that a batch gets its length and CRC again."""
_FLAGS_AT = 3
_RING = ModelRing()
_SEALS = Seals(ModelSigner("gw-a"), _RING, TREE)
_ENTRIES = [Entry("a/b", b"one", 1), Entry("a/c", b"two", 0, True, {1: 1})]


def _batch(flags: int, address: bytes = b"") -> bytes:
    rows = [entry.row() for entry in _ENTRIES]
    frame, _ = batch.make(
        "gw-a",
        3,
        7,
        rows,
        flags=flags,
        origin_time_us=5,
        seal=_SEALS.seal,
        address=address,
    )
    return frame


BATCHES = (_batch(Flags.LOGGED), _batch(Flags.LOGGED | Flags.CONTROL), _batch(0, bytes(32)))


def _queries(gateway_id: str) -> RemoteQueries:
    seals = RemoteSeals(ModelSigner(gateway_id), _RING, TREE)
    return RemoteQueries(gateway_id, 1, seals=seals)


def _asked() -> tuple[RemoteQueries, list[Publication]]:
    asker = _queries("gw-a")
    put = ResourceRequest("PUT", ("s", "v"), ("q",), 0, 50, b"1", "psk:op", ("operator",))
    get = ResourceRequest("GET", ("s",), (), None, None, b"", None, ())
    return asker, [asker.ask("gw-b", one, 1.0, 5.0, 1)[1] for one in (put, get)]


def signed(data: bytes) -> None:
    """Spoil a signed batch, or signed words, with the edits of an input."""
    if not data:
        return
    which, edits = data[0], data[1:]
    if which & 1:
        made = BATCHES[(which >> 1) % len(BATCHES)]
        _spoilt_batch(_edited(made, edits), is_reframed=which & _REFRAMED != 0)
    else:
        _spoilt_words(which >> 1, edits)


def _spoilt_batch(frame: bytes, *, is_reframed: bool) -> None:
    if is_reframed and len(frame) > FRAME.size:
        frame = batch.framed(frame[_FLAGS_AT], frame[FRAME.size :])
    try:
        header = batch.check(frame)
    except BatchError:
        return
    verdict = _SEALS.check(frame[: header.end], header)
    is_as_made = frame[: header.end] in BATCHES
    assert (verdict is Verdict.PROVEN) == is_as_made, (verdict, frame.hex())
    try:
        batch.decode(frame, header)
    except BatchError:
        assert not is_as_made


def _spoilt_words(which: int, edits: bytes) -> None:
    asker, asked = _asked()
    target = _queries("gw-b")
    query = asked[which % len(asked)]
    payload = _edited(query.payload, edits)
    executed: list[Execute] = []
    for said in (payload, query.payload, payload):
        try:
            found = target.receive(query.topic, said, 2.0)
        except ProtocolError:
            assert said != query.payload or executed
            continue
        executed += [one for one in found if isinstance(one, Execute)]
    assert len(executed) == 1, payload.hex()
    answer = target.answer(executed[0], ResourceResponse(0x44, b"done"), 2.0)
    spoilt = _edited(answer.payload, edits)
    try:
        found = asker.receive(answer.topic, spoilt, 3.0)
    except ProtocolError:
        assert spoilt != answer.payload
    else:
        # What is beside a word and its signature is nobody's, and a reader passes over it.
        assert not found or _word(spoilt) == _word(answer.payload), spoilt.hex()


def _word(payload: bytes) -> bytes:
    """Return what is signed."""
    return opened("answer", payload)[0]


def _edited(data: bytes, edits: bytes) -> bytes:
    made = bytearray(data)
    for at in range(0, len(edits) - 3, 4):
        place = int.from_bytes(edits[at : at + 2], "big") % (len(made) + 1)
        kind, value = edits[at + 2] % 4, edits[at + 3]
        if kind == 0 and place < len(made):
            made[place] = value
        elif kind == 1:
            made[place:place] = bytes((value,))
        elif kind == 2:
            del made[place : place + 1 + value % 8]
        else:
            made[place:place] = made[place : place + value]
    return bytes(made)


KEYS_REPEATED = b"\x06\x80\x80" + bytes(107) + b"\x06\x87\x37\x00\x00\x00\x88"
"""Edits that put an answer's own keys once more beside its word and its signature."""


def seeds() -> Iterator[bytes]:
    """Each word as it is, and with one byte changed."""
    yield KEYS_REPEATED
    for which in range(2 * _REFRAMED):
        yield bytes((which,))
        for place in (0, 3, 20, 60):
            yield bytes((which, 0, place, 0, 0x5A))


def mutated(chance: random.Random) -> bytes:
    """An input with a few edits."""
    return bytes((chance.randrange(2 * _REFRAMED),)) + chance.randbytes(4 * chance.randrange(1, 6))
