"""Certificate of a first start's page: nobody vouches for it, so its fingerprint is shown.

There is no authority yet. Who wants to know that he talks to the gateway, and to no neighbour that
pretends to be it, compares the fingerprint with the one on the screen, or that of the card.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.tools.provisioning.new_folder import write
from gateway.tools.provisioning.secret import MODE
from gateway.trust.certificates import private_keys, x509_forms
from gateway.trust.enrolment.tokens import fingerprint_of
from gateway.trust.tls.context import Tls, TlsFiles

NAME: Final = "hedgerow-first-start"
DAYS: Final = 3_650
"""A card may lie in a drawer."""


def made() -> tuple[str, str]:
    """Return a new certificate and its key, in PEM."""
    key = private_keys.make(private_keys.KINDS[0])
    issuer = x509_forms.authority(key, DAYS)
    others = x509_forms.alternative_names(NAME, [x509_forms.ENROLMENT], ["localhost"])
    own = x509_forms.certificate(issuer, key, key.public_key(), NAME, others, DAYS)
    return own.public_bytes(Encoding.PEM).decode(), private_keys.as_pem(key).decode()


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of a certificate in PEM, as browsers show it.

    Raises:
        ValueError: it is no certificate.

    """
    der = fingerprint_of(x509.load_pem_x509_certificate(certificate.encode()))
    return der.hex(":").upper()


def tls(certificate: str, key: str) -> Tls:
    """Return the TLS of listeners.

    Args:
        certificate: in PEM.
        key: of it, in PEM.

    Raises:
        TlsFileError: they can't be used.
        OSError: there is no place for them: OpenSSL reads files alone.

    """
    with tempfile.TemporaryDirectory(prefix="hedgerow-first-start-") as folder:
        files = TlsFiles(Path(folder) / "page.pem", Path(folder) / "page.key.pem")
        write(files.certificate, certificate, MODE)
        write(files.key, key, MODE)
        return Tls(files)
