"""A thief of a gateway with its certificate and key, who sends what he likes over its links."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from authority import Issued

from gateway.node.links import wire
from gateway.node.links.link import Link
from gateway.node.signing.own import OwnKey
from gateway.process.running.gateway_process import GatewayProcess
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.intervals import Intervals
from tree_handler.proof import Signer, Verdict, context
from tree_handler.replication.repair import Summary
from tree_handler.routing.locator import ReachUpdate
from tree_handler.routing.wire import TOPIC as ROUTED
from tree_handler.routing.wire import Ack, Carry, Claim, Tell, Word, signed_part
from tree_handler.spanning.bpdu import Bpdu, Kind, Root

LIVE, REPAIR, SUMMARY = b"$hedgerow/batch", b"$hedgerow/repair", b"$hedgerow/summary"
FLAGS_AT = 3
"""In a batch."""
NEVER = 2**62
"""No life of a gateway has that number: a batch's header has no room for it."""

FAR = (2**64 - 1, 2**63, 2**62, 2**62 - 1, 2**48)
"""Numbers of messages that would need centuries."""


@dataclass(frozen=True)
class Known:
    """A gateway as somebody knows it who can't see into it.

    Attributes:
        name: its id.
        epoch: its life.
        next_logged: the number of its next message.
        issued: its certificate; the key signs only what it might have signed itself.

    """

    name: str
    epoch: int
    next_logged: int
    issued: Issued


def look_at_no_signatures(process: GatewayProcess) -> None:
    """Have a gateway take and pass on whatever comes, as if each signature were right."""
    if process.parts.proof.keys is not None:
        ring = process.parts.proof.keys.ring
        ring.verify = lambda *_, **__: Verdict.PROVEN  # type: ignore[method-assign]  # his own gateway


