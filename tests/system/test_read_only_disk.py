"""A disk that takes nothing any more is found out, and nothing is written for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Ext4, Tmpfs, unmounted_at_the_end

from gateway.process.fleet_status.read_only_disk import takes_nothing


def written(folder: Path) -> Path:
    file = folder / "counter"
    file.write_text("1")
    return file


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path / "disk", tmp_path / "image", size_mib=4)
    made.mount()
    with unmounted_at_the_end(made):
        yield made


def test_a_disk_that_is_well_takes_something_and_is_left_as_it_is(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.stat()
    assert takes_nothing(tmp_path, file) is False
    assert file.read_text() == "1"
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_a_file_that_is_not_there_says_nothing_of_its_disk(tmp_path: Path) -> None:
    assert takes_nothing(tmp_path, tmp_path / "counter") is False
    assert takes_nothing(tmp_path / "gone", tmp_path / "gone/counter") is None


def test_a_disk_that_is_mounted_to_be_read_only_takes_nothing(tmp_path: Path) -> None:
    disk = Tmpfs(tmp_path / "disk", 64)
    with unmounted_at_the_end(disk):
        file = written(disk.folder)
        disk.make_read_only()
        assert takes_nothing(disk.folder, file) is True
        assert takes_nothing(disk.folder, disk.folder / "none of that name") is True


@pytest.mark.peer("mkfs.ext4", "e2fsprogs")
@pytest.mark.parametrize("how", ["error", "stopped"])
def test_a_file_system_that_refuses_after_an_error_takes_nothing(ext4: Ext4, how: str) -> None:
    file = written(ext4.folder)
    if how == "error":
        ext4.fail_to_read_only()
    else:
        ext4.cut_power()
    assert takes_nothing(ext4.folder, file) is True
