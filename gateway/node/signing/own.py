"""The key that a gateway signs with, of its certificate, and the chain that it shows of it."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding

from dtls import private_file
from gateway.node.signing.trust import MAX_CHAIN, Chain
from gateway.trust.certificates.signature_keys import KeySigner, PrivateKey, is_for_signing
from gateway.trust.credentials.certificate_files import certificates, read
from gateway.trust.credentials.tls_file_faults import TlsFileError
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnKey:
    """This gateway's signer, and the certificates with which others check it."""

    signer: KeySigner
    chain: Chain

    @classmethod
    def read(cls, certificate: Path, key: Path) -> OwnKey:
        """Read a key and its certificate from files in PEM.

        Raises:
            TlsFileError: one can't be read, or the key is of a kind that does not sign here.

        """
        chain = certificates("certificate_file", certificate)[:MAX_CHAIN]
        data = read("key_file", key, private_file.read)
        try:
            private = serialization.load_pem_private_key(data, None)
        except (ValueError, TypeError) as error:
            raise TlsFileError("key_file", key, "no private key in PEM") from error
        if not isinstance(private, PrivateKey) or not is_for_signing(private):
            why = "signs no batches: it is neither Ed25519 nor P-256 (tree.signatures)"
            raise TlsFileError("key_file", key, why)
        return cls(KeySigner(private), tuple(one.public_bytes(Encoding.DER) for one in chain))
