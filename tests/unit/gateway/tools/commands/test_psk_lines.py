"""Goal: a device's key is made once, shown once, and taken out without touching another line."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.tools.commands import psk_lines


def test_a_new_file_is_its_owners_alone_and_the_key_is_long(tmp_path: Path) -> None:
    file = tmp_path / "psk"
    key = psk_lines.add(file, "device-1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert keystore.load(file).key_of(b"device-1") == bytes.fromhex(key)
    assert len(bytes.fromhex(key)) == 32


def test_other_lines_and_remarks_stay(tmp_path: Path) -> None:
    file = tmp_path / "psk"
    before = f"# keys\nurn:dev:1:{'ab' * 16}"
    file.write_text(before)
    file.chmod(0o640)
    psk_lines.add(file, "device-1")
    assert file.read_text().startswith(f"{before}\ndevice-1:")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert psk_lines.take_out(file, "device-1")
    assert file.read_text() == f"{before}\n"
    assert not psk_lines.take_out(file, "device-1")


@pytest.mark.parametrize("identity", ["", "a b", "#a", "a\nb", "a" * 129, "device-1", "é"])
def test_an_identity_that_can_be_none_changes_nothing(tmp_path: Path, identity: str) -> None:
    file = tmp_path / "psk"
    psk_lines.add(file, "device-1")
    before = file.read_text()
    with pytest.raises(KeystoreError):
        psk_lines.add(file, identity)
    assert file.read_text() == before


def test_a_file_that_lets_others_in_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "psk"
    file.write_text("")
    file.chmod(0o644)
    with pytest.raises(KeystoreError, match="lets others in"):
        psk_lines.add(file, "device-1")
