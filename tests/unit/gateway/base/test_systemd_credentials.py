"""Passwords from a file or of systemd: the first line, which nobody else may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.base.systemd_credentials import CredentialError, password


def secret(file: Path, data: bytes, mode: int = 0o600) -> Path:
    file.write_bytes(data)
    file.chmod(mode)
    return file


def test_a_password_is_the_first_line_of_a_file_or_of_the_credential(tmp_path: Path) -> None:
    file = secret(tmp_path / "given", b"secret\nbehind\n")
    secret(tmp_path / "held", b"of systemd")
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert password(file, "held", environment) == b"secret"
    assert password(None, "held", environment) == b"of systemd"
    assert password(None, "none", environment) is None
    assert password(None, "held", {}) is None


@pytest.mark.parametrize("data", [b"", b"\n", b"\nsecret\n"])
def test_a_file_without_a_password_in_its_first_line_is_named(tmp_path: Path, data: bytes) -> None:
    file = secret(tmp_path / "given", data)
    with pytest.raises(CredentialError) as raised:
        password(file, "held", {})
    assert str(raised.value) == f"{file}: no password in its first line"


def test_a_file_that_is_missing_or_that_others_may_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialError) as raised:
        password(tmp_path / "none", "held", {})
    assert str(raised.value) == f"{tmp_path}/none: No such file or directory"
    file = secret(tmp_path / "given", b"secret", 0o644)
    with pytest.raises(CredentialError, match=f"^{file}: "):
        password(file, "held", {})
