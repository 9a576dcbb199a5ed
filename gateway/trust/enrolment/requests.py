"""Requests for certificates (PKCS#10, RFC 2986), and what a service answers: JSON objects.

| request | body | who may |
|---|---|---|
| ``GET /trust`` | | everybody: it is public |
| ``POST /enrol`` | ``name``, ``secret``, ``request`` | who has a token |
| ``POST /renew`` | ``request`` | who shows a certificate of the authority that is valid |

``request`` is a PKCS#10 in PEM: it proves that who asks has the key. All else in it is left out of
account: what a certificate says is the authority's business.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.signature_keys import PrivateKey, PublicKey, is_for_signing
from light_dataclasses import dataclass

TRUST, ENROL, RENEW = "/trust", "/enrol", "/renew"
BODY_BYTES_MAX = 8_192
ANSWER_BYTES_MAX = 4 << 20
"""A list of 50,000 that were revoked is 2 MB."""


class EnrolmentRequestError(ValueError):
    """A request or an answer can't be read: ``str(error)`` is one line."""


@dataclass(frozen=True, slots=True)
class EnrolmentAnswer:
    """The authorities that a fleet trusts, in PEM.

    Attributes:
        authorities: the certificates of the authorities.
        revoked: their lists.
        certificate: of who asked; empty where none was asked for.
        welcome: what a new gateway is handed beside it; None where there is nothing.

    """

    authorities: str
    revoked: str
    certificate: str = ""
    welcome: Mapping[str, Any] | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return the answer's object."""
        found: dict[str, Any] = {"authorities": self.authorities, "revoked": self.revoked}
        if self.certificate:
            found["certificate"] = self.certificate
        if self.welcome is not None:
            found["welcome"] = dict(self.welcome)
        return found

    @classmethod
    def parse(cls, data: bytes) -> EnrolmentAnswer:
        """Read an answer.

        Raises:
            EnrolmentRequestError: it is none.

        """
        found = read_object(data)
        return cls(
            text_of(found, "authorities"),
            text_of(found, "revoked"),
            text_of(found, "certificate") if "certificate" in found else "",
            object_of(found, "welcome") if "welcome" in found else None,
        )


def asked(key: PrivateKey, name: str) -> str:
    """Return a request for a certificate, in PEM."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(forms.named(name))
    return builder.sign(key, private_keys.digest(key)).public_bytes(Encoding.PEM).decode()


def key_of(request: str) -> PublicKey:
    """Return the key of who asks, who has proved that it has it.

    Raises:
        EnrolmentRequestError: it has not, or the key is of another kind.

    """
    try:
        found = x509.load_pem_x509_csr(request.encode())
        key = found.public_key()
        is_signed = found.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise EnrolmentRequestError("request: no PKCS#10 in PEM") from error
    if not isinstance(key, PublicKey) or not is_for_signing(key):
        raise EnrolmentRequestError("request: a key that is neither Ed25519 nor P-256")
    if not is_signed:
        raise EnrolmentRequestError("request: not signed by its own key")
    return key


def key_fingerprint(key: PublicKey) -> bytes:
    """Return what names a key: SHA-256 of its SubjectPublicKeyInfo."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest()


def read_object(data: bytes) -> Mapping[str, Any]:
    """Return a JSON object.

    Raises:
        EnrolmentRequestError: it is none.

    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EnrolmentRequestError("no JSON") from error
    if not isinstance(found, dict):
        raise EnrolmentRequestError("no JSON object")
    return found


def text_of(found: Mapping[str, Any], name: str) -> str:
    """Return a text of an object.

    Raises:
        EnrolmentRequestError: it is missing, or no text.

    """
    value = found.get(name)
    if not isinstance(value, str):
        raise EnrolmentRequestError(f"{name}: no text")
    return value


def object_of(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object of an object.

    Raises:
        EnrolmentRequestError: it is missing, or no object.

    """
    value = found.get(name)
    if not isinstance(value, dict):
        raise EnrolmentRequestError(f"{name}: no object")
    return value
