"""A backup is checked by starting its gateway alone; one that would not serve has a word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from filled_gateway import filled

from gateway import cli
from gateway.backups import contents, making
from gateway.rehearsal import running

pytestmark = pytest.mark.slow


def archived(folder: Path, config: Path, state: Path) -> Path:
    made = folder / "backup.tar.gz"
    with made.open("wb") as out:
        making.write(out, config, state, lambda: None, folder)
    return made


@pytest.fixture(scope="module")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gateway's two folders, with something in each file."""
    import asyncio

    folder = tmp_path_factory.mktemp("pi")
    world = asyncio.run(filled(folder))
    config = world.gateway.folder
    text = (config / "gateway.toml").read_text()
    for file in ("tree.key", "revoked.pem", "oscore.toml"):
        shutil.copy(folder / file, config / file)
        (config / file).chmod(0o600)
    text = text.replace(f"{folder}/tree.key", f"{config}/tree.key")
    text = text.replace(f"{folder}/oscore.toml", f"{config}/oscore.toml")
    (config / "hedgerow.toml").write_text(text)
    world.state.rename(folder / "state")
    moved = text.replace(f"{config}/state", f"{folder}/state")
    (config / "hedgerow.toml").write_text(moved)
    return folder


@pytest.fixture
def pi(_filled: Path, tmp_path: Path) -> Path:
    """A copy that a test may harm; its configuration names the folders of the copy."""
    copy = tmp_path / "pi"
    shutil.copytree(_filled, copy)
    file = copy / "gw/hedgerow.toml"
    file.write_text(file.read_text().replace(str(_filled), str(copy)))
    return copy


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    code = cli.main(["backup", "check", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_a_backup_that_would_serve_says_what_it_holds(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(tmp_path, pi / "gw", pi / "state")
    before = archive.read_bytes()
    code, (told,) = checked(capsys, str(archive))
    assert (code, told["why"]) == (0, "")
    assert told["gateway"] == "gw"
    assert told["holds"]["retained"] >= 1
    assert told["holds"]["sessions"] == 1
    assert told["holds"]["batches"] > 0
    assert told["age_s"] is not None
    assert archive.read_bytes() == before
    assert cli.main(["backup", "check", str(archive)]) == 0
    text = capsys.readouterr().out
    assert "usable" in text and "its gateway starts: " in text


def test_what_is_wrong_with_a_backup_is_told(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, config = pi / "state", pi / "gw/hedgerow.toml"
    text, whole = config.read_text(), {"form": (state / "format").read_bytes()}
    for why, harm in (
        ("has form 99, and this release reads", lambda: (state / "format").write_text("99")),
        ("hello_s", lambda: config.write_text(text.replace("hello_s = 0.5", 'hello_s = "x"'))),
        (
            "no backup has that file",
            lambda: config.write_text(
                text.replace("[access]", '[access]\npassword_file = "/etc/passwd"')
            ),
        ),
        ("not hexadecimal", lambda: (pi / "gw/tree.key").write_text("none")),
    ):
        harm()
        code, (told,) = checked(capsys, str(archived(tmp_path, pi / "gw", state)))
        assert code == 1 and why in told["why"], (why, told)
        config.write_text(text)
        (state / "format").write_bytes(whole["form"])
    (pi / "gw/tree.key").write_text("ab" * 32)
    (state / "members").write_bytes(b"\xc1")
    code, (told,) = checked(capsys, str(archived(tmp_path, pi / "gw", state)))
    assert code == 1 and "members" in told["why"] and "can't read it" in told["why"]


def test_files_that_are_no_backups_are_each_told(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = archived(tmp_path, pi / "gw", pi / "state").read_bytes()
    (tmp_path / "empty").touch()
    (tmp_path / "foreign").write_bytes(b"PK\3\4" + bytes(100))
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "encrypted").write_bytes(b"age-encryption.org/v1\n")
    names = ("empty", "foreign", "cut", "encrypted", "missing")
    code, told = checked(capsys, *(str(tmp_path / name) for name in names))
    whys = ("is empty", "no archive of a gateway", "cut off", "--key", "No such file")
    assert code == 1
    assert all(why in one["why"] for why, one in zip(whys, told, strict=True)), told
    (tmp_path / "whole").write_bytes(whole)
    code, (one,) = checked(capsys, "--max-bytes", "10000", str(tmp_path / "whole"))
    assert code == 1 and "takes more than" in one["why"]


def test_a_key_of_the_dead_card_is_not_needed_for_the_trial(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("tree.key", "oscore.toml"):
        (pi / "gw" / name).write_text("Whxqht+dQJax1aZeCGLxmiAAAAABAAAADAAAABAAAAA")
    code, (told,) = checked(capsys, str(archived(tmp_path, pi / "gw", pi / "state")))
    assert (code, sorted(told["encrypted_keys"])) == (0, ["oscore.toml", "tree.key"]), told


def test_a_gateway_that_hangs_is_ended(pi: Path, tmp_path: Path) -> None:
    archive = archived(tmp_path, pi / "gw", pi / "state")
    found = contents.survey(archive, 1 << 30)
    (tmp_path / "scratch").mkdir()
    told = running.rehearse(archive, found, tmp_path / "scratch", limit_s=0.2)
    assert "did not start and answer within" in told.problems[0]
