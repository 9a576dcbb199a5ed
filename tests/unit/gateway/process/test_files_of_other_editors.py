"""Files as editors of other systems write them: byte order marks, UTF-16, CRLF."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.base import systemd_credentials
from gateway.base.toml.toml_file import ConfigError, load
from gateway.broker.access.passwords import Passwords
from gateway.process.configuration.config import GatewaySettings
from gateway.process.running.configuration_faults import in_words
from gateway.trust.policy.faults import AccessFileError, read_access_file

CONFIGURATION = '[gateway]\nid = "gw-a"\n'
KEYS = f"meter-7:{'ab' * 16}\n"
UTF_16 = (
    codecs.BOM_UTF16_LE + CONFIGURATION.encode("utf-16-le"),
    codecs.BOM_UTF16_BE + CONFIGURATION.encode("utf-16-be"),
)


def written(path: Path, data: bytes) -> Path:
    """Return a file with this content, which its owner alone can read."""
    path.write_bytes(data)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("data", [codecs.BOM_UTF8 + CONFIGURATION.encode(), *UTF_16])
def test_a_configuration_with_a_byte_order_mark_is_refused_by_that_name(
    tmp_path: Path, data: bytes
) -> None:
    file = written(tmp_path / "hedgerow.toml", data)

    with pytest.raises(ConfigError, match=r"hedgerow\.toml:1: begins with a byte order mark"):
        load(file, GatewaySettings)
    told = in_words(data, file)
    assert [one for one in told if "byte order mark" in one]
    assert not [one for one in told if "not TOML" in one or "not UTF-8" in one]


def test_a_key_file_with_a_byte_order_mark_and_crlf_is_read(tmp_path: Path) -> None:
    data = codecs.BOM_UTF8 + KEYS.replace("\n", "\r\n").encode()

    found = keystore.load(written(tmp_path / "keys", data))

    assert list(found.identities()) == ["meter-7"]


@pytest.mark.parametrize("form", ["utf-16-le", "utf-16-be"])
def test_a_key_file_in_utf_16_is_refused_by_that_name(tmp_path: Path, form: str) -> None:
    file = written(tmp_path / "keys", f"\ufeff{KEYS}".encode(form))

    with pytest.raises(KeystoreError, match=r"keys.* byte order mark of UTF-16"):
        keystore.load(file)


def test_a_password_is_read_without_the_mark_before_it(tmp_path: Path) -> None:
    file = written(tmp_path / "password", codecs.BOM_UTF8 + b"open sesame\r\n")
    other = written(tmp_path / "other", "\ufeffopen sesame".encode("utf-16-le"))

    assert systemd_credentials.password(file, "") == b"open sesame"
    with pytest.raises(systemd_credentials.CredentialError, match=r"other: .* of UTF-16"):
        systemd_credentials.password(other, "")


@pytest.mark.parametrize("form", ["utf-16-le", "utf-16-be"])
def test_a_file_about_access_in_utf_16_is_refused_by_that_name(tmp_path: Path, form: str) -> None:
    file = written(tmp_path / "passwords", "\ufeffolga:x\n".encode(form))

    with pytest.raises(AccessFileError, match=r"passwords:1: .* byte order mark of UTF-16"):
        read_access_file(file)


def test_a_file_about_access_with_a_byte_order_mark_and_crlf_is_read(tmp_path: Path) -> None:
    line = f"olga:{'$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$' + 'A' * 43}\r\n"
    file = written(tmp_path / "passwords", codecs.BOM_UTF8 + line.encode())

    assert list(Passwords.parse(read_access_file(file), str(file)).names) == ["olga"]
