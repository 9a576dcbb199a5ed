"""A file that is read, changed and written anew is changed by one command at a time."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gateway.base.lone_change import alone


def test_who_does_not_wait_is_told_that_another_one_is_at_work_and_not_behind_it(
    tmp_path: Path,
) -> None:
    path, link = tmp_path / "file", tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(path)
    with alone(path):
        for same in (path, link, tmp_path / "another"):  # a folder is locked as a whole
            with pytest.raises(BlockingIOError), alone(same, is_patient=False):
                pass
        with alone(link.parent / "file", is_patient=False):
            pass
    with alone(link, is_patient=False):
        pass


def test_links_that_lead_in_a_circle_and_a_folder_that_is_not_there_are_named(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(OSError, match="one") as failed, alone(one):
        pass
    assert failed.value.errno == errno.ELOOP
    with pytest.raises(FileNotFoundError), alone(tmp_path / "nowhere" / "file"):
        pass
