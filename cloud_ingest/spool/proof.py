"""Proof that the batches of a spool are their origins', checked once more by the job.

The collector has checked each before it was spooled. Who reads a spool that was elsewhere since
then hands over the certificates of the gateways, as the collector keeps them (``certificates`` in
the spool's folder; a copy from where nobody else writes). Whoever hands the file over vouches for
it: chains are not looked at here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgpack
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import NameOID

from tree_handler.proof import Verdict

NAME_BYTES = 4
"""Of a key, at the beginning of each of its signatures."""

GATEWAY = "urn:hedgerow:role:gateway"
COLLECTOR = "urn:hedgerow:role:collector"
"""As `gateway.trust.tls.certificates` reads them, which the workers of a cluster do not have."""
_ECDSA = ec.ECDSA(hashes.SHA256())
_Key = Ed25519PublicKey | ec.EllipticCurvePublicKey


class CertificatesError(ValueError):
    """A file of certificates can't be read; the message names it."""


class HandedCertificates:
    """A `tree_handler.proof.KeyRing` of certificates that somebody handed over.

    Args:
        data: of the file that a collector keeps.

    Raises:
        CertificatesError: it is something else.

    """

    def __init__(self, data: bytes) -> None:
        self._keys: dict[tuple[str, bytes], _Key] = {}
        self._collectors: set[object] = set()
        self._gateways: set[object] = set()
        try:
            for chain in msgpack.unpackb(data):
                self._add(x509.load_der_x509_certificate(chain[0]))
        except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
            raise CertificatesError("no certificates as a collector keeps them") from error

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        """Check a signature; when certificates end is not looked at."""
        key = self._keys.get((gateway_id, signature[:NAME_BYTES]))
        if key is None:
            return Verdict.UNKNOWN
        try:
            if isinstance(key, Ed25519PublicKey):
                key.verify(signature[NAME_BYTES:], message)
            else:
                key.verify(signature[NAME_BYTES:], message, _ECDSA)
        except InvalidSignature:
            return Verdict.FORGED
        return Verdict.PROVEN

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        """Return whether the signing key is known; when certificates end is not looked at."""
        return (gateway_id, signature[:NAME_BYTES]) in self._keys

    def only_receives(self, gateway_id: str) -> bool:
        """Return whether all certificates of a gateway are a collector's."""
        return gateway_id in self._collectors and gateway_id not in self._gateways

    def _add(self, certificate: x509.Certificate) -> None:
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = certificate.public_key()
        if isinstance(key, _Key):
            form = serialization.PublicFormat.SubjectPublicKeyInfo
            der = key.public_bytes(serialization.Encoding.DER, form)
            (self._collectors if _only_receives(certificate) else self._gateways).add(name.value)
            self._keys[str(name.value), hashlib.sha256(der).digest()[:NAME_BYTES]] = key


def _only_receives(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    uris = found.value.get_values_for_type(x509.UniformResourceIdentifier)
    return COLLECTOR in uris and GATEWAY not in uris


def read_certificates(file: Path) -> bytes:
    """Return the certificates in a file, as tasks get them.

    Raises:
        CertificatesError: it is none that a collector keeps.

    """
    try:
        data = file.read_bytes()
        HandedCertificates(data)
    except OSError as error:
        raise CertificatesError(f"{file}: {error.strerror}") from error
    except CertificatesError as error:
        raise CertificatesError(f"{file}: {error}") from error
    return data
