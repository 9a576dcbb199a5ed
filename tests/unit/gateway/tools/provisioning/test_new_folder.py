"""Goal: whoever is killed while a folder gets its new files, a repeat writes all of them.

A child process is killed between two renames, behind each of them in turn.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.tools.provisioning import new_folder
from gateway.tools.provisioning.new_folder import TakenError

NAMES = ("access.toml", "hedgerow.toml", "psk", "tls")


def fill(fresh: Path) -> None:
    for name in NAMES[:-1]:
        (fresh / name).write_text("new")
    (fresh / "tls").mkdir()
    (fresh / "tls" / "ca.pem").write_text("new")


def killed_behind(folder: Path, renames: int) -> None:
    """Write in a child process that ends, as by a kill, behind so many of its moves."""
    child = os.fork()
    if child == 0:
        rename, moves = os.rename, 0

        def counted(source: str | Path, target: str | Path, **more: int) -> None:
            nonlocal moves
            if Path(target).parent == folder:
                if moves == renames:
                    os._exit(9)
                moves += 1
            rename(source, target, **more)

        os.rename = counted  # type: ignore[assignment]  # in this child alone
        new_folder.make(folder, fill)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("renames", range(len(NAMES)))
def test_what_a_killed_attempt_has_moved_is_taken_back_by_the_next_one(
    tmp_path: Path, renames: int
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "sensors.py").write_text("mine")
    killed_behind(folder, renames)
    assert len(list(folder.iterdir())) == 1 + renames
    new_folder.make(folder, fill)
    assert {one.name for one in folder.iterdir()} == {*NAMES, "sensors.py"}
    assert (folder / "tls" / "ca.pem").read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["etc"]


def test_what_was_moved_whole_before_the_kill_stays(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    killed_behind(folder, len(NAMES))
    with pytest.raises(TakenError, match=r"hedgerow\.toml is there already"):
        new_folder.make(folder, fill)
    assert {one.name for one in folder.iterdir()} == set(NAMES)
    assert [one.name for one in tmp_path.iterdir()] == ["etc"]


def test_a_file_that_somebody_has_put_there_since_is_not_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    killed_behind(folder, 2)
    (folder / "psk.mine").write_text("mine")
    (folder / "psk.mine").replace(folder / "psk")
    with pytest.raises(TakenError, match="psk is there already"):
        new_folder.make(folder, fill)
    assert (folder / "psk").read_text() == "mine"
    assert [one.name for one in folder.iterdir()] == ["psk"]


def test_a_note_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    folder, other = tmp_path / "etc", tmp_path / "other"
    folder.mkdir()
    (folder / "psk").write_text("mine")
    other.write_text(json.dumps([".etc.x.new", [["psk", (folder / "psk").stat().st_ino]]]))
    (tmp_path / ".etc.moving").symlink_to(other)
    new_folder.take_back(folder)
    assert (folder / "psk").read_text() == "mine"


def test_a_move_that_fails_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gw"
    folder.mkdir()
    (folder / "state").write_text("of before")
    rename, moves = Path.rename, 0

    def fail_at_the_third(path: Path, target: Path) -> Path:
        nonlocal moves
        moves += target.parent == folder
        if target.parent == folder and moves == 3:
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_at_the_third)
    with pytest.raises(OSError, match="Input/output error"):
        new_folder.make(folder, fill)
    assert [path.name for path in folder.iterdir()] == ["state"]
    assert [path.name for path in tmp_path.iterdir()] == ["gw"]


def test_what_another_user_has_left_beside_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gw"
    left = [new_folder.beside(folder, f"{name}.new") for name in ("a", "b")]
    left[0].mkdir()
    left[1].touch()
    other = os.geteuid() + 1
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: other)
        new_folder.remove_unfinished(folder)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in left}
    new_folder.remove_unfinished(folder)
    assert list(tmp_path.iterdir()) == []
