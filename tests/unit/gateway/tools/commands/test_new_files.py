"""Commands that write a gateway's files say which folder is none, and whose a new gateway is."""

from __future__ import annotations

import errno
import getpass
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.process.configuration import place as config_place
from gateway.tools.commands import new_files
from gateway.tools.commands.errors import WrongUseError


def raising(error: Exception) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [KeyError("uid"), OSError("no user")])
def test_a_user_without_a_name_is_a_number(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", raising(error))
    assert new_files.machine().user == str(os.getuid())
    monkeypatch.setattr(getpass, "getuser", lambda: "pi")
    assert new_files.machine().user == "pi"


def test_the_folder_of_root_is_the_machines_and_that_of_a_user_his_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert new_files.own_folder() == Path("/etc/hedgerow")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert new_files.own_folder() == config_place.own().parent


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ELOOP, os.strerror(errno.ELOOP)), "Too many levels of symbolic links"),
        (RuntimeError("links in a circle"), "links in a circle"),
    ],
)
def test_a_folder_that_there_can_not_be_is_told(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "resolve", raising(error))
    with pytest.raises(WrongUseError) as refused:
        new_files.absolute(Path("here/new"))
    assert str(refused.value) == f"here/new: {why}"


def test_what_is_no_folder_and_a_file_that_is_there_are_refused_by_their_names(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(WrongUseError) as refused:
        new_files.refuse_taken(file, ["a"])
    assert str(refused.value) == f"{file} is no folder"
    with pytest.raises(WrongUseError) as refused:
        new_files.refuse_taken(tmp_path, ["other", "file"])
    assert str(refused.value) == f"{file} is there already, and stays as it is"
    new_files.refuse_taken(tmp_path, ["other"])
    new_files.refuse_taken(tmp_path / "none", ["file"])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/a/.new.x1.new/psk"), "/a/new/psk"),
        (OSError(errno.ENOSPC, "No space left on device", "/a/.new.x1.new"), "/a/new"),
        (OSError(errno.ENOSPC, "No space left on device", "/a/.b.new/psk"), "/a/.b.new/psk"),
        (OSError(errno.ENOSPC, "No space left on device"), "/a/new"),
    ],
)
def test_what_can_not_be_written_is_told_by_the_name_that_somebody_gave(
    error: OSError, told: str
) -> None:
    with pytest.raises(WrongUseError) as refused:
        new_files.written(raising(error), Path("/a/new"))
    assert str(refused.value) == f"{told}: No space left on device; nothing is written"
