"""An authority, and a gateway's files of certificates that an administrator changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from authority import Authority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gateway.trust.certificates import pkcs12_files
from gateway.trust.certificates.pkcs12_files import KeystoreContent
from gateway.trust.certificates.signature_keys import PrivateKey

PASSWORD = "open sesame"


class Fleet:
    """An authority, and the files of a gateway that it vouches for."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "issued").mkdir()
        self.authority = Authority(folder / "issued")
        self.folder = folder
        first = self.authority.issue("gw", is_gateway=True)
        self.certificate, self.key = folder / "gateway.pem", folder / "gateway.key.pem"
        self.trusted = folder / "ca.pem"
        self.certificate.write_bytes(first.certificate.read_bytes())
        self.key.touch(mode=0o600)
        self.key.write_bytes(first.key.read_bytes())
        self.trusted.write_bytes(self.authority.file.read_bytes())

    @property
    def mqtt(self) -> str:
        return (
            f'tls_port = 0\ncertificate_file = "{self.certificate}"\nkey_file = "{self.key}"\n'
            f'client_certificate = "optional"\nclient_ca_file = "{self.trusted}"\n'
        )

    @property
    def bytes(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.glob("*.pem")}

    def store(self, *names: str, **how: Any) -> tuple[bytes, x509.Certificate]:
        """A key store of another key, and its certificate."""
        made = self.authority.issue(*(names or ("gw",)), is_gateway=True, **how)
        key = load_pem_private_key(made.key.read_bytes(), None)
        assert isinstance(key, PrivateKey)
        content = KeystoreContent(key, made.x509, [])
        return pkcs12_files.pack(content, PASSWORD.encode()), made.x509
