"""A file that is replaced is there as a whole at every moment, and after a power cut if asked."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.base import replaced_file


def test_a_file_is_made_and_then_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state"
    replaced_file.replace(path, b"first, and long")
    replaced_file.replace(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_reader_that_has_it_open_reads_the_old_one_to_its_end(
    tmp_path: Path, is_durable: bool
) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        replaced_file.replace(path, b"new", is_durable=is_durable)
        assert reader.read() == b"old"


def test_a_durable_file_is_on_the_disk_before_its_name_is_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    calls: list[tuple[str, bytes]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        calls.append((kind, path.read_bytes()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    replaced_file.replace(path, b"new", is_durable=True)
    assert calls == [("file", b"old"), ("folder", b"new")]


def test_what_can_not_be_written_is_named_and_the_old_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        replaced_file.replace(path, b"new", is_durable=True)
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_threads_of_one_process_may_replace_a_file_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "state"
    contents = [bytes([number]) * size for number, size in enumerate((1, 10_000, 300_000, 50))]

    def write(content: bytes) -> None:
        for _ in range(50):
            replaced_file.replace(path, content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(len(contents)) as threads:
        for done in [threads.submit(write, content) for content in contents]:
            done.result()
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_missing_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "state"
    with pytest.raises(FileNotFoundError) as raised:
        replaced_file.replace(path, b"new")
    assert raised.value.filename == str(path)


def test_what_a_life_that_was_killed_left_half_written_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "state"
    (tmp_path / f"state.{os.getpid()}.new").write_bytes(b"half of something longer")
    replaced_file.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"not ours")
    (tmp_path / f"state.{os.getpid()}.new").symlink_to(other)
    with pytest.raises(OSError, match="Too many levels"):
        replaced_file.replace(tmp_path / "state", b"new")
    assert other.read_bytes() == b"not ours"


def test_a_new_file_has_the_mode_that_is_asked_for_and_an_old_one_may_keep_its_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secrets"
    replaced_file.replace(path, b"1", keeps_owner=True, mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    replaced_file.replace(path, b"2", keeps_owner=True, mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_processes_left_unfinished_is_removed_and_what_one_writes_is_not(
    tmp_path: Path,
) -> None:
    kept = {f"members.{os.getpid()}.new", "members", "new", "members.new", "notes.txt.new"}
    for name in (*kept, "members.4000000001.new", "boot_epoch.4000000002.new"):
        (tmp_path / name).touch()
    replaced_file.remove_unfinished(tmp_path)
    replaced_file.remove_unfinished(tmp_path / "none")
    assert {path.name for path in tmp_path.iterdir()} == kept
