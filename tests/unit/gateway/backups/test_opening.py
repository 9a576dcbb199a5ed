"""An archive is opened with its key where there is room for it, or it says why it is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.backups import opening
from gateway.backups.contents import FREE_BYTES, RestoreError

AGE = b"age-encryption.org/v1\n"


def test_an_archive_is_opened_only_where_there_is_room_and_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, key = tmp_path / "a.age", tmp_path / "key"
    archive.write_bytes(AGE + bytes(100))
    needed = archive.stat().st_size + FREE_BYTES

    def room(free: int) -> None:
        usage = type(shutil.disk_usage(tmp_path))(1, 1, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)

    room(needed - 1)
    with pytest.raises(OSError, match="are needed there, and") as raised:
        opening.opened(archive, key, tmp_path)
    assert raised.value.filename == str(tmp_path)
    room(needed)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RestoreError, match=r"^age is not installed: it decrypts the backup$"):
        opening.opened(archive, key, tmp_path)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no identity matched >&2; echo more >&2; exit 1", "no identity matched"),
        ("exit 3", "age exits 3"),
    ],
)
def test_an_archive_that_is_not_opened_says_why(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, key, scratch = tmp_path / "a.age", tmp_path / "key", tmp_path / "scratch"
    archive.write_bytes(AGE)
    scratch.mkdir()
    (tmp_path / "age").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "age").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RestoreError, match=why):
        opening.opened(archive, key, scratch)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", " is empty: take another"),
        (b"\x1f", " is no archive of a gateway, encrypted or not"),
        (AGE[:-1], " is no archive of a gateway, encrypted or not"),
        (AGE, " is encrypted: name the file with its key (--key)"),
    ],
)
def test_what_can_not_be_opened_without_a_key_is_told(
    data: bytes, why: str, tmp_path: Path
) -> None:
    archive = tmp_path / "a"
    archive.write_bytes(data)
    with pytest.raises(RestoreError) as raised:
        opening.opened(archive, None, tmp_path)
    assert str(raised.value) == f"{archive}{why}"


def test_what_is_not_encrypted_is_taken_as_it_is(tmp_path: Path) -> None:
    archive = tmp_path / "a"
    archive.write_bytes(b"\x1f\x8b")
    assert opening.opened(archive, None, tmp_path) == archive


def test_an_archive_that_is_never_opened_is_left_after_six_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_ends(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    archive = tmp_path / "a.age"
    archive.write_bytes(AGE)
    monkeypatch.setattr(subprocess, "run", never_ends)
    with pytest.raises(RestoreError) as raised:
        opening.opened(archive, tmp_path / "key", tmp_path)
    assert str(raised.value) == f"{archive}: age did not end within 21600 s"
