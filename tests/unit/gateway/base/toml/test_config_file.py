"""Goal: a section's dataclass says what its table may hold, and one reading finds all faults."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.base.toml.toml_file import IS_THE_FILE, ConfigError, Fault, hold, load, read
from gateway.process.configuration.passing import may_pass


@dataclass(frozen=True)
class Inner:
    key_file: Path
    port: int | None = 1
    speed: float = 1.0
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        hold(Fault(f"names[{i}]", "is empty") for i, name in enumerate(self.names) if not name)


@dataclass(frozen=True)
class Outer:
    inner: Inner
    file: Path | None = field(default=None, metadata=IS_THE_FILE)


def test_paths_start_at_the_folder_of_the_file_wherever_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "key").touch()
    (folder / "x.toml").write_text('[inner]\nkey_file = "key"\nport = "off"\nspeed = 2\n')
    for working, given in ((tmp_path, Path("etc/x.toml")), (folder, Path("x.toml"))):
        monkeypatch.chdir(working)
        made = load(given, Outer)
        assert made == Outer(Inner(folder / "key", None, 2.0), given)


def test_no_key_sets_the_field_that_is_the_file() -> None:
    reading = read({"file": "y", "inner": {"key_file": __file__}}, Path("x"), Outer)
    assert reading.faults == (Fault("file", "unknown key, there are inner"),)


def test_one_reading_finds_all_faults_and_stands_in_for_them() -> None:
    table = {"key_file": "/none", "port": "on", "sped": "fast", "names": ["", "a", ""]}
    reading = read({"inner": table}, Path("/x"), Outer)
    assert reading.settings is None
    assert [fault.where for fault in reading.faults] == [
        "inner.sped",
        "inner.key_file",
        "inner.port",
        "inner.speed",
        "inner.names[0]",
        "inner.names[2]",
    ]
    assert reading.sections["inner"].speed == 1.0


def test_a_load_that_fails_carries_them_all(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[inner]\nkey_file = 3\nports = 1\nnames = "a"\n')
    with pytest.raises(ConfigError) as caught:
        load(file, Outer)
    assert str(caught.value).startswith(f"{file}: inner.ports: unknown key, did you mean 'port'")
    assert [fault.where for fault in caught.value.more] == ["inner.key_file", "inner.names"]


def test_a_disk_that_fails_for_a_moment_is_told_apart_from_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[inner]\nkey_file = "key"\n')
    with pytest.raises(ConfigError) as caught:
        load(file, Outer)
    assert not may_pass(caught.value)

    looked = Path.stat

    def fails(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "key":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return looked(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", fails)
    with pytest.raises(ConfigError) as caught:
        load(file, Outer)
    assert may_pass(caught.value)


def test_a_file_that_systemd_hands_over_as_a_credential_is_read_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed = tmp_path / "credentials"
    handed.mkdir()
    (handed / "tree.key").touch()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(handed))
    named = read({"inner": {"key_file": "/etc/hedgerow/tree.key"}}, Path("/x"), Outer).settings
    assert named is not None
    assert named.inner.key_file == handed / "tree.key"
    other = read({"inner": {"key_file": "/etc/hedgerow/psk"}}, Path("/x"), Outer)
    assert [fault.where for fault in other.faults] == ["inner.key_file"]
