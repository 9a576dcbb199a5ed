"""Goal: a command that is told no configuration takes the system's, then the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.process.configuration.place import SYSTEM, NoConfigError, find


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_system_s_comes_before_the_user_s_own(tmp_path: Path) -> None:
    system = tmp_path / "etc" / "hedgerow.toml"
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path / "home")}
    with pytest.raises(NoConfigError) as error:
        find(environment, system)
    own = tmp_path / "xdg" / "hedgerow" / "hedgerow.toml"
    assert str(error.value) == f"neither {system} nor {own} is there"
    made(own)
    assert find(environment, system) == own
    made(system)
    assert find(environment, system) == system


def test_without_xdg_config_home_or_with_a_relative_one_it_is_below_the_home(
    tmp_path: Path,
) -> None:
    own = made(tmp_path / ".config" / "hedgerow" / "hedgerow.toml")
    for more in ({}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "relative"}):
        assert find({"HOME": str(tmp_path), **more}, tmp_path / "none") == own


def test_the_system_s_place_is_in_etc() -> None:
    assert Path("/etc/hedgerow/hedgerow.toml") == SYSTEM


def test_a_file_that_may_not_be_looked_at_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_file(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", is_file)
    system = tmp_path / "hedgerow.toml"
    assert find({"HOME": str(tmp_path)}, system) == system
