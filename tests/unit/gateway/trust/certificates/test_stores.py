"""Goal: a gateway reads stores under a password, and no disk has them in the clear."""

from __future__ import annotations

import ssl
from pathlib import Path

import fleet_keys
import pytest

from gateway.base import systemd_credentials
from gateway.process.access import files as access_files
from gateway.process.configuration import config
from gateway.tools import cli
from gateway.trust.certificates import pkcs12_files, private_keys, stores
from gateway.trust.certificates.authority_folder import is_of
from gateway.trust.certificates.pkcs12_files import Pkcs12Error
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fleet's keys, as PEM and under the password "open sesame"."""
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    password.chmod(0o600)
    fleet_keys.issue(tmp_path / "ca", "gw-a")
    export = ("export", "--ca", tmp_path / "ca", "--password-file", password, "--to")
    fleet_keys.keys(*export, tmp_path / "gw-a.p12", "gw-a")
    fleet_keys.keys(*export, tmp_path / "trust.p12", "--trust")
    (key,) = private_keys.load((tmp_path / "ca" / "gw-a.key.pem").read_bytes())
    (tmp_path / "encrypted.pem").write_bytes(private_keys.as_pem(key, b"open sesame"))
    (tmp_path / "encrypted.pem").chmod(0o600)
    return tmp_path


def under_a_password(folder: Path) -> TlsFiles:
    store = folder / "gw-a.p12"
    required = ClientCertificate.REQUIRED
    return TlsFiles(store, store, required, folder / "trust.p12", folder / "ca" / "revoked.pem")


def test_a_store_serves_as_the_files_that_it_was_made_of(folder: Path) -> None:
    found = stores.in_the_clear(under_a_password(folder), folder / "password")
    tls = Tls(found)
    plain = Tls(
        TlsFiles(
            folder / "ca" / "gw-a.pem",
            folder / "ca" / "gw-a.key.pem",
            ClientCertificate.REQUIRED,
            folder / "ca" / "ca.pem",
            folder / "ca" / "revoked.pem",
        )
    )
    assert tls.own == plain.own
    assert tls.authorities == plain.authorities
    assert tls.context.verify_mode is ssl.CERT_REQUIRED


def test_a_key_may_be_encrypted_pem(folder: Path) -> None:
    files = TlsFiles(folder / "ca" / "gw-a.pem", folder / "encrypted.pem")
    found = stores.in_the_clear(files, folder / "password")
    (key,) = private_keys.load(found.key.read_bytes())
    assert is_of(key, Tls(found).own[0])
    assert found.certificate == files.certificate


def test_files_without_a_password_stay_as_they_are(folder: Path) -> None:
    files = TlsFiles(folder / "ca" / "gw-a.pem", folder / "ca" / "gw-a.key.pem")
    assert stores.in_the_clear(files) == files


def test_no_disk_has_what_was_opened(folder: Path) -> None:
    before = set(folder.rglob("*"))
    found = stores.in_the_clear(under_a_password(folder), folder / "password")
    assert b"BEGIN PRIVATE KEY" in found.key.read_bytes()
    assert "memfd:" in str(found.key.readlink())
    assert set(folder.rglob("*")) == before


def test_systemds_credential_opens_them_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "password").rename(folder / systemd_credentials.KEYSTORE_PASSWORD)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    assert Tls(stores.in_the_clear(under_a_password(folder))).own


def test_what_does_not_open_is_named(folder: Path) -> None:
    wrong = folder / "wrong"
    wrong.write_text("open barley\n")
    wrong.chmod(0o600)
    files = TlsFiles(folder / "ca" / "gw-a.pem", folder / "encrypted.pem")
    for given, password, why in (
        (under_a_password(folder), wrong, "gw-a.p12: no PKCS#12 that can be read"),
        (under_a_password(folder), None, "gw-a.p12: no PKCS#12 that can be read"),
        (files, wrong, "encrypted.pem: the password does not open the key"),
        (files, None, "encrypted.pem: the key is encrypted, and there is no password"),
        (files, folder / "nowhere", "nowhere: No such file"),
    ):
        with pytest.raises(TlsFileError, match=why):
            stores.in_the_clear(given, password)
    (folder / "gw-a.p12").chmod(0o644)
    with pytest.raises(TlsFileError, match="lets others in"):
        stores.in_the_clear(under_a_password(folder), folder / "password")


