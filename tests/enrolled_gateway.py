"""A gateway's files of certificates that an enrolment service renews, and that service."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from gateway.trust.certificates import founding
from gateway.trust.certificates.authority import Authority
from gateway.trust.enrolment.desk import EnrolmentDesk
from gateway.trust.enrolment.service import EnrolmentService


@dataclass
class Enrolled:
    """A gateway's files, and the service that they are renewed by."""

    folder: Path
    authority: Authority
    service: EnrolmentService
    port: int

    @property
    def mqtt(self) -> str:
        return (
            f'tls_port = 0\ncertificate_file = "{self.folder}/gateway.pem"\n'
            f'key_file = "{self.folder}/gateway.key.pem"\nclient_certificate = "optional"\n'
            f'client_ca_file = "{self.folder}/ca.pem"\n'
            f'client_crl_file = "{self.folder}/revoked.pem"\n'
        )

    @property
    def keys(self) -> str:
        return f'[keys]\nservice = "127.0.0.1:{self.port}"\n'

    @property
    def own(self) -> x509.Certificate:
        return x509.load_pem_x509_certificates((self.folder / "gateway.pem").read_bytes())[0]

    @property
    def bytes(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


@asynccontextmanager
async def enrolled_gateway(folder: Path) -> AsyncIterator[Enrolled]:
    """Make the files, and run the service."""
    authority = founding.found(folder / "ca")
    authority.issue("gw", ["127.0.0.1"], roles=("gateway",), days=30, kind="p256")
    files = folder / "tls"
    files.mkdir()
    for there, here in (
        ("ca.pem", "ca.pem"),
        ("revoked.pem", "revoked.pem"),
        ("gw.pem", "gateway.pem"),
        ("gw.key.pem", "gateway.key.pem"),
    ):
        (files / here).touch(mode=0o600)
        (files / here).write_bytes((authority.folder / there).read_bytes())
    service = EnrolmentService(authority, EnrolmentDesk(authority, time.time))
    port = await service.start("127.0.0.1", 0)
    try:
        yield Enrolled(files, authority, service, port)
    finally:
        await service.stop()
