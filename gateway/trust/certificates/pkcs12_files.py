"""Key stores and trust stores in PKCS#12 (RFC 7292), as other systems keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from gateway.trust.certificates import key_work
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.key_work import KeyWorkError, NoDerError
from gateway.trust.certificates.signature_keys import PrivateKey, is_for_signing
from light_dataclasses import dataclass

KDF_ROUNDS = 100_000
"""Of PBKDF2 with HMAC-SHA-256: opening a store takes some 50 ms of a PC, for which a gateway that
reads a new one stands still. OpenSSL's own are 2,048."""


class Pkcs12Error(ValueError):
    """A PKCS#12 file can't be used: ``str(error)`` is one line."""


Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class KeystoreContent(Generic[Key]):
    """The content of a PKCS#12 file.

    Attributes:
        key: a private key; None in a trust store.
        certificate: the key's.
        authorities: others: those between it and a root, and roots.

    """

    key: Key | None
    certificate: x509.Certificate | None
    authorities: Sequence[x509.Certificate]

    @property
    def roots(self) -> list[x509.Certificate]:
        """Those that vouch for themselves."""
        return [one for one in self.authorities if one.issuer == one.subject]

    @property
    def between(self) -> list[x509.Certificate]:
        """Those that do not."""
        return [one for one in self.authorities if one.issuer != one.subject]


def pack(content: KeystoreContent[PrivateKey], password: bytes) -> bytes:
    """Return the bytes of a file.

    Args:
        content: what it holds; without a key it is a trust store, which Java reads as well.
        password: it is encrypted with.

    """
    if content.key is None or content.certificate is None:
        named = [_named(one) for one in content.authorities]
        return pkcs12.serialize_java_truststore(named, BestAvailableEncryption(password))
    encryption = (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(KDF_ROUNDS)
        .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
        .hmac_hash(hashes.SHA256())
        .build(password)
    )
    name = forms.common_name(content.certificate.subject).encode()
    return pkcs12.serialize_key_and_certificates(
        name, content.key, content.certificate, content.authorities, encryption
    )


def unpack(data: bytes, password: bytes | None) -> KeystoreContent[PrivateKey]:
    """Return what a file holds whose key is of a kind that is issued here.

    Raises:
        Pkcs12Error: it is none, the password is another one, or its key is of another kind.

    """
    found = unpack_any(data, password)
    key = found.key
    if key is not None and (not isinstance(key, PrivateKey) or not is_for_signing(key)):
        raise Pkcs12Error("a key that is neither Ed25519 nor P-256")
    return KeystoreContent(key, found.certificate, found.authorities)


def unpack_any(data: bytes, password: bytes | None) -> KeystoreContent[PrivateKeyTypes]:
    """Return what a file holds.

    Raises:
        Pkcs12Error: it is none, the password is another one, or to open it is too much work.

    """
    try:
        key_work.check(data)
        found = pkcs12.load_pkcs12(data, password)
    except NoDerError as error:
        raise Pkcs12Error(f"no PKCS#12 that can be read: {error}") from error
    except KeyWorkError as error:
        raise Pkcs12Error(f"no PKCS#12 that is opened here: {error}") from error
    except ValueError as error:
        hint = " (or the password is another one)" if b"password" in str(error).encode() else ""
        raise Pkcs12Error(f"no PKCS#12 that can be read{hint}") from error
    key, own = found.key, None if found.cert is None else found.cert.certificate
    authorities = [one.certificate for one in found.additional_certs]
    if key is None:
        everything = [*authorities, *([own] if own is not None else [])]
        return KeystoreContent(None, None, everything)
    if own is None:
        raise Pkcs12Error("a key without a certificate")
    return KeystoreContent(key, own, authorities)


def as_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return certificates as a file has them."""
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def _named(certificate: x509.Certificate) -> pkcs12.PKCS12Certificate:
    name = forms.common_name(certificate.subject).encode()
    return pkcs12.PKCS12Certificate(certificate, name)
