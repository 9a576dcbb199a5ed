"""`hedgerow keys request`, `import` and `list`: the keys and certificates that a gateway holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509
from key_stores import CERTIFICATE, KEY, PASSWORD, patched, store

from gateway.tools import cli
from gateway.trust.certificates import pkcs12_files, private_keys
from gateway.trust.certificates import x509_forms as forms

BOMB = patched(store(1 << 16), 1 << 16, 0x7FFFFF)


def keys(*words: str | Path) -> int:
    return cli.main(["keys", *map(str, words)])


@pytest.fixture
def requested(tmp_path: Path) -> tuple[Path, x509.CertificateSigningRequest]:
    """A folder with a key, and the request for its certificate."""
    folder = tmp_path / "tls"
    folder.mkdir()
    assert keys("request", "--to", folder, "gw-a=10.0.0.1") == 0
    asked = x509.load_pem_x509_csr((folder / "gw-a.csr.pem").read_bytes())
    assert asked.is_signature_valid
    return folder, asked


def answer(asked: x509.CertificateSigningRequest, key: object, days: int = 3) -> x509.Certificate:
    others = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert isinstance(key, private_keys.PublicKey)
    return forms.certificate(CERTIFICATE, KEY, key, "gw-a", others, days)


def test_a_key_stays_where_it_is_made_and_another_authority_answers(
    tmp_path: Path, requested: tuple[Path, x509.CertificateSigningRequest]
) -> None:
    folder, asked = requested
    assert (folder / "gw-a.key.pem").stat().st_mode & 0o777 == 0o600
    assert keys("request", "--to", folder, "gw-a") == 2  # it may be in use
    answered = answer(asked, asked.public_key())
    (tmp_path / "answer.pem").write_bytes(pkcs12_files.as_pem([answered, CERTIFICATE]))
    assert keys("import", tmp_path / "answer.pem", "--to", folder) == 0
    (key,) = private_keys.load((folder / "gateway.key.pem").read_bytes())
    assert private_keys.same_key(key.public_key(), asked.public_key())  # type: ignore[arg-type]  # of this kind
    assert (folder / "gateway.pem").read_bytes() == pkcs12_files.as_pem([answered])
    assert (folder / "ca.pem").read_bytes() == pkcs12_files.as_pem([CERTIFICATE])


def test_what_is_not_taken_over_changes_nothing(
    tmp_path: Path,
    requested: tuple[Path, x509.CertificateSigningRequest],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, asked = requested
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    stranger = answer(asked, private_keys.make("p256").public_key())
    (tmp_path / "password").write_bytes(PASSWORD)
    (tmp_path / "password").chmod(0o600)
    for data, why in (
        (pkcs12_files.as_pem([stranger]), "no key in"),
        (private_keys.as_pem(KEY), "a key without a certificate"),
        (BOMB, "would be hashed"),
        (bytes(1 << 20), "over 262144"),
        (b"", "no PKCS#12 that can be read"),
        (b"0", "it ends within an element"),
        (b"-----BEGIN NOTHING-----\n", "neither a key nor a certificate"),
    ):
        (tmp_path / "file").write_bytes(data)
        words = ("import", tmp_path / "file", "--to", folder)
        assert keys(*words, "--password-file", tmp_path / "password") == 2
        assert why in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_a_gateway_holds_is_listed_with_what_each_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet"
    assert cli.main(["init", str(fleet), "--fleet", "gw-a", "gw-b", "-y"]) == 0
    config = fleet / "gw-a/hedgerow.toml"
    capsys.readouterr()
    assert keys("list", "--config", config, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    found = {(one["field"], one["what"]): one for one in told}
    own = found["mqtt.certificate_file", "certificate"]
    assert (own["name"], own["serves"]) == ("gw-a", "mqtt.tls_port, links, signatures")
    assert own["days_left"] in (728, 729, 730)
    assert own["key"] == "P-256"
    assert len(own["sha256"]) == 64
    assert found["mqtt.client_crl_file", "revocation list"]["serial"] is None
    assert found["mqtt.client_ca_file", "authority"]["name"].startswith("hedgerow fleet")
    assert keys("list", "--config", config) == 0
    assert "ends in 7" in capsys.readouterr().out
    assert keys("list", "--config", tmp_path / "none.toml") == 2


def test_a_store_under_a_password_is_listed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet"
    assert cli.main(["init", str(fleet), "--fleet", "gw-a", "gw-b", "-y"]) == 0
    folder = fleet / "gw-a"
    (folder / "password").write_bytes(PASSWORD)
    (folder / "password").chmod(0o600)
    export = ("export", "--ca", fleet / "authority", "--password-file", folder / "password", "--to")
    assert keys(*export, folder / "own.p12", "gw-a") == 0
    config = folder / "hedgerow.toml"
    config_set = ["config", "set", "--config", str(config), "mqtt.certificate_file=own.p12"]
    assert cli.main([*config_set, "mqtt.key_file=own.p12", "keys.password_file=password"]) == 0
    capsys.readouterr()
    assert keys("list", "--config", config, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    (own,) = [one for one in told if one["field"] == "mqtt.certificate_file"]
    assert (own["name"], own["is_store"]) == ("gw-a", True)
    assert own["file"].endswith("own.p12")
