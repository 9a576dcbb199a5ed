"""Private keys of certificates: made, and written as PKCS#8 in PEM (RFC 5958)."""

from __future__ import annotations

import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.trust.certificates import key_work
from gateway.trust.certificates.key_work import KeyWorkError
from gateway.trust.certificates.signature_keys import PrivateKey, PublicKey, is_for_signing

KINDS = ("p256", "ed25519")
"""P-256 is what browsers and small TLS libraries know; Ed25519 signs faster."""
PEM = serialization.Encoding.PEM
_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----\n?", re.DOTALL)


class PrivateKeyError(ValueError):
    """A private key can't be used: ``str(error)`` is one line without the key."""


def make(kind: str) -> PrivateKey:
    """Return a new key.

    Args:
        kind: one of `KINDS`.

    """
    if kind == "ed25519":
        return Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1())


def kind_of(key: PrivateKey | PublicKey) -> str:
    """Return ``p256`` for a key on an elliptic curve, ``ed25519`` for any other."""
    is_curve = isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey)
    return KINDS[0] if is_curve else KINDS[1]


def digest(key: PrivateKey) -> hashes.SHA256 | None:
    """Return what a signature with the key is made over; Ed25519 has its own (RFC 8410)."""
    return hashes.SHA256() if isinstance(key, ec.EllipticCurvePrivateKey) else None


def as_pem(key: PrivateKey, password: bytes | None = None) -> bytes:
    """Return a key's block, encrypted if there is a password."""
    encryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption)


def load(pem: bytes, password: bytes | None = None) -> list[PrivateKey]:
    """Return the keys of a file.

    Args:
        pem: one block or more.
        password: of those that are encrypted.

    Raises:
        PrivateKeyError: there is none, or one can't be used.

    """
    keys: list[PrivateKey] = []
    for block in _BLOCK.finditer(pem):
        keys.append(_load(block[0], password))
    if not keys:
        raise PrivateKeyError("no private key in PEM")
    return keys


def _load(block: bytes, password: bytes | None) -> PrivateKey:
    is_encrypted = b"ENCRYPTED" in block
    if is_encrypted and not password:
        raise PrivateKeyError("the key is encrypted, and there is no password for it")
    try:
        key_work.check_pem(block)
        key = serialization.load_pem_private_key(block, password if is_encrypted else None)
    except KeyWorkError as error:
        raise PrivateKeyError(f"a key that is not opened here: {error}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = "the password does not open the key" if is_encrypted else "a key that can't be read"
        raise PrivateKeyError(why) from error
    if not isinstance(key, PrivateKey) or not is_for_signing(key):
        raise PrivateKeyError("a key that is neither Ed25519 nor P-256")
    return key


def same_key(one: PublicKey, other: PublicKey) -> bool:
    """Return whether two public keys are the same one."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return one.public_bytes(*form) == other.public_bytes(*form)
