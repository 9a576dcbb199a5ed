"""One-time tokens: who holds one is given the certificate of a name, once.

A token's text carries what its holder needs: where the enrolment service is, and the fingerprint of
the authority that vouches for it, so that nobody else is told the secret. What an authority keeps
of it is in `gateway.trust.certificates.token_book`.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from dtls.datagrams import join_host_port
from gateway.trust.certificates.names import is_file_name
from gateway.trust.certificates.token_book import SECRET_BYTES, TokenError
from light_dataclasses import dataclass

FINGERPRINT_BYTES = 32
SCHEME = "hedgerow-enrol"
_PART = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class EnrolmentToken:
    """The content of an enrolment token.

    Attributes:
        name: who is to be enrolled.
        service: where, as ``host:port``.
        fingerprint: SHA-256 of the certificate of the authority that vouches for the service.
        secret: proves that its holder may.

    """

    name: str
    service: str
    fingerprint: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"EnrolmentToken({self.name!r}, {self.service!r})"

    def as_text(self) -> str:
        """Return the token as it is shown, once."""
        parts = (_encoded(self.fingerprint), _encoded(self.secret))
        return f"{SCHEME}://{self.name}@{self.service}/{'/'.join(parts)}"

    @classmethod
    def parse(cls, text: str) -> EnrolmentToken:
        """Read a token.

        Raises:
            TokenError: it is none.

        """
        try:
            url = urlsplit(text.strip())
            name, host, port = url.username or "", url.hostname or "", url.port
            fingerprint, secret = map(_decoded, url.path.removeprefix("/").split("/"))
        except ValueError as error:
            raise TokenError("no token: it begins with hedgerow-enrol:// and is one line") from (
                None if isinstance(error, binascii.Error) else error
            )
        sizes = (len(fingerprint), len(secret))
        if (
            url.scheme != SCHEME
            or not is_file_name(name)
            or not host
            or port is None
            or sizes != (FINGERPRINT_BYTES, SECRET_BYTES)
        ):
            raise TokenError("no token, or a part of one: it begins with hedgerow-enrol://")
        return cls(name, join_host_port(host, port), fingerprint, secret)


def fingerprint_of(certificate: x509.Certificate) -> bytes:
    """Return what a token names an authority by."""
    return certificate.fingerprint(hashes.SHA256())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    if not _PART.fullmatch(text):
        raise binascii.Error("no part of a token")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
