"""The keys that sign: Ed25519 (RFC 8032) and ECDSA on P-256 with SHA-256 (FIPS 186-5).

A signature begins with four bytes that name the key (the first of the SHA-256 of its
SubjectPublicKeyInfo, RFC 5280, 4.1.2.7), so that of a gateway's keys only the right one is tried.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NAME_BYTES = 4

PrivateKey = Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PublicKey = Ed25519PublicKey | ec.EllipticCurvePublicKey

_ECDSA = ec.ECDSA(hashes.SHA256())


def is_for_signing(key: object) -> bool:
    """Return whether a private or public key is of a kind that signs here."""
    if isinstance(key, (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)):
        return isinstance(key.curve, ec.SECP256R1)
    return isinstance(key, (Ed25519PrivateKey, Ed25519PublicKey))


def encoded(key: PublicKey) -> bytes:
    """Return its SubjectPublicKeyInfo in DER."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.DER, form)


def name_of(key: PublicKey) -> bytes:
    """Return the bytes that its signatures begin with."""
    return hashlib.sha256(encoded(key)).digest()[:NAME_BYTES]


class KeySigner:
    """A `tree_handler.proof.Signer` with a private key.

    Attributes:
        public_key: the other half of it.

    """

    def __init__(self, key: PrivateKey) -> None:
        self.public_key: PublicKey = key.public_key()
        self._key = key
        self._name = name_of(self.public_key)

    def is_of(self, signature: bytes) -> bool:
        """Return whether a signature names this key."""
        return signature[:NAME_BYTES] == self._name

    def sign(self, message: bytes) -> bytes:
        """Sign with the private key."""
        if isinstance(self._key, Ed25519PrivateKey):
            return self._name + self._key.sign(message)
        return self._name + self._key.sign(message, _ECDSA)


def has_signed(key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Return whether a signature that begins with this key's name is of this key."""
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature[NAME_BYTES:], message)
        else:
            key.verify(signature[NAME_BYTES:], message, _ECDSA)
    except InvalidSignature:
        return False
    return True
