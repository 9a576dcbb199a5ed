"""A release that does not read a state folder's form leaves it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.process.configuration.config import ConfigError
from gateway.process.state_folder import listeners_file, state_format


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_new_folder_says_the_form_that_is_written(tmp_path: Path) -> None:
    state_format.claim(tmp_path / "state")
    assert (tmp_path / "state/format").read_text() == f"{state_format.WRITTEN}\n"
    state_format.claim(tmp_path / "state")


def test_a_folder_of_a_release_that_wrote_no_number_has_form_1(tmp_path: Path) -> None:
    (tmp_path / "boot_epoch").write_text("7\n")
    with pytest.raises(ConfigError, match="has form 1, and this release reads 2, 3"):
        state_format.claim(tmp_path, written=3, read={2, 3})
    assert contents(tmp_path) == {"boot_epoch": b"7\n"}
    state_format.claim(tmp_path, written=2, read={1, 2})
    assert (tmp_path / "format").read_text() == "2\n"


@pytest.mark.parametrize("text", ["", "one", "-1", "1 2"])
def test_a_form_that_is_no_number_is_set_aside_and_counts_as_none(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "format").write_text(text)
    (tmp_path / "boot_epoch").write_text("7\n")
    state_format.claim(tmp_path)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"boot_epoch": "7\n", "format": "1\n", "format.damaged-1": text}


def test_a_form_that_is_not_read_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("2\n")
    (tmp_path / "boot_epoch").write_text("7\n")
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match=r"gateway\.state_dir"):
        state_format.claim(tmp_path, written=1, read={1})
    assert contents(tmp_path) == before


def test_a_folder_that_is_not_writable_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file"):
        state_format.claim(tmp_path / "file" / "state")


@pytest.mark.parametrize("data", [b"", b"[]", b'"text"', b'{"listeners": 1}', b"\xff", b"{"])
def test_a_file_of_listeners_that_is_damaged_tells_nothing_and_stops_no_command(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / listeners_file.NAME).write_bytes(data)
    with pytest.raises(ValueError):
        listeners_file.read(tmp_path)
