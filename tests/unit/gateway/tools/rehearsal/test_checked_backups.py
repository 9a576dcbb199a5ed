"""A backup is checked by starting its gateway alone; one that would not serve has a word."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from backed_up_gateway import archived, filled_folders

from gateway.backups import contents
from gateway.backups.kept_archives import KeptArchive
from gateway.tools import cli
from gateway.tools.rehearsal import running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_folders(tmp_path_factory.mktemp("pi"))


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


def test_a_place_is_tried_and_the_newest_usable_one_fetched(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The place has a damaged newest archive, and a whole one before it."""
    place = tmp_path / "place"
    place.mkdir()
    key = tmp_path / "key"
    subprocess.run(["age-keygen", "--output", str(key)], check=True, capture_output=True)
    recipient = subprocess.check_output(["age-keygen", "-y", str(key)], text=True).strip()
    archive = archived(tmp_path, pi / "gw", pi / "state")
    encrypted = subprocess.check_output(["age", "--recipient", recipient, str(archive)])
    for number, content in ((1, encrypted), (2, encrypted[:-1] + bytes([encrypted[-1] ^ 1]))):
        kept = KeptArchive(number, "20261128T013000Z", "gw", len(content))
        (place / kept.name).write_bytes(content)
    where = ["--from", str(place), "--key", str(key)]
    to = tmp_path / "fetched"
    assert cli.main(["backup", "fetch", "gw", *where, "--to", str(to)]) == 0
    said = capsys.readouterr()
    assert "gw.000001" in said.out and "gw.000002" in said.err
    assert to.read_bytes() == archive.read_bytes()
    assert to.stat().st_mode & 0o777 == 0o600
    assert cli.main(["backup", "trial", "gw", "gw-other", *where]) == 1
    word = json.loads((place / "gw.trial.json").read_text())
    assert word["is_well"] is False and "000002" in word["backup"] and word["why"]
    assert "no whole backup" in json.loads((place / "gw-other.trial.json").read_text())["why"]
    (place / kept.name).unlink()
    assert cli.main(["backup", "trial", "gw", *where]) == 0
    assert json.loads((place / "gw.trial.json").read_text())["is_well"] is True
    capsys.readouterr()
    assert cli.main(["backup", "fetch", "gw-other", *where, "--to", str(to)]) == 1
    assert "no usable backup of gw-other: it has none" in capsys.readouterr().err


def two_kept(pi: Path, tmp_path: Path) -> Path:
    """Return a place that has two usable backups."""
    place = tmp_path / "place"
    place.mkdir()
    content = archived(tmp_path, pi / "gw", pi / "state").read_bytes()
    for number in (1, 2):
        (place / KeptArchive(number, "20261128T013000Z", "gw", len(content)).name).write_bytes(
            content
        )
    return place


@pytest.mark.parametrize(
    ("to", "code", "why"),
    [
        ("gone/fetched", 2, "--to: {0}/gone: no such folder"),
        ("place", 2, "--to: {0}/place: a folder, not a file"),
        (250 * "x" + ".tar", 1, "--to: {0}/{1}: File name too long"),
    ],
)
def test_a_file_that_can_not_be_written_is_no_fault_of_a_backup(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str, code: int, why: str
) -> None:
    place = two_kept(pi, tmp_path)
    words = ["backup", "fetch", "gw", "--from", str(place)]
    assert cli.main([*words, "--to", str(tmp_path / to)]) == code
    said = capsys.readouterr()
    assert said.err == f"hedgerow: {why.format(tmp_path, to)}\n"
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".new")]


def test_a_scratch_folder_without_room_does_not_have_an_older_backup_taken(
    pi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, to = two_kept(pi, tmp_path), tmp_path / "fetched"
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=contents.FREE_BYTES))
    where = ["--from", str(place), "--scratch", str(tmp_path)]
    assert cli.main(["backup", "fetch", "gw", *where, "--to", str(to)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"hedgerow: {tmp_path}/hedgerow-backup-")
    assert "64 MiB are needed there, and 64 are free; make room on its disk" in said
    assert said.count("\n") == 1 and not to.exists()
    assert cli.main(["backup", "trial", "gw", *where]) == 1
    word = json.loads((place / "gw.trial.json").read_text())
    assert "000002" in word["backup"] and word["why"].startswith("it could not be tried: ")
