"""Goal: a reader of the tables sees one whole version at every instant, whatever a writer does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cloud_ingest import versions
from cloud_ingest.versions import VersionError, current, next_version


def write(tables: Path, text: str) -> Path:
    with next_version(tables) as folder:
        (folder / "telemetry").mkdir()
        (folder / "telemetry" / "part-0").write_text(text)
    return folder


def test_before_the_first_version_there_is_none(tmp_path: Path) -> None:
    assert current(tmp_path / "tables") is None


def test_a_version_is_seen_only_once_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path, "one")
    with next_version(tmp_path) as folder:
        (folder / "half").write_text("two")
        seen = current(tmp_path)
        assert seen is not None
        assert (seen / "telemetry" / "part-0").read_text() == "one"
    assert current(tmp_path) == folder.resolve()
    assert (tmp_path / "current" / "half").read_text() == "two"


def test_a_writer_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    first = write(tmp_path, "one")
    with pytest.raises(ZeroDivisionError), next_version(tmp_path) as folder:
        (folder / "half").write_text("two")
        raise ZeroDivisionError
    assert current(tmp_path) == first.resolve()
    assert not folder.exists()


def test_what_a_killed_writer_left_is_removed_and_its_number_not_used_again(
    tmp_path: Path,
) -> None:
    write(tmp_path, "one")
    (tmp_path / "v00000002" / "telemetry").mkdir(parents=True)
    (tmp_path / ".current.new").symlink_to("v00000002")
    third = write(tmp_path, "three")
    assert third.name == "v00000003"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "v00000001", third.name]


def test_a_reader_of_the_version_before_can_finish(tmp_path: Path) -> None:
    write(tmp_path, "one")
    reading = current(tmp_path)
    assert reading is not None
    write(tmp_path, "two")
    assert (reading / "telemetry" / "part-0").read_text() == "one"
    write(tmp_path, "three")
    assert not reading.exists()


def test_a_second_writer_is_turned_away(tmp_path: Path) -> None:
    with next_version(tmp_path):
        with pytest.raises(VersionError, match="in use by another writer"), next_version(tmp_path):
            pass
        assert current(tmp_path) is None
    assert current(tmp_path) is not None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(VersionError, match="file/tables: Not a directory"),
        next_version(tmp_path / "file" / "tables"),
    ):
        pass


def test_the_data_is_on_the_disk_before_the_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    fsync, switch = os.fsync, versions._switch

    def noting_fsync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def checking_switch(tables: Path, folder: Path) -> None:
        assert {folder, *folder.rglob("*")} <= synced
        switch(tables, folder)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(versions, "_switch", checking_switch)
    write(tmp_path.resolve(), "one")
    assert current(tmp_path) is not None