class Thief:
    """Has a member's certificate and key, the tree's key, and all that its links bring."""

    def __init__(self, process: GatewayProcess, issued: Issued) -> None:
        self._process = process
        self._own = OwnKey.read(issued.certificate, issued.key)

    def attack(self, victim: Known) -> None:
        """Send each neighbour all kinds of batches that are not the victim's and say they are."""
        for epoch, first in (
            (victim.epoch, victim.next_logged),
            (victim.epoch, victim.next_logged + 1_000),
            (victim.epoch + 1, 1),
            (MAX_BOOT_EPOCH, 1),
        ):
            for flags in (Flags.LOGGED, Flags.NONE, Flags.LOGGED | Flags.CONTROL):
                for frame in self._frames(victim.name, epoch, first, flags):
                    self._send(frame)
        self._send(self._altered(victim))
        self._claim(victim)

    def claim_lives(self, victim: Known, number: int) -> None:
        """Tell each neighbour of lives of the victim that none could follow; one way a call.

        Nobody listens to a link any longer over which a life came that there can't be.

        Args:
            victim: of whom.
            number: which way; all have their turns.

        """
        name = victim.name
        root = Root(name, NEVER, 9e9, "127.0.0.1")
        hello = Bpdu(Kind.HELLO, 1, name, NEVER, 9e9, root, 1, 0)
        rows = [Entry("t", b"of the last life", 1).row()]
        last, _ = batch.make(
            name, MAX_BOOT_EPOCH, 1, rows, flags=Flags.LOGGED, origin_time_us=1, seal=None
        )
        words = [
            (SUMMARY, Summary({(name, NEVER): Intervals([(1, 5)])}).encode()),
            (SUMMARY, Summary({(name, MAX_BOOT_EPOCH): Intervals([(1, 5)])}).encode()),
            (LIVE, last),
            (b"$hedgerow/behind", ReachUpdate(False, {name: NEVER}).encode()),
        ]
        if self._process.parts.routed is not None:
            words.append((ROUTED, Ack((name, NEVER), name, 1).encode()))
        way = number % (len(words) + 1)
        for link in self._links():
            if way < len(words):
                link.send_batch(*words[way])
            else:
                link.send(wire.ping(1, hello.encode()))

    def count_far(self, number: int) -> None:
        """Send each neighbour a batch of its own with numbers that nobody could count to."""
        name, epoch = (
            self._process.parts.node.replication.origin,
            self._process.parts.node.replication.epoch,
        )
        rows = [Entry("t", b"far", 1).row()]
        first = FAR[number % len(FAR)]
        frame, _ = batch.make(
            name, epoch, first, rows, flags=Flags.LOGGED, origin_time_us=1, seal=self._seal
        )
        self._send(frame)
        for link in self._links() if self._process.parts.routed is not None else ():
            for word in self._words((name, epoch), link.peer_id, first):
                link.send_batch(ROUTED, word.encode())

    def _claim(self, victim: Known) -> None:
        """Say of the victim what it never said."""
        far = victim.next_logged + 5_000
        streams = [(name, victim.epoch) for name in (victim.name, f"${victim.name}")]
        has = {stream: Intervals([(1, far)]) for stream in streams}
        gone = Summary(has, dict.fromkeys(streams, far + 1))
        over = Summary(over={name: Intervals([(1, MAX_BOOT_EPOCH)]) for name, _ in streams})
        for link in self._links():
            for summary in (Summary(has), gone, over):
                link.send_batch(SUMMARY, summary.encode())
            if self._process.parts.routed is not None:
                for word in self._words(streams[0], link.peer_id, far):
                    link.send_batch(ROUTED, word.encode())

    def _words(self, stream: Epoch, peer_id: str, far: int) -> Iterator[Word]:
        claim = Claim(stream, far, ((peer_id, 0, 0),))
        passed = Intervals([(1, far)])
        told = Tell(peer_id, stream, far, 0, passed, Intervals())
        for word in (claim, told, Tell(peer_id, stream, far, far, Intervals(), passed)):
            signed = context("word 1", "hedgerow") + signed_part(word)
            yield word
            yield replace(word, seal=self._own.signer.sign(signed))
        for other in ("gw-a", "gw-b"):
            yield Ack(stream, other, far)

    def _links(self) -> list[Link]:
        return list(self._process.parts.node.links.values())

    def _frames(self, origin: str, epoch: int, first: int, flags: int) -> Iterator[bytes]:
        rows = [Entry("t", b"forged", 1).row()] * 3
        for seal in (None, self._seal, lambda *_: b"\0" * 70 + b"\x46"):
            yield batch.make(origin, epoch, first, rows, flags=flags, origin_time_us=1, seal=seal)[
                0
            ]

    def _seal(self, flags: int, rest: bytes) -> bytes:
        return _sealed(self._own.signer, flags, rest)

    def _altered(self, victim: Known) -> bytes:
        """Return a batch in which the victim's signature stands with another message."""
        where = (victim.name, victim.epoch, victim.next_logged + 50)
        about: dict[str, Any] = {"flags": Flags.LOGGED, "origin_time_us": 1}
        signer = OwnKey.read(victim.issued.certificate, victim.issued.key).signer
        rows = [Entry("t", b"true", 1).row()]
        frame, header = batch.make(*where, rows, **about, seal=partial(_sealed, signer))
        seal = frame[header.end - header.seal_bytes :]
        rows = [Entry("t", b"bent", 1).row()]
        return batch.make(*where, rows, **about, seal=lambda *_: seal)[0]

    def _send(self, frame: bytes) -> None:
        for link in self._links():
            carry = Carry(((link.peer_id, 0),), frame).encode()
            for topic, payload in ((LIVE, frame), (REPAIR, frame), (ROUTED, carry)):
                is_routed = self._process.parts.routed is not None
                if topic != ROUTED or (is_routed and not frame[FLAGS_AT] & Flags.CONTROL):
                    link.send_batch(topic, payload)


def _sealed(signer: Signer, flags: int, rest: bytes) -> bytes:
    digest = hashlib.sha256(bytes((flags,)) + rest).digest()
    signature = signer.sign(context("batch 1", "hedgerow") + digest)
    return signature + bytes((len(signature),))
