"""The ring of keys: the certificates of all gateways that this one has met or was told of.

It is fed certificates, whoever hands them over, and the time; it has no clock and opens no file. A
gateway that renews its certificate has two keys in it, or more, and what was signed with either is
proven. What counts is decided anew when the authorities or their lists change. Keys of before count
as far as their gateways state it (`former_keys`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from gateway.node.signing.former_keys import FormerKeys, KeyStatement, digest_of
from gateway.node.signing.trust import (
    CertificateFacts,
    Chain,
    RevokedCertificateError,
    Trust,
    UntrustedError,
)
from gateway.trust.certificates.signature_keys import NAME_BYTES, PublicKey, has_signed, name_of
from light_dataclasses import dataclass
from tree_handler.proof import Verdict

MAX_KEYS = 8
"""Certificates of one gateway; with more the one that began first is forgotten."""
MAX_GATEWAYS = 10_000
"""Gateways; of more, one whose certificates have all ended makes room for one whose counts."""
FINGERPRINT_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Kept:
    chain: Chain
    vouched: CertificateFacts


class CertificateRing:
    """A `tree_handler.proof.KeyRing` of certificates.

    What is forgotten for want of room is not taken again while that room is full: of two
    certificates the same one goes on every gateway, whichever came first. So a certificate that
    one gateway keeps and another has forgotten is new to nobody, and does not go round.

    Args:
        trust: whose certificates count.
        now_s: the wall clock, seconds since 1970.
        max_gateways: of so many it keeps certificates.

    Attributes:
        former: what gateways state of the keys that they had before.

    """

    def __init__(self, trust: Trust, now_s: float, max_gateways: int = MAX_GATEWAYS) -> None:
        self.former = FormerKeys(self._has_stated)
        self._max_gateways = max_gateways
        self._trust = trust
        self._now_s = now_s
        self._kept: dict[bytes, _Kept] = {}
        self._of: dict[str, dict[bytes, CertificateFacts]] = {}
        """By gateway and fingerprint."""
        self._named: dict[str, dict[bytes, list[CertificateFacts]]] = {}
        """By gateway and the name of the key."""

    def __len__(self) -> int:
        """Return how many certificates there are."""
        return len(self._kept)

    def __contains__(self, fingerprint: bytes) -> bool:
        """Return whether a certificate is there; see `fingerprint_of`."""
        return fingerprint in self._kept

    def __iter__(self) -> Iterator[tuple[bytes, Chain]]:
        """Fingerprint and chain of each."""
        return ((fingerprint, kept.chain) for fingerprint, kept in self._kept.items())

    def chains_of(self, gateway_id: str) -> list[Chain]:
        """Return the certificates of one gateway; none if it is not known."""
        return [self._kept[fingerprint].chain for fingerprint in self._of.get(gateway_id, ())]

    def add(self, chain: Chain) -> str | None:
        """Take a gateway's certificate.

        Returns:
            Whose it is; None if it was there, or began before all those that are kept of its
            gateway, of which there are as many as may be: then nothing has changed.

        Raises:
            UntrustedError: it is none of this fleet, or there is no room.

        """
        if chain and fingerprint_of(chain) in self._kept:
            return None
        vouched = self._trust.check(chain, self._now_s)
        gateway_id = vouched.gateway_id
        if gateway_id not in self._of and len(self._of) >= self._max_gateways:
            self._make_room(vouched)
        fingerprint = fingerprint_of(chain)
        of = self._of.setdefault(gateway_id, {})
        if len(of) >= MAX_KEYS:
            first = min(of, key=lambda one: _age(one, of[one]))
            if _age(fingerprint, vouched) < _age(first, of[first]):
                return None
            self._forget(first)
        self._kept[fingerprint] = _Kept(chain, vouched)
        of[fingerprint] = vouched
        self._index(gateway_id)
        return gateway_id

    def take_statement(self, data: bytes) -> str | None:
        """Take what a gateway states of its former keys.

        Returns:
            Which gateway; None if it is nothing new.

        Raises:
            UntrustedError: the gateway did not state it, or that can't be known.

        """
        statement = KeyStatement.of(data)
        is_new = self.former.take(statement, self._now_s)
        return statement.gateway_id if is_new else None

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        """Check a signature by present keys, or, for a named life, by former ones."""
        verdict = self._verify(gateway_id, message, signature, late_s)
        if verdict is not Verdict.UNKNOWN or not life:
            return verdict
        since_s = self._now_s - late_s
        return self.former.verify(gateway_id, message, signature, since_s=since_s, life=life)

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        """Return whether a signature names a present key, or for a named life a former one."""
        if any(self._keys_of(gateway_id, signature, late_s)):
            return True
        since_s = self._now_s - late_s
        return life > 0 and self.former.names(gateway_id, signature, since_s=since_s, life=life)

    def only_receives(self, gateway_id: str) -> bool:
        """Return whether all certificates of a gateway that count are a collector's."""
        counting = [one for one in self._of.get(gateway_id, {}).values() if self._counts(one)]
        return bool(counting) and all(one.only_receives for one in counting)

    def _counts(self, vouched: CertificateFacts, late_s: float = 0.0) -> bool:
        return vouched.from_s <= self._now_s <= vouched.until_s + late_s

    def _verify(self, gateway_id: str, message: bytes, signature: bytes, late_s: float) -> Verdict:
        verdict = Verdict.UNKNOWN
        for key in self._keys_of(gateway_id, signature, late_s):
            if has_signed(key, message, signature):
                return Verdict.PROVEN
            verdict = Verdict.FORGED
        return verdict

    def _keys_of(self, gateway_id: str, signature: bytes, late_s: float) -> Iterator[PublicKey]:
        """Yield the keys of a gateway that count now and may have made a signature."""
        for vouched in self._named.get(gateway_id, {}).get(signature[:NAME_BYTES], ()):
            if self._counts(vouched, late_s):
                yield vouched.key

    def _has_stated(self, gateway_id: str, message: bytes, signature: bytes) -> bool:
        return bool(self._verify(gateway_id, message, signature, math.inf))

    def knows(self, gateway_id: str) -> bool:
        """Return whether there is any certificate of a gateway."""
        return gateway_id in self._of

    def follow_time(self, now_s: float) -> None:
        """It is so late now, on the wall clock."""
        self._now_s = now_s

    def follow_trust(self, trust: Trust) -> set[str]:
        """Follow the authorities and their lists, which may be others now.

        Returns:
            The gateways of which a certificate no longer counts; it is forgotten.

        """
        self._trust = trust
        lost: set[str] = set()
        for fingerprint, kept in list(self._kept.items()):
            try:
                trust.check(kept.chain, self._now_s)
            except RevokedCertificateError:  # it was proven once: so the authority's it is
                self.former.take_back([digest_of(kept.vouched.key)])
            except UntrustedError:
                pass
            else:
                continue
            self._forget(fingerprint)
            lost.add(kept.vouched.gateway_id)
        for gateway_id in lost:
            self._index(gateway_id)
        return lost

    def _make_room(self, vouched: CertificateFacts) -> None:
        """Forget the gateway whose last certificate ended first, for one whose counts.

        Raises:
            UntrustedError: nobody's has ended, or this one has, too.

        """
        ended_s, longest_ago = min(
            (max(one.until_s for one in of.values()), gateway_id)
            for gateway_id, of in self._of.items()
        )
        if not ended_s < self._now_s <= vouched.until_s:
            raise UntrustedError("certificate of one gateway too many", vouched.gateway_id)
        for fingerprint in list(self._of[longest_ago]):
            self._forget(fingerprint)
        self._index(longest_ago)

    def _forget(self, fingerprint: bytes) -> None:
        gateway_id = self._kept.pop(fingerprint).vouched.gateway_id
        del self._of[gateway_id][fingerprint]

    def _index(self, gateway_id: str) -> None:
        named: dict[bytes, list[CertificateFacts]] = {}
        for vouched in self._of[gateway_id].values():
            named.setdefault(name_of(vouched.key), []).append(vouched)
        self._named[gateway_id] = named
        if not named:
            del self._named[gateway_id], self._of[gateway_id]
        self.former.look_again(gateway_id)


def _age(fingerprint: bytes, vouched: CertificateFacts) -> tuple[float, bytes]:
    """Return what the certificates of one gateway are ordered by, the same everywhere."""
    return vouched.from_s, fingerprint


def fingerprint_of(chain: Chain) -> bytes:
    """Return what names a certificate: the first bytes of its SHA-256."""
    return hashlib.sha256(chain[0]).digest()[:FINGERPRINT_BYTES]
