"""Holdings of key stores and trust stores: whose they are, until when, and what each serves."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from gateway.trust.certificates.expiry import DAY_S
from gateway.trust.credentials.certificate_files import certificates, revocation_lists
from gateway.trust.credentials.tls_file_faults import TlsFileError
from light_dataclasses import dataclass

OWN, AUTHORITY, LIST = "certificate", "authority", "revocation list"
FIELDS: Final = {"certificate_file": OWN, "client_ca_file": AUTHORITY, "client_crl_file": LIST}
"""The kind of content of a section's files, by its fields."""
_NAME_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class ServingFile:
    """One file of a section of the configuration.

    Attributes:
        field: as ``mqtt.certificate_file``.
        file: as the configuration names it.
        readable: the same in the clear: another one where that is a store under a password.
        serves: what needs it.

    """

    field: str
    file: Path
    readable: Path
    serves: str


@dataclass(frozen=True, slots=True)
class HeldItem:
    """A certificate or a revocation list.

    Attributes:
        of: the file.
        what: ``certificate``, ``authority`` or ``revocation list``.
        name: the subject's common name; of a list, its issuer's.
        ends: when it ends; None for a list that does not.
        serial: in hexadecimal; empty for a list.
        fingerprint: SHA-256 in hexadecimal.
        key: of what kind: ``P-256``, ``Ed25519``; empty for a list.
        why: why the file can't be read; empty if it can.

    """

    of: ServingFile
    what: str
    name: str = ""
    ends: datetime.datetime | None = None
    serial: str = ""
    fingerprint: str = ""
    key: str = ""
    why: str = ""

    def days_left(self, now: datetime.datetime) -> int | None:
        """Return whole days until it ends, negative if it has; None if it does not."""
        return None if self.ends is None else int((self.ends - now).total_seconds() // DAY_S)

    def state(self, now: datetime.datetime) -> str:
        """Return what is wrong with it, or else in how many days it ends, in words."""
        if self.why:
            return self.why
        days = self.days_left(now)
        if days is None:
            return "does not end"
        return "ended" if days < 0 else f"ends in {days} days"

    def as_json(self, now: datetime.datetime) -> dict[str, Any]:
        """Return all that there is to say of it."""
        return {
            "field": self.of.field,
            "file": str(self.of.file),
            "is_store": self.of.file != self.of.readable,
            "serves": self.of.serves,
            "what": self.what,
            "name": self.name,
            "ends": None if self.ends is None else self.ends.isoformat(),
            "days_left": self.days_left(now),
            "serial": self.serial or None,
            "sha256": self.fingerprint or None,
            "key": self.key or None,
            "why": self.why or None,
        }


def held(files: Iterator[ServingFile]) -> Iterator[HeldItem]:
    """List what files hold; one that can't be read is an item that says why.

    Args:
        files: of the configuration.

    """
    for one in files:
        field = one.field.rpartition(".")[2]
        what = FIELDS[field]
        try:
            if what == LIST:
                for _, revoked in revocation_lists(field, one.readable):
                    yield _list(one, revoked)
            else:
                for certificate in certificates(field, one.readable):
                    yield _certificate(one, what, certificate)
        except TlsFileError as error:
            yield HeldItem(one, what, why=error.why)


def _certificate(of: ServingFile, what: str, found: x509.Certificate) -> HeldItem:
    return HeldItem(
        of,
        what,
        _named(found.subject),
        found.not_valid_after_utc,
        f"{found.serial_number:x}",
        found.fingerprint(hashes.SHA256()).hex(),
        _kind(found),
    )


def _list(of: ServingFile, found: x509.CertificateRevocationList) -> HeldItem:
    ends = found.next_update_utc
    digest = found.fingerprint(hashes.SHA256()).hex()
    return HeldItem(of, LIST, _named(found.issuer), ends, fingerprint=digest)


def _kind(found: x509.Certificate) -> str:
    key = found.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return {"secp256r1": "P-256"}.get(key.curve.name, key.curve.name)
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    return type(key).__name__.removesuffix("PublicKey").removeprefix("_")


def _named(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    text = str(found[0].value) if found else name.rfc4514_string()
    return text[:_NAME_CHARACTERS]
