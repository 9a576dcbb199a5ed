"""Proof of a retained message or a deletion, whoever hands it over, when no log has its batch.

Its origin signs the message's topic, version, number, QoS, expiry and content when it makes the
batch; each gateway keeps that beside the message (`RetainedVersions`) and hands it over with it
(`sync`). One signature is for up to `GROUP` messages of a batch: of the root of a tree of hashes,
so that each message proves itself, with the hashes beside its way to the root::

    leaf    SHA-256(0, msgpack(topic, version, number, QoS, expiry, content))
    node    SHA-256(1, left, right); a last one without a partner goes up as it is

all cut to `HASH_BYTES`. A batch carries the proof as a fifth part of the message's row, which a
gateway of an earlier release does not look at. A proof is a msgpack array of the signature, a
number whose bits say on which side the hashes stand, the hashes, and the expiry in seconds (a
gateway at which a message waited hands it on with less). A message that has expired leaves what is
needed to prove that it had an expiry: its number, QoS and content's hash stand behind these.

What is a gateway's own it signs anew whenever it hands it over, and keeps no proof of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Row
from tree_handler.errors import ProtocolError
from tree_handler.proof import KeyRing, Signer, Verdict, context
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import EXPIRY, VERSION, Retained, stamped_version
from tree_handler.unpacking import MessageSize, unpack

RETAINED: Final = "retained 1"
"""The context of a signature; see `tree_handler.proof.context`."""
GROUP: Final = 16
"""Messages under one signature."""
HASH_BYTES: Final = 24
"""Of a hash: two contents with the same cost 2 ** 96 tries."""
OWN: Final = b"own"
"""In the place of a proof: this gateway's own, which it can sign whenever it is asked."""
MAX_PROOF_BYTES: Final = 512
SIZE: Final = MessageSize(MAX_PROOF_BYTES, 16, 16)
RETAINED_LATE_S: Final = 10 * 365 * 86_400.0
"""For so long after its certificate's end a key counts for what is retained, which outlives
logs."""
MAX_BELIEVED: Final = 1_000
"""Roots whose signature is not looked at again."""

Signed = tuple[int, int, bytes, dict[int, Any]]
"""Number, QoS, payload and properties of a message."""

