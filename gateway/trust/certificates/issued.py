"""Certificates that an authority has issued: an index in one file, replaced as a whole."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.trust.certificates import x509_forms as forms
from light_dataclasses import dataclass

KEPT = datetime.timedelta(days=365)
"""For so long after their end certificates stay in the index."""
_VERSION = 1


class IssuedIndexError(ValueError):
    """An index can't be read: ``str(error)`` is one line."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """One of them.

    Attributes:
        certificate: as it was issued.
        revoked: when it was revoked; None while it is not.

    """

    certificate: x509.Certificate
    revoked: datetime.datetime | None = None

    @property
    def serial(self) -> str:
        """Its number, in hexadecimal."""
        return f"{self.certificate.serial_number:x}"

    @property
    def name(self) -> str:
        """Its holder's."""
        return forms.common_name(self.certificate.subject)

    @property
    def issuer(self) -> str:
        """The name of the authority that issued it."""
        return forms.common_name(self.certificate.issuer)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that its alternative names give its holder."""
        return forms.roles_of(forms.alternative_names_of(self.certificate))

    @property
    def is_service(self) -> bool:
        """Return whether it is the enrolment service's, which renews its certificate itself."""
        return forms.ENROLMENT in self.roles

    @property
    def until(self) -> datetime.datetime:
        """Return when the certificate ends."""
        return self.certificate.not_valid_after_utc

    @property
    def pem(self) -> bytes:
        """Itself, as its file has it."""
        return self.certificate.public_bytes(Encoding.PEM)

    def is_valid(self, now: datetime.datetime) -> bool:
        """Return whether it is neither revoked nor over."""
        return self.revoked is None and now < self.until

    def as_json(self) -> dict[str, Any]:
        """Return what the index has of it; all but the last two are for people."""
        return {
            "name": self.name,
            "serial": self.serial,
            "roles": list(self.roles),
            "until": self.until.isoformat(),
            "revoked": None if self.revoked is None else self.revoked.isoformat(),
            "certificate": self.pem.decode(),
        }


@dataclass(slots=True)
class IssuedIndex:
    """All of them, in the order in which they were issued.

    Attributes:
        issued: these.
        revoked_elsewhere: serial numbers on lists of before there was an index, by issuer's name.
        list_number: of the last revocation list.

    """

    issued: list[IssuedCertificate] = field(default_factory=list)
    revoked_elsewhere: dict[str, list[int]] = field(default_factory=dict)
    list_number: int = 0

    @classmethod
    def parse(cls, data: bytes) -> IssuedIndex:
        """Read an index.

        Raises:
            IssuedIndexError: it is none.

        """
        try:
            document = json.loads(data)
            if document["version"] != _VERSION:
                raise IssuedIndexError(f"version {document['version']!r}, and {_VERSION} is known")
            return cls(
                [_read(each) for each in document["issued"]],
                {str(k): [int(n, 16) for n in v] for k, v in document["revoked_elsewhere"].items()},
                int(document["list_number"]),
            )
        except IssuedIndexError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IssuedIndexError("no index of certificates") from error

    def as_bytes(self) -> bytes:
        """Return what the file holds."""
        elsewhere = {k: [f"{n:x}" for n in v] for k, v in self.revoked_elsewhere.items()}
        document = {
            "version": _VERSION,
            "list_number": self.list_number,
            "revoked_elsewhere": elsewhere,
            "issued": [one.as_json() for one in self.issued],
        }
        return json.dumps(document, indent=1).encode() + b"\n"

    def current(self) -> dict[str, IssuedCertificate]:
        """Return the newest certificate of each name."""
        return {one.name: one for one in self.issued}

    def add(self, certificate: x509.Certificate, now: datetime.datetime) -> IssuedCertificate:
        """Note a new one, and forget those that ended long ago.

        What is revoked stays: by a clock that is right again it may not have ended.
        """
        self.issued = [
            one for one in self.issued if one.revoked is not None or now < one.until + KEPT
        ]
        self.issued.append(issued := IssuedCertificate(certificate))
        return issued

    def revoke(self, serials: Iterable[str], now: datetime.datetime) -> list[IssuedCertificate]:
        """Revoke some; those that were not before are returned."""
        chosen, fresh = set(serials), []
        for at, one in enumerate(self.issued):
            if one.serial in chosen and one.revoked is None:
                self.issued[at] = dataclasses.replace(one, revoked=now)
                fresh.append(self.issued[at])
        return fresh

    def revoked_by(
        self, issuer: str, now: datetime.datetime
    ) -> list[tuple[int, datetime.datetime]]:
        """Return what stands on an authority's list: serial numbers, and since when.

        Those that have ended stay on it for `KEPT`: a clock may be behind.
        """
        found = [
            (one.certificate.serial_number, one.revoked)
            for one in self.issued
            if one.issuer == issuer and one.revoked is not None and now < one.until + KEPT
        ]
        return found + [(serial, now) for serial in self.revoked_elsewhere.get(issuer, ())]


def _read(each: Mapping[str, Any]) -> IssuedCertificate:
    revoked = each["revoked"]
    return IssuedCertificate(
        x509.load_pem_x509_certificate(each["certificate"].encode()),
        None if revoked is None else datetime.datetime.fromisoformat(revoked),
    )
