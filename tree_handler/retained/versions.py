"""Versions of retained topics, and the comparison by which two gateways find what differs.

A last-writer-wins map: of two versions of a topic the greater one stays, so any order and any
repetition of the same updates come to the same state. A deletion is an update as well, whose
tombstone is kept (`tombstones`), so that an older message can't bring the topic back. A message
that expires leaves a tombstone of its own version.

The digest is a number for each of `BUCKETS` sets of topics: the exclusive or of a hash of each
topic and version in it. It says nothing of whether the topic is alive, for the version decides
that, and an expiry is met by each gateway in its own time. Contents are the caller's to keep.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b

import msgpack

from tree_handler.retained.hybrid_clock import NEVER, RetainedVersion, Stamp
from tree_handler.retained.proof import OWN, Signed, expired_proof
from tree_handler.retained.tombstones import (
    RETENTION_S,
    TOMBSTONES_MAX,
    Tombstone,
    Tombstones,
)

BUCKETS = 256
HASH_BYTES = 8


class RetainedVersions:
    """The versions that one gateway has.

    Args:
        retention_s: how long all tombstones are kept.
        tombstones_max: how many of them at most.
        own_id: whose own versions need no proof to be kept; of nobody if it is not given.
        tombstones_of_one_max: how many of them of one gateway at most; as many as of all if it is
            not given.

    Attributes:
        changes: raised by each change.
        proven: how often what proves a topic came behind its message.

    """

    def __init__(
        self,
        retention_s: float = RETENTION_S,
        tombstones_max: int = TOMBSTONES_MAX,
        own_id: str = "",
        tombstones_of_one_max: int | None = None,
    ) -> None:
        self._own_id = own_id
        self.changes = 0
        self.proven = 0
        self._live: dict[str, RetainedVersion] = {}
        self._dead = Tombstones(retention_s, tombstones_max, tombstones_of_one_max)
        self._topics: list[set[str]] = [set() for _ in range(BUCKETS)]
        self._hashes = [0] * BUCKETS
        self._proofs: dict[str, bytes] = {}
        self._unproven = [0] * BUCKETS
        """Topics without a proof or with one in doubt, by bucket."""
        self._doubted: set[str] = set()
        self._newly_proven: set[str] = set()

    # -- what is asked of it -------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many topics there are, alive or dead."""
        return len(self._live) + len(self._dead)

    @property
    def tombstones(self) -> int:
        """Return how many topics are dead."""
        return len(self._dead)

    @property
    def dropped_early(self) -> int:
        """Return how many tombstones went before their time."""
        return self._dead.dropped_early

    def version(self, topic: str) -> RetainedVersion | None:
        """Return a topic's version; None if it was never retained, or so long ago that it is
        forgotten."""
        found = self._live.get(topic)
        if found is None and (dead := self.tombstone(topic)) is not None:
            return dead.version
        return found

    def stamp(self, topic: str) -> Stamp:
        """Return the stamp that a write to this topic has to surpass."""
        found = self.version(topic)
        return NEVER if found is None else found.stamp

    def tombstone(self, topic: str) -> Tombstone | None:
        """Return a topic's tombstone; None if it is alive or unknown."""
        return self._dead.by_topic.get(topic)

    def is_live(self, topic: str) -> bool:
        """Return whether a message is retained there."""
        return topic in self._live

    def is_news(self, topic: str, version: RetainedVersion) -> bool:
        """Return whether a version is greater than what is here."""
        known = self.version(topic)
        return known is None or version > known

    def proof(self, topic: str) -> bytes:
        """Return the proof of a topic's version; it is empty, or `OWN` for an own one."""
        return self._proofs.get(topic, b"")

    def lacks_proof(self, topic: str) -> bool:
        """Return whether there is no proof of a topic's version, or none that can be checked."""
        return topic not in self._proofs or topic in self._doubted

    def proven_by_others(self) -> list[str]:
        """Return the topics that have a proof of another gateway."""
        return [topic for topic, proof in self._proofs.items() if proof != OWN]

    def saved_proofs(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        """Return the proofs for a checkpoint: of these topics, and of those proven since.

        Each is the msgpack of a version and of what proves it.
        """
        found: dict[str, bytes | None] = {}
        for topic in self._newly_proven.union(topics):
            version, proof = self.version(topic), self.proof(topic)
            is_kept = version is not None and proof not in {b"", OWN}
            found[topic] = msgpack.packb((version, proof)) if is_kept else None
        self._newly_proven.clear()
        return found

    def load_proofs(self, saved: Mapping[str, bytes | None]) -> None:
        """Take those of a checkpoint.

        One of another version, which an earlier release has left, and one that can't be read are
        none: neighbours are asked for it.
        """
        for topic, one in saved.items():
            with suppress(ValueError, TypeError, msgpack.UnpackException):
                if one is not None:
                    version, proof = msgpack.unpackb(one)
                    self.prove(topic, RetainedVersion(*version), bytes(proof))
        self._newly_proven.clear()

    @property
    def unproven(self) -> list[int]:
        """The buckets with topics without a proof, or with one that can't be checked."""
        return [bucket for bucket, count in enumerate(self._unproven) if count]

    def state(self) -> dict[str, RetainedVersion]:
        """Return all versions by topic."""
        return self._live | {topic: dead.version for topic, dead in self._dead.by_topic.items()}

    # -- changes -------------------------------------------------------------------------------

    def set(self, topic: str, version: RetainedVersion, proof: bytes = b"") -> bool:
        """Retain a message; return whether that was news."""
        if not self.is_news(topic, version):
            return False
        self._take_out(topic)
        self._live[topic] = version
        self._put_in(topic, version, proof)
        return True

    def prove(self, topic: str, version: RetainedVersion, proof: bytes) -> bool:
        """Take what proves this version of a topic, and return whether that is of any use.

        It is a change that neighbours are told of: they may have refused it without a proof.
        """
        if not proof or not self.lacks_proof(topic) or self.version(topic) != version:
            return False
        self._doubted.discard(topic)
        self._proofs[topic] = proof
        self._unproven[bucket_of(topic)] -= 1
        self._newly_proven.add(topic)
        self.proven += 1
        self.changes += 1
        return True

    def doubt(self, topic: str, *, is_doubted: bool) -> bool:
        """Note that a topic's proof can't be checked now, or can be again.

        Returns whether it is a new doubt.
        """
        if topic not in self._proofs or is_doubted == (topic in self._doubted):
            return False
        if is_doubted:
            self._doubted.add(topic)
        else:
            self._doubted.remove(topic)
        self._unproven[bucket_of(topic)] += 1 if is_doubted else -1
        return is_doubted

    def bury(self, topic: str, tombstone: Tombstone, now_s: float, proof: bytes = b"") -> bool:
        """Delete a topic's message; return whether that was news, though nothing may be here.

        A tombstone that would go at once is none, so that it isn't fetched again and again.
        """
        if not self.is_news(topic, tombstone.version):
            return False
        is_unknown = topic not in self._live and topic not in self._dead
        if is_unknown and not self._dead.has_room_for(topic, tombstone, now_s):
            return False
        self._lay(topic, tombstone, proof)
        return True

    def replace(self, topic: str, tombstone: Tombstone) -> None:
        """More is known of a tombstone; version and age are as they were."""
        self._dead.replace(topic, tombstone)

    def expired(self, topic: str, now_s: float, had: Signed | None = None) -> None:
        """A topic's message is gone by itself; what it had proves that it could be."""
        version = self._live.get(topic)
        if version is not None:
            proof = b"" if had is None else expired_proof(self.proof(topic), had)
            self._lay(topic, Tombstone(version, 0, None, now_s), proof)

    def _lay(self, topic: str, tombstone: Tombstone, proof: bytes) -> None:
        self._take_out(topic)
        self._dead.lay(topic, tombstone)
        self._put_in(topic, tombstone.version, proof)

    def expire(self, now_s: float, count_max: int = 5_000) -> list[str]:
        """Forget tombstones of which there are too many; say which topics.

        To be called again and again: at most ``count_max`` go at a time.
        """
        gone: list[str] = []
        while len(gone) < count_max and (topic := self._dead.next_to_go(now_s)) is not None:
            self._take_out(topic)
            gone.append(topic)
        return gone

    def _take_out(self, topic: str) -> None:
        version = self._live.pop(topic, None)
        if version is None:
            dead = self._dead.take_out(topic)
            if dead is None:
                return
            version = dead.version
        bucket = bucket_of(topic)
        self._topics[bucket].discard(topic)
        self._hashes[bucket] ^= _hash(topic, version)
        if self.lacks_proof(topic):
            self._unproven[bucket] -= 1
        self._proofs.pop(topic, None)
        self._doubted.discard(topic)
        self.changes += 1

    def _put_in(self, topic: str, version: RetainedVersion, proof: bytes) -> None:
        bucket = bucket_of(topic)
        proof = OWN if version.origin == self._own_id else proof
        if proof:
            self._proofs[topic] = proof
        else:
            self._unproven[bucket] += 1
        self._topics[bucket].add(topic)
        self._hashes[bucket] ^= _hash(topic, version)
        self.changes += 1

    # -- digests -------------------------------------------------------------------------------

    def digest(self) -> bytes:
        """Return a hash of each bucket, one after the other."""
        return b"".join(number.to_bytes(HASH_BYTES, "big") for number in self._hashes)

    def root(self) -> bytes:
        """Return one hash of everything."""
        return blake2b(self.digest(), digest_size=HASH_BYTES).digest()

    def topics_from(
        self, buckets: Iterable[int], after: tuple[int, str]
    ) -> Iterator[tuple[int, str, RetainedVersion]]:
        """Bucket, topic and version of all in these buckets behind a place, in order.

        The order of two gateways is the same: by bucket, then by topic.
        """
        first, last_topic = after
        for bucket in sorted(buckets):
            if bucket < first:
                continue
            for topic in sorted(self._topics[bucket]):
                if bucket > first or topic > last_topic:
                    version = self.version(topic)
                    assert version is not None
                    yield bucket, topic, version


def differing(one: bytes, other: bytes) -> list[int]:
    """Return the buckets in which two digests differ."""
    step = HASH_BYTES
    return [
        at // step
        for at in range(0, BUCKETS * step, step)
        if one[at : at + step] != other[at : at + step]
    ]


def bucket_of(topic: str) -> int:
    """Return the bucket that a topic is in; the same on all gateways."""
    return zlib.crc32(topic.encode()) % BUCKETS


def _hash(topic: str, version: RetainedVersion) -> int:
    us, logical, origin, epoch = version
    text = f"{topic}\0{us} {logical} {epoch} {origin}"
    return int.from_bytes(blake2b(text.encode(), digest_size=HASH_BYTES).digest(), "big")