_RETAIN_BIT: Final = 4
_EXPIRED: Final = -1
"""In the place of a QoS: its origin says that it has expired."""
_UNREAD = (ValueError, TypeError, LookupError)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields that are signed of a message, besides its topic and version."""

    number: int
    qos: int
    expiry_s: int | None
    content: bytes


@dataclass(frozen=True, slots=True)
class _Proof:
    """A proof, read."""

    signature: bytes
    sides: int
    path: bytes
    expiry_s: int | None
    had: tuple[int, int, bytes] | None

    @classmethod
    def of(cls, data: bytes) -> _Proof:
        """Read it.

        Raises:
            ProtocolError: it is none.

        """
        try:
            row = unpack("proof of a retained message", data, SIZE, tuples=True)
            signature, sides, path, expiry_s, *had = row
            is_right = (
                isinstance(signature, bytes)
                and isinstance(path, bytes)
                and type(sides) is int
                and 0 <= sides < GROUP
                and (expiry_s is None or type(expiry_s) is int)
                and len(path) % HASH_BYTES == 0
                and sides >> len(path) // HASH_BYTES == 0
            )
            if is_right and had:
                number, qos, content = had
                if type(number) is type(qos) is int and isinstance(content, bytes):
                    return cls(signature, sides, path, expiry_s, (number, qos, content))
                is_right = False
        except _UNREAD as error:
            raise ProtocolError("proof of a retained message", data) from error
        if not is_right:
            raise ProtocolError("proof of a retained message", data)
        return cls(signature, sides, path, expiry_s, None)

    def row(self) -> tuple[Any, ...]:
        """Return the wire form, to be packed."""
        return (self.signature, self.sides, self.path, self.expiry_s, *(self.had or ()))


class RetainedProofs:
    """Proves what this gateway retains of its own, and checks what others hand over.

    Args:
        signer: this gateway's; None where nothing is made.
        ring: the keys of all.
        tree: the tree's name.

    """

    def __init__(self, signer: Signer | None, ring: KeyRing, tree: str) -> None:
        self._signer = signer
        self._ring = ring
        self._context = context(RETAINED, tree)
        self._believed: dict[tuple[str, int, bytes, bytes], None] = {}

    def prove_rows(self, rows: Sequence[Row], stream: Epoch, first: int) -> Sequence[Row]:
        """Return messages that are about to be a batch, with the proofs of those that are retained.

        Args:
            rows: the messages.
            stream: of this gateway.
            first: the number of the first one.

        """
        at = [i for i, row in enumerate(rows) if row[1] & _RETAIN_BIT and _is_stamped(row)]
        if not at:
            return rows
        leaves: list[tuple[bytes, int | None]] = []
        for i in at:
            topic, flags, payload, properties = rows[i][:4]
            version = stamped_version(properties[VERSION], stream)
            expiry_s = properties.get(EXPIRY) if payload else None
            content = _content(payload, properties)
            fields = _Fields(first + i, flags & 3, expiry_s, content)
            leaves.append((_leaf(topic, version, fields), expiry_s))
        proven = list(rows)
        for i, proof in zip(at, self._signed(leaves), strict=True):
            proven[i] = (*rows[i][:4], proof, *rows[i][5:])
        return proven

    def prove(self, told: Sequence[Retained]) -> list[Retained]:
        """This gateway's own messages, with proofs; for one that has expired, that it has."""
        leaves = [(_leaf(one.topic, one.version, _fields(one)), _expiry_s(one)) for one in told]
        signed = self._signed(leaves)
        return [replace(one, proof=proof) for one, proof in zip(told, signed, strict=True)]

    def check(self, told: Retained) -> Verdict:
        """Return whether a message is of its version's origin, all of it but the ages."""
        if not told.proof:
            return Verdict.UNSIGNED
        properties: Mapping[Any, Any] = told.properties  # as a neighbour may send them
        if any(type(i) is not int for i in properties):
            return Verdict.FORGED
        try:
            proof = _Proof.of(told.proof)
        except ProtocolError:
            return Verdict.FORGED
        fields = _as_signed(told, proof)
        if fields is None:
            return Verdict.FORGED
        root = _leaf(told.topic, told.version, fields)
        for height in range(len(proof.path) // HASH_BYTES):
            beside = proof.path[height * HASH_BYTES : (height + 1) * HASH_BYTES]
            is_left = proof.sides >> height & 1
            root = _node(beside, root) if is_left else _node(root, beside)
        return self._verify(told.stream, root, proof.signature)

    def can_check(self, version: RetainedVersion, proof: bytes) -> bool:
        """Return whether the key that a proof names counts now; what it proves is not looked at."""
        try:
            signature = _Proof.of(proof).signature
        except ProtocolError:
            return False
        ring, life = self._ring, version.epoch
        return ring.knows_key(version.origin, signature, RETAINED_LATE_S, life)

    def _verify(self, stream: Epoch, root: bytes, signature: bytes) -> Verdict:
        origin, epoch = stream
        known = (origin, epoch, root, signature)
        if known in self._believed:
            return Verdict.PROVEN
        message = self._context + root
        verdict = self._ring.verify(origin, message, signature, RETAINED_LATE_S, epoch)
        if verdict and self._ring.only_receives(origin):
            return Verdict.NOT_ALLOWED
        if verdict is Verdict.PROVEN:
            self._believed[known] = None
            if len(self._believed) > MAX_BELIEVED:
                del self._believed[next(iter(self._believed))]
        return verdict

    def _signed(self, leaves: Sequence[tuple[bytes, int | None]]) -> Iterator[bytes]:
        """Yield a proof for each leaf, and its expiry."""
        assert self._signer is not None
        for start in range(0, len(leaves), GROUP):
            group = leaves[start : start + GROUP]
            root, ways = _tree([leaf for leaf, _ in group])
            signature = self._signer.sign(self._context + root)
            for (sides, path), (_, expiry_s) in zip(ways, group, strict=True):
                packed: bytes = msgpack.packb((signature, sides, path, expiry_s))
                yield packed


def expired_proof(proof: bytes, had: Signed) -> bytes:
    """Return the proof of a message that has expired, out of that of the message; none if it had
    none."""
    if not proof or proof == OWN:
        return proof
    try:
        read = _Proof.of(proof)
    except ProtocolError:
        return b""
    number, qos, payload, properties = had
    row = replace(read, had=(number, qos, _content(payload, properties))).row()
    packed: bytes = msgpack.packb(row)
    return packed


def _as_signed(told: Retained, proof: _Proof) -> _Fields | None:
    """Return what was signed, if what is told may be that; None if it may not."""
    if told.qos is None:
        if told.number:
            return None
        if proof.had is None:
            return _fields(told)
        number, qos, content = proof.had
        return None if proof.expiry_s is None else _Fields(number, qos, proof.expiry_s, content)
    if proof.had is not None:
        return None
    fields = _fields(told)
    left_s, most_s = fields.expiry_s, proof.expiry_s
    if (left_s is None) != (most_s is None) or not 0 <= (left_s or 0) <= (most_s or 0):
        return None
    return replace(fields, expiry_s=most_s)


def _fields(told: Retained) -> _Fields:
    if told.qos is None:
        return _Fields(0, _EXPIRED, None, b"")
    content = _content(told.payload, told.properties)
    return _Fields(told.number, told.qos, _expiry_s(told), content)


def _expiry_s(told: Retained) -> int | None:
    """None for none; -1, which is never signed, for something that is no number of seconds."""
    if not told.payload or EXPIRY not in told.properties:
        return None
    found = told.properties[EXPIRY]
    return found if type(found) is int and found >= 0 else -1


def _is_stamped(row: Row) -> bool:
    return len(row) > 3 and VERSION in row[3]


def _content(payload: bytes, properties: dict[int, Any]) -> bytes:
    """Return what is signed of it: a deletion has no properties that last."""
    shown = [(i, properties[i]) for i in sorted(properties) if i not in {VERSION, EXPIRY}]
    packed = msgpack.packb((payload, shown if payload else []))
    return hashlib.sha256(packed).digest()[:HASH_BYTES]


def _leaf(topic: str, version: RetainedVersion, fields: _Fields) -> bytes:
    signed = (topic, *version, fields.number, fields.qos, fields.expiry_s, fields.content)
    return hashlib.sha256(b"\0" + msgpack.packb(signed)).digest()[:HASH_BYTES]


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()[:HASH_BYTES]


def _tree(leaves: Sequence[bytes]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Return the root above leaves, and for each the sides and hashes beside its way there."""
    ways = [(0, b"")] * len(leaves)
    level = [(leaf, [i]) for i, leaf in enumerate(leaves)]
    while len(level) > 1:
        above: list[tuple[bytes, list[int]]] = []
        for i in range(0, len(level) - 1, 2):
            (left, below_left), (right, below_right) = level[i], level[i + 1]
            for beside, side, below in ((right, 0, below_left), (left, 1, below_right)):
                for leaf in below:
                    sides, path = ways[leaf]
                    ways[leaf] = (sides | side << len(path) // HASH_BYTES, path + beside)
            above.append((_node(left, right), below_left + below_right))
        if len(level) % 2:
            above.append(level[-1])
        level = above
    return level[0][0], ways
