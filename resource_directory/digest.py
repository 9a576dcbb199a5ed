"""Digest of a directory in 256 bytes: enough to know that it does not have something.

A Bloom filter of the terms that look-ups ask for. Who has the digest of a directory need not ask
it for what it can't have. What says where things are (`NOT_TOLD`) differs in each link and is left
out, and a prefix can't be looked for: then the answer is that it may have it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from hashlib import blake2b
from typing import Final

from resource_directory.index import Criterion, Term
from resource_directory.registration import Registration
from resource_directory.terms import EVERY_ENDPOINT, attribute_terms, endpoint_terms

DIGEST_BYTES: Final = 256
NOT_TOLD: Final = frozenset({"href", "anchor", "base", "lt"})
"""Attributes of which a digest says nothing."""
AFTER_S: Final = 3.0
"""The time after which others are told that there is something new."""
EVERY_S: Final = 30.0
"""The time after that in which nothing more is said."""
_BITS = DIGEST_BYTES * 8
_MARKS = 3
"""Bits of a term; with 400 terms one in eleven that is not there looks as if it were."""
ANYTHING: Final = b"\xff" * DIGEST_BYTES
"""The digest of a directory that may have anything."""
TERMS_MAX: Final = _BITS
"""Of one registration. More would leave one bit in twenty, and take long to hash."""


def terms_of(registration: Registration) -> set[Term]:
    """Return the terms of a registration that digests tell."""
    found = {term for term in endpoint_terms(registration) if term[0] not in NOT_TOLD}
    for attributes in set(registration.link_attributes):
        found.update(term for term in attribute_terms(attributes) if term[0] not in NOT_TOLD)
    return found


def may_have(digest: bytes, criterion: Criterion) -> bool:
    """Return whether a directory may have what meets a criterion.

    Args:
        digest: of the directory; one of another length says nothing, and so it may.
        criterion: of a look-up.

    """
    if len(digest) != DIGEST_BYTES or criterion.is_prefix or criterion == EVERY_ENDPOINT:
        return True
    if criterion.name in NOT_TOLD:
        return True
    return all(digest[bit >> 3] >> (bit & 7) & 1 for bit in _marks(criterion.name, criterion.value))


class DigestTimes:
    """A schedule by which others are told of a digest: soon, and not too often.

    Args:
        now: the time, seconds.

    Attributes:
        due: when `take` is to be asked.

    """

    def __init__(self, now: float) -> None:
        self.due = now + AFTER_S

    def take(self, now: float, *, is_news: bool) -> bool:
        """Return whether others are to be told now."""
        if now < self.due:
            return False
        self.due = now + AFTER_S + (EVERY_S if is_news else 0.0)
        return is_news


class DirectoryDigest:
    """The digest of one directory, kept as registrations come and go; a `RegistryListener`.

    How many terms have a bit is counted, so that one registration that goes costs as much as one
    that comes, and none of the others is looked at. One with very many terms may have anything.

    What has gone is told of until something else comes: one asks in vain then, and misses nothing.

    Attributes:
        is_news: something came since `take` that the digest did not have then.

    """

    def __init__(self) -> None:
        self.is_news = False
        self._counts = array("L", bytes(_BITS * array("L").itemsize))
        """The number of terms that have each bit."""
        self._of_anything = 0
        """Registrations that may have anything."""
        self._told = bytes(DIGEST_BYTES)

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """Count the terms of a new registration, and those no more of one that has gone."""
        if after is not None:
            self._count(terms_of(after), 1)
        if before is not None:
            self._count(terms_of(before), -1)

    def renewed(self, registration: Registration) -> None:
        """Change nothing: a renewal has the same terms."""

    def take(self) -> bytes:
        """Return the digest now."""
        self.is_news = False
        if self._of_anything:
            self._told = ANYTHING
        else:
            bits = sum(1 << bit for bit, count in enumerate(self._counts) if count)
            self._told = bits.to_bytes(DIGEST_BYTES, "little")
        return self._told

    def _count(self, terms: Collection[Term], difference: int) -> None:
        if len(terms) > TERMS_MAX:
            self._of_anything += difference
            # Once all may be there, nothing that comes is news: that it is over has to be.
            self.is_news |= (self._of_anything > 0) != (self._told == ANYTHING)
            return
        for name, value in terms:
            for bit in _marks(name, value):
                self._counts[bit] += difference
                if difference > 0 and not self._told[bit >> 3] >> (bit & 7) & 1:
                    self.is_news = True


def _marks(name: str, value: str) -> Iterator[int]:
    hashed = blake2b(f"{name}={value}".encode(errors="replace"), digest_size=2 * _MARKS).digest()
    for at in range(0, 2 * _MARKS, 2):
        yield int.from_bytes(hashed[at : at + 2]) % _BITS
