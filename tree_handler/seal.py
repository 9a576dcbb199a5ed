"""Seals: what proves that a batch is its origin's, whoever hands it over.

What is stated here and nowhere else: what a seal is of, and when it holds. A batch's seal is the
last part of its frame (`batch`)::

    address, 32 bytes | signature | the signature's length u8

The signature is the origin's (`proof.Signer`), of `BATCH` for the tree and of the SHA-256 of the
flags (one byte) and all that stands between the frame's head and it: origin, epoch, numbers, time,
messages, and the address. That is there where clients' messages are routed (`Flags.ADDRESSED`), and
stands for the list of whom the batch is for, and which number was the last one for each before. So
nobody else can make a batch of an origin, move it to other numbers or another life, or take a
message out of it; and who carries it changes none of its bytes. Each batch is sealed alone: a batch
is all that a turn accepted, so under load one signature is for many messages, and at light load
nothing waits for others to be signed with.

What gateways say to each other of their streams besides is signed alone (`WORD`). So is what a life
of a gateway stands for election with (`ROOT`), once for all BPDUs that name it as a root; and in
each topic overlay apart (`OVERLAY_ROOT`, with the overlay's id), once for each time it enters one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

import msgpack

from tree_handler.batch import FRAME, Header
from tree_handler.flags import ADDRESS_BYTES, Flags
from tree_handler.proof import KeyRing, Signer, Verdict, context
from tree_handler.retained.proof import RetainedProofs
from tree_handler.spanning.election import Identity, Root

BATCH: Final = "batch 1"
WORD: Final = "word 1"
"""The context of a signature; see `tree_handler.proof.context`."""
ROOT: Final = "root 1"
"""The context of a signature; see `tree_handler.proof.context`."""
OVERLAY_ROOT: Final = "overlay root 1"
"""The context of a signature; see `tree_handler.proof.context`."""
MAX_VOUCHED: Final = 1_000
"""Roots whose seal is not looked at again."""
LIFE_S: Final = 10 * 365 * 86_400.0
"""For so long after its certificate's end a key counts for the life that began with it: a gateway
signs what it stands for election with at its start and when it has another key, no more often."""
LATE_S: Final = 90 * 86_400.0
"""For so long after its certificate's end a key counts for batches: logs may have kept them."""


class Seals:
    """Seals what this gateway makes, and checks what others made.

    Args:
        signer: this gateway's; None where nothing is made (a reader of a spool).
        ring: the keys of all.
        tree: the tree's name.

    Attributes:
        retained: proves retained messages, which outlive the batches that they came in.

    """

    def __init__(self, signer: Signer | None, ring: KeyRing, tree: str) -> None:
        self.retained = RetainedProofs(signer, ring, tree)
        self._signer = signer
        self._ring = ring
        self._context = context(BATCH, tree)
        self._word = context(WORD, tree)
        self._root = context(ROOT, tree)
        self._overlay_root = context(OVERLAY_ROOT, tree)
        self._vouched: dict[tuple[bytes, Root], bytes] = {}

    def seal(self, flags: int, rest: bytes) -> bytes:
        """Return a `batch.Seal`."""
        assert self._signer is not None
        signature = self._signer.sign(self._context + _digest(flags, rest))
        return signature + bytes((len(signature),))

    def check(self, frame: bytes, header: Header) -> Verdict:
        """Return whether a batch is of the origin that its header names.

        Args:
            frame: the bytes of the batch alone.
            header: what `batch.check` made of them.

        """
        if not header.seal_bytes:
            return Verdict.UNSIGNED
        length_at = header.end - 1
        at = length_at - frame[length_at]
        message = self._context + _digest(header.flags, memoryview(frame)[FRAME.size : at])
        origin = header.origin
        verdict = self._ring.verify(origin, message, frame[at:length_at], LATE_S, header.epoch)
        if verdict and not header.control and self._ring.only_receives(origin):
            return Verdict.NOT_ALLOWED
        return verdict

    def say(self, word: bytes) -> bytes:
        """Return the signature of what this gateway says of a stream, besides its batches."""
        assert self._signer is not None
        return self._signer.sign(self._word + word)

    def has_said(self, gateway_id: str, word: bytes, signature: bytes) -> bool:
        """Return whether a gateway has said something of a stream."""
        return bool(self._ring.verify(gateway_id, self._word + word, signature))

    def stands(self, identity: Identity, overlay: bytes = b"") -> Identity:
        """This gateway as it stands for election, signed; in an overlay, or in the common tree."""
        assert self._signer is not None
        seal = self._signer.sign(self._standing(identity.root, overlay))
        return replace(identity, seal=seal)

    def is_candidate(self, root: Root, overlay: bytes = b"") -> bool:
        """Return whether a root that somebody names stands for election there, as it says itself.

        In an overlay its present key has to say so: it says it anew under each that it gets.
        """
        known = (overlay, root)  # a root is the same whatever its seal is
        if self._vouched.get(known) == root.seal:
            return True
        message, life = self._standing(root, overlay), 0 if overlay else root.boot_epoch
        if not self._ring.verify(root.gateway_id, message, root.seal, LIFE_S, life):
            return False
        if root.capability and self._ring.only_receives(root.gateway_id):
            return False
        if len(self._vouched) >= MAX_VOUCHED:
            del self._vouched[next(iter(self._vouched))]
        self._vouched[known] = root.seal
        return True

    def _standing(self, root: Root, overlay: bytes) -> bytes:
        prefix = self._overlay_root + overlay if overlay else self._root
        return prefix + _candidate(root)


def address_of(listed: bytes) -> bytes:
    """Return what stands for a list of gateways in a seal."""
    return hashlib.sha256(listed).digest()


def is_addressed(frame: bytes, header: Header, listed: bytes) -> bool:
    """Return whether a batch was sealed for just this list of gateways."""
    at = header.end - header.seal_bytes
    has_address = header.flags & Flags.ADDRESSED != 0
    return has_address and frame[at : at + ADDRESS_BYTES] == address_of(listed)


def _candidate(root: Root) -> bytes:
    row = (root.gateway_id, root.boot_epoch, float(root.capability), root.address)
    packed: bytes = msgpack.packb(row)
    return packed


def _digest(flags: int, rest: bytes | memoryview) -> bytes:
    made = hashlib.sha256(bytes((flags,)))
    made.update(rest)
    return made.digest()