def test_a_store_that_was_replaced_is_opened_again(folder: Path) -> None:
    first = Tls(stores.in_the_clear(under_a_password(folder), folder / "password"))
    fleet_keys.keys("renew", "--ca", folder / "ca", "gw-a")
    export = ("export", "--ca", folder / "ca", "--password-file", folder / "password", "--to")
    fleet_keys.keys(*export, folder / "gw-a.p12", "gw-a")
    second = Tls(stores.in_the_clear(under_a_password(folder), folder / "password"))
    assert first.own != second.own
    assert not any(b"gw-a" in one.read_bytes() for one in folder.glob("*.new"))


def test_a_configuration_names_them_as_any_other_file(folder: Path) -> None:
    (folder / "tree.key").write_text("ab" * 32)
    (folder / "tree.key").chmod(0o600)
    text = """
[gateway]
id = "gw-a"
state_dir = "state"
[mqtt]
tls_port = 0
certificate_file = "gw-a.p12"
key_file = "gw-a.p12"
client_certificate = "optional"
client_ca_file = "trust.p12"
client_crl_file = "ca/revoked.pem"
[tree]
key_file = "tree.key"
discovery = false
"""
    (folder / "gateway.toml").write_text(f'{text}[keys]\npassword_file = "password"\n')
    settings = config.load(folder / "gateway.toml", config.GatewaySettings)
    files = access_files.read(settings)
    assert files.links is not None and files.signing is not None
    assert cli.main(["check", "--config", str(folder / "gateway.toml")]) == 0
    assert [one.field for one in files.expiring][:1]
    (folder / "gateway.toml").write_text(text)
    settings = config.load(folder / "gateway.toml", config.GatewaySettings)
    with pytest.raises(config.ConfigError, match=r"mqtt.certificate_file: .*gw-a.p12: no PKCS#12"):
        access_files.read(settings)
    (folder / "gateway.toml").write_text(f'{text}[keys]\nservice = "10.0.0.9:8890"\n')
    with pytest.raises(config.ConfigError, match=r"renews certificates in PEM alone"):
        config.load(folder / "gateway.toml", config.GatewaySettings)


def test_a_store_goes_there_and_back(folder: Path) -> None:
    (folder / "back").mkdir()
    source = (folder / "gw-a.p12", "--to", folder / "back")
    fleet_keys.keys("import", *source, "--password-file", folder / "password")
    for name, before in (("gateway", "gw-a"), ("gateway.key", "gw-a.key"), ("ca", "ca")):
        assert (folder / "back" / f"{name}.pem").read_bytes() == (
            folder / "ca" / f"{before}.pem"
        ).read_bytes()
    assert (folder / "back" / "gateway.key.pem").stat().st_mode & 0o777 == 0o600


def test_an_authority_that_was_made_elsewhere_is_taken_over(folder: Path) -> None:
    (key,) = private_keys.load((folder / "ca" / "ca.key.pem").read_bytes())
    certificate = stores.read("ca", folder / "ca" / "ca.pem")
    own = pkcs12_files.x509.load_pem_x509_certificate(certificate)
    data = pkcs12_files.pack(pkcs12_files.KeystoreContent(key, own, []), b"open sesame")
    (folder / "corporate.p12").write_bytes(data)
    given = ("--from", folder / "corporate.p12", "--password-file", folder / "password")
    fleet_keys.keys("init-ca", "--ca", folder / "taken", *given)
    fleet_keys.issue(folder / "taken", "gw-b")
    made = pkcs12_files.x509.load_pem_x509_certificate((folder / "taken" / "gw-b.pem").read_bytes())
    made.verify_directly_issued_by(own)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x30\x80" + bytes(100)])
def test_what_is_no_store_is_refused(data: bytes) -> None:
    with pytest.raises(Pkcs12Error):
        pkcs12_files.unpack(data, b"x")


def test_what_was_opened_is_closed_when_so_many_others_were_opened_since(folder: Path) -> None:
    key = folder / "encrypted.pem"
    files = TlsFiles(folder / "ca" / "gw-a.pem", key)

    def opened() -> Path:
        key.write_bytes(key.read_bytes() + b"\n")
        return stores.in_the_clear(files, folder / "password").key

    first = opened()
    for _ in range(stores.REMEMBERED - 1):
        opened()
    assert first.exists()
    opened()
    assert not first.exists()
