"""A certificate is renewed from the page, by a real enrolment service."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from page_gateway import looker, page_gateway

from gateway.trust.certificates import founding
from gateway.trust.enrolment.desk import EnrolmentDesk
from gateway.trust.enrolment.service import EnrolmentService


@dataclass
class Enrolled:
    """A gateway's files, and the service that they are renewed by."""

    folder: Path
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
    def own(self) -> x509.Certificate:
        return x509.load_pem_x509_certificates((self.folder / "gateway.pem").read_bytes())[0]


@pytest.fixture
async def enrolled(tmp_path: Path) -> AsyncIterator[Enrolled]:
    authority = founding.found(tmp_path / "ca")
    authority.issue("gw", ["127.0.0.1"], roles=("gateway",), days=30, kind="p256")
    folder = tmp_path / "tls"
    folder.mkdir()
    for there, here in (
        ("ca.pem", "ca.pem"),
        ("revoked.pem", "revoked.pem"),
        ("gw.pem", "gateway.pem"),
        ("gw.key.pem", "gateway.key.pem"),
    ):
        (folder / here).touch(mode=0o600)
        (folder / here).write_bytes((authority.folder / there).read_bytes())
    service = EnrolmentService(authority, EnrolmentDesk(authority, time.time))
    port = await service.start("127.0.0.1", 0)
    yield Enrolled(folder, service, port)
    await service.stop()


async def test_a_certificate_is_renewed_at_once_for_the_key_that_it_has(
    enrolled: Enrolled, tmp_path: Path
) -> None:
    before, key = enrolled.own, (enrolled.folder / "gateway.key.pem").read_bytes()
    keys = f'[keys]\nservice = "127.0.0.1:{enrolled.port}"\n'
    async with (
        page_gateway(tmp_path / "gateway", mqtt=enrolled.mqtt, more=keys) as gateway,
        looker(gateway, "anna") as anna,
    ):
        assert (await anna.get("keys"))[1]["service"] == f"127.0.0.1:{enrolled.port}"
        status, told = await anna.ask("POST", "keys/renew", {})
        assert status == 200, told
        assert "gateway.pem" in told["writes"]
        assert await gateway.process.reload() == ""
        assert [one["what"] for one in gateway.audit].count("certificate renewed") == 1
        await enrolled.service.stop()
        status, told = await anna.ask("POST", "keys/renew", {})
        assert status == 502 and "127.0.0.1" in told["error"]
    assert enrolled.own.serial_number != before.serial_number
    assert enrolled.own.public_key() == before.public_key()
    assert (enrolled.folder / "gateway.key.pem").read_bytes() == key
