"""Files as editors of other systems write them: byte order marks, UTF-16, CRLF."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.alerting.section import AlertsSection, ChatSection
from gateway.alerting.ways import open_ways
from gateway.backups.places import PlaceKeys, place_of
from gateway.base import systemd_credentials
from gateway.base.toml.toml_file import ConfigError, load
from gateway.broker.access.passwords import Passwords
from gateway.coap.oscore import keys as oscore_keys
from gateway.process.configuration.config import GatewaySettings, TreeSection
from gateway.process.running.configuration_faults import in_words
from gateway.tools.commands import psk_lines
from gateway.tools.flashing import fleet_file
from gateway.tools.flashing.errors import RefusalError
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


def of_keys(file: Path) -> object:
    """Read the tree's key."""
    return TreeSection(key_file=file, tls="off").key()


def of_oscore(file: Path) -> object:
    """Read contexts of OSCORE."""
    return [one.name for one in oscore_keys.load(file)]


def of_chat(file: Path) -> object:
    """Read a chat's address, and open the way there."""
    return list(open_ways(AlertsSection(chat=ChatSection("slack", file)), "gw"))


def of_s3(file: Path) -> object:
    """Read what opens a place for backups."""
    return place_of("s3://bucket", PlaceKeys(s3_credentials=file)) is not None


def of_card(file: Path) -> object:
    """Read a fleet's card, whose wireless network has its passphrase in the file."""
    fleet = file.with_name("fleet.toml")
    wifi = f"wifi = {{ssid = 'net', passphrase_file = '{file}'}}"
    fleet.write_text(f"[[devices]]\nid = 'gw'\ncountry = 'DE'\n{wifi}\n")
    return fleet_file.read(fleet)[0].wifis[0].passphrase


SECRETS = {
    of_keys: ("ab" * 32, bytes.fromhex("ab" * 32)),
    of_oscore: (
        f'[meter]\nmaster_secret = "{"ab" * 16}"\nsender_id = ""\nrecipient_id = "01"\n',
        ["meter"],
    ),
    of_chat: ("https://hooks.example.org/s-3", ["chat"]),
    of_s3: ("access_key_id = a\nsecret_access_key = b\n", True),
    of_card: ("open sesame", "open sesame"),
}


@pytest.mark.parametrize("read", SECRETS, ids=lambda read: read.__name__)
def test_each_file_with_a_secret_is_read_without_the_mark_before_it(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    text, found = SECRETS[read]
    data = codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode()

    assert read(written(tmp_path / "secret", data)) == found


@pytest.mark.parametrize("read", [one for one in SECRETS if one is not of_s3])
def test_each_file_with_a_secret_in_utf_16_is_refused_by_that_name(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    file = written(tmp_path / "secret", f"\ufeff{SECRETS[read][0]}".encode("utf-16-le"))

    with pytest.raises((ValueError, RefusalError), match=r"secret.* byte order mark of UTF-16"):
        read(file)


def test_a_line_is_added_to_a_key_file_with_a_byte_order_mark_and_taken_out(tmp_path: Path) -> None:
    file = written(tmp_path / "keys", codecs.BOM_UTF8 + KEYS.replace("\n", "\r\n").encode())

    psk_lines.add(file, "meter-8")

    assert list(keystore.load(file).identities()) == ["meter-7", "meter-8"]
    assert psk_lines.take_out(file, "meter-7")
    assert list(keystore.load(file).identities()) == ["meter-8"]


def test_a_fleet_of_cards_with_a_byte_order_mark_is_refused_by_that_name(tmp_path: Path) -> None:
    file = written(tmp_path / "fleet.toml", codecs.BOM_UTF8 + b"[[devices]]\nid = 'gw'\n")

    with pytest.raises(RefusalError, match=r"fleet\.toml: begins with a byte order mark: save it"):
        fleet_file.read(file)
