"""Statements of gateways on their former keys: so their earlier lives stay provable.

A gateway that has another key says under it which keys were its own, until when, and up to which of
its lives. Who trusts its certificate then believes what such a key signed of those lives, though
nobody trusts the authority any more that vouched for the key (`docs/trust.md`). A statement is of
its gateway alone, so who makes a false one can forge its own history and nobody else's.

A statement is a msgpack array of a body and of its signature; the body is an array of the gateway's
id, when it was stated (seconds since 1970), and a row for each key: its SubjectPublicKeyInfo (RFC
5280, 4.1.2.7), until when it was used (likewise), and the last life that it signed. Of a gateway's
statements the newest counts, whole: so a key is taken back by one that does not name it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import msgpack
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key

from gateway.node.signing.trust import UntrustedError
from gateway.trust.certificates.signature_keys import (
    NAME_BYTES,
    PublicKey,
    encoded,
    has_signed,
    is_for_signing,
    name_of,
)
from light_dataclasses import dataclass
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.proof import MAX_SIGNATURE_BYTES, Signer, Verdict, context

MAX_FORMER = 4
"""Keys in a statement."""
MAX_STATEMENT_BYTES = 1_024
MAX_KEY_BYTES = 128
MAX_TAKEN_BACK = 10_000
"""Keys whose certificates were revoked that are remembered."""
MAX_AHEAD_S = 86_400.0
"""A statement of a later time is not taken: it could hardly be replaced."""
MAX_TIME_S = 1 << 40
_CONTEXT = context("former keys 1", "")
"""Of no tree: certificates are of none either."""

IsCurrent = Callable[[str, bytes, bytes], bool]
"""Returns whether a key of a gateway that counts signed a message: id, message, signature."""


@dataclass(frozen=True, slots=True)
class FormerKey:
    """One key that a gateway had.

    Attributes:
        key: the key.
        until_s: when it was used last, in seconds since 1970.
        last_life: the last boot epoch in which it was used.

    """

    key: PublicKey
    until_s: int
    last_life: int


@dataclass(frozen=True, slots=True)
class KeyStatement:
    """A statement of one gateway about its former keys.

    Attributes:
        gateway_id: who says it.
        stated_s: when, in seconds since 1970.
        keys: of which keys.
        body: what is signed.
        signature: of the key that it has now.

    """

    gateway_id: str
    stated_s: int
    keys: tuple[FormerKey, ...]
    body: bytes
    signature: bytes

    @classmethod
    def make(
        cls, gateway_id: str, stated_s: int, keys: Iterable[FormerKey], signer: Signer
    ) -> KeyStatement:
        """Sign a statement of which keys a gateway had, and until when."""
        known = tuple(keys)
        rows = [(encoded(one.key), one.until_s, one.last_life) for one in known]
        body = msgpack.packb((gateway_id, stated_s, rows))
        return cls(gateway_id, stated_s, known, body, signer.sign(_CONTEXT + body))

    @property
    def message(self) -> bytes:
        """Return the message that the signature is of."""
        return _CONTEXT + self.body

    @property
    def data(self) -> bytes:
        """The wire form."""
        packed: bytes = msgpack.packb((self.body, self.signature))
        return packed

    @property
    def fingerprint(self) -> bytes:
        """Return the fingerprint that names it, as one names a certificate."""
        return statement_fingerprint(self.data)

    @classmethod
    def of(cls, data: bytes) -> KeyStatement:
        """Read the wire form; who signed it is not looked at.

        Raises:
            UntrustedError: it is none.

        """
        try:
            if len(data) > MAX_STATEMENT_BYTES:
                raise ValueError(f"{len(data)} bytes")
            body, signature = msgpack.unpackb(data)
            if not isinstance(body, bytes) or not isinstance(signature, bytes):
                raise TypeError("body or signature")
            name, stated_s, rows = msgpack.unpackb(body)
            keys = tuple(map(_key_of, _rows(rows)))
            gateway_id = check_name("gateway of a statement", name)
            at_s = _whole("time", stated_s, MAX_TIME_S)
        except (ValueError, TypeError, ProtocolError, msgpack.UnpackException) as error:
            raise UntrustedError("statement of former keys", str(error)) from error
        except UnsupportedAlgorithm as error:
            raise UntrustedError("statement of former keys, key", str(error)) from error
        if not 0 < len(signature) <= MAX_SIGNATURE_BYTES:
            raise UntrustedError("statement of former keys, signature", len(signature))
        return cls(gateway_id, at_s, keys, body, signature)


class FormerKeys:
    """The newest statement of each gateway, and which keys are not to be believed whoever says so.

    Args:
        is_current: asks the ring for keys whose certificates count.

    """

    def __init__(self, is_current: IsCurrent) -> None:
        self._is_current = is_current
        self._stated: dict[str, KeyStatement] = {}
        self._named: dict[str, dict[bytes, list[FormerKey]]] = {}
        """By gateway and the name of the key."""
        self._fingerprints: dict[bytes, str] = {}
        self._taken_back: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Return the number of gateways of which there is a statement."""
        return len(self._stated)

    def __contains__(self, fingerprint: bytes) -> bool:
        """Return whether a statement is there."""
        return fingerprint in self._fingerprints

    def __iter__(self) -> Iterator[tuple[bytes, KeyStatement]]:
        """Fingerprint and statement of each gateway."""
        return ((one, self._stated[name]) for one, name in self._fingerprints.items())

    def of(self, gateway_id: str) -> KeyStatement | None:
        """Return what a gateway states; None for nothing."""
        return self._stated.get(gateway_id)

    @property
    def taken_back(self) -> list[bytes]:
        """The SHA-256 of keys that a revocation has taken back, oldest first."""
        return list(self._taken_back)

    def take(self, statement: KeyStatement, now_s: float) -> bool:
        """Take a statement, whoever hands it over; return whether it is newer than what was here.

        Args:
            statement: as it was handed over.
            now_s: the wall clock, seconds since 1970.

        Raises:
            UntrustedError: the gateway did not state it, or that can't be known.

        """
        gateway_id = statement.gateway_id
        known = self._stated.get(gateway_id)
        if known is not None and known.stated_s > now_s + MAX_AHEAD_S:
            known = None  # taken while this clock, and that gateway's, was wrong
        if known is not None and statement.stated_s <= known.stated_s:
            return False
        if statement.stated_s > now_s + MAX_AHEAD_S:
            raise UntrustedError("statement of former keys, of a later time", gateway_id)
        if not self._is_current(gateway_id, statement.message, statement.signature):
            raise UntrustedError("statement of former keys that is not proven, of", gateway_id)
        self._forget(gateway_id)
        self._stated[gateway_id] = statement
        self._fingerprints[statement.fingerprint] = gateway_id
        named = self._named.setdefault(gateway_id, {})
        for one in statement.keys:
            named.setdefault(name_of(one.key), []).append(one)
        return True

    def take_back(self, digests: Iterable[bytes]) -> None:
        """Keys of these SHA-256 are not believed any more: their certificates were revoked."""
        for digest in digests:
            self._taken_back[digest] = None
            if len(self._taken_back) > MAX_TAKEN_BACK:
                del self._taken_back[next(iter(self._taken_back))]

    def look_again(self, gateway_id: str) -> None:
        """A certificate of this gateway counts no more: does its statement still?"""
        stated = self._stated.get(gateway_id)
        if stated is not None and not self._is_current(
            gateway_id, stated.message, stated.signature
        ):
            self._forget(gateway_id)

    def verify(
        self, gateway_id: str, message: bytes, signature: bytes, *, since_s: float, life: int
    ) -> Verdict:
        """Return whether a former key of a gateway signed a message.

        Args:
            gateway_id: whose.
            message: what was signed.
            signature: of it; it begins with the key's name.
            since_s: keys that were used after this time count, in seconds since 1970.
            life: the boot epoch that the message is of.

        """
        verdict = Verdict.UNKNOWN
        for key in self._keys_of(gateway_id, signature, since_s, life):
            if has_signed(key, message, signature):
                return Verdict.PROVEN
            verdict = Verdict.FORGED
        return verdict

    def names(self, gateway_id: str, signature: bytes, *, since_s: float, life: int) -> bool:
        """Return whether `verify` would find a former key that a signature names."""
        return any(self._keys_of(gateway_id, signature, since_s, life))

    def _keys_of(
        self, gateway_id: str, signature: bytes, since_s: float, life: int
    ) -> Iterator[PublicKey]:
        for one in self._named.get(gateway_id, {}).get(signature[:NAME_BYTES], ()):
            if life > one.last_life or one.until_s < since_s:
                continue
            if digest_of(one.key) not in self._taken_back:
                yield one.key

    def _forget(self, gateway_id: str) -> None:
        stated = self._stated.pop(gateway_id, None)
        if stated is not None:
            del self._fingerprints[stated.fingerprint], self._named[gateway_id]


def statement_fingerprint(data: bytes) -> bytes:
    """Return what names a statement, by its wire form."""
    return hashlib.sha256(data).digest()[:16]


def digest_of(key: PublicKey) -> bytes:
    """Return what a key is remembered by when it is taken back."""
    return hashlib.sha256(encoded(key)).digest()


def _rows(rows: object) -> list[object]:
    if not isinstance(rows, list) or len(rows) > MAX_FORMER:
        raise ValueError("keys")
    return rows


def _key_of(row: object) -> FormerKey:
    match row:
        case [bytes(der), until_s, life] if len(der) <= MAX_KEY_BYTES:
            key = load_der_public_key(der)
            if not isinstance(key, PublicKey) or not is_for_signing(key) or encoded(key) != der:
                raise ValueError("key that signs nothing here")
            last_life = _whole("life", life, MAX_BOOT_EPOCH + 1)
            return FormerKey(key, _whole("time", until_s, MAX_TIME_S), last_life)
    raise ValueError("row of a key")


def _whole(what: str, value: object, below: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        raise ValueError(f"{what} {value!r}")
    return value
