"""`hedgerow backup` gives a verdict on each, and takes no older one for a fault of its own."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from one_parser import hedgerow, parser

from gateway.backups import contents, opening
from gateway.backups.contents import FREE_BYTES, Contents
from gateway.backups.kept_archives import KeptArchive
from gateway.backups.making import BackupError
from gateway.backups.places import FolderPlace
from gateway.base import exit_codes
from gateway.tools.commands import backup_verbs
from gateway.tools.commands.backup_verbs import BackupVerdict
from gateway.tools.rehearsal import running
from gateway.tools.rehearsal.running import Rehearsal

TIME = "20261128T013000Z"
MADE_S = datetime.datetime(2026, 11, 28, 1, 30, tzinfo=datetime.UTC).timestamp()
HOUR_S = 3_600.0
HOLDS = Contents("gw", files=7, unpacked_bytes=(1 << 20) * 5 // 2, newest_s=int(MADE_S))
STARTED = Rehearsal((), ("sessions: cut off",), {"retained": 3, "waiting_messages": 1})
USABLE = BackupVerdict("a.tar.gz", "", MADE_S, HOLDS, STARTED)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Contents]:
    """Contents of the files by their texts; a file with another text can't be read."""
    holds: dict[str, Contents] = {"one": HOLDS}

    def survey(plain: Path, _most: int) -> Contents:
        if (text := plain.read_text()) not in holds:
            raise contents.RestoreError(f"{text} is damaged")
        return holds[text]

    monkeypatch.setattr(opening, "opened", lambda archive, _key, _scratch: archive)
    monkeypatch.setattr(contents, "survey", survey)
    monkeypatch.setattr(running, "rehearse", lambda *_: STARTED)
    return holds


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (folder := tmp_path / "place").mkdir()
    yield folder


def kept(place: Path, number: int, text: str = "one", gateway: str = "gw") -> str:
    name = KeptArchive(number, TIME, gateway, len(text)).name
    (place / name).write_text(text)
    return name


def lines(verdict: BackupVerdict, now_s: float = MADE_S) -> list[str]:
    return verdict.as_text(now_s).split("\n")


def test_a_verdict_says_what_the_backup_holds_and_how_its_gateway_started() -> None:
    assert lines(USABLE) == [
        "a.tar.gz: usable",
        "  of gw, made 2026-11-28 01:30 UTC, 0 hours ago",
        "  7 files, 2.5 MiB",
        "  its gateway starts: 3 retained, 1 waiting messages",
        "  sessions: cut off",
    ]
    unread = replace(HOLDS, encrypted=("tree.key", "oscore.toml"))
    assert lines(replace(USABLE, found=unread, rehearsal=None))[3:] == [
        "  its gateway was not started",
        "  tree.key, oscore.toml: for the machine of the backup alone; a restore leaves them",
    ]
    wrong = "a.tar.gz: NOT USABLE: it is cut off"
    assert lines(replace(USABLE, why="it is cut off")) == [wrong]
    assert lines(BackupVerdict("a.tar.gz", "it is cut off")) == [wrong]


@pytest.mark.parametrize(
    ("made_s", "now_s", "age"),
    [
        (MADE_S, MADE_S + 47.4 * HOUR_S, "made 2026-11-28 01:30 UTC, 47 hours ago"),
        (MADE_S, MADE_S + 48 * HOUR_S, "made 2026-11-28 01:30 UTC, 2 days ago"),
        (MADE_S, MADE_S + 84.1 * HOUR_S, "made 2026-11-28 01:30 UTC, 4 days ago"),
        (
            MADE_S,
            MADE_S - 1.0,
            "made 2026-11-28 01:30 UTC, which is yet to come by this machine's clock",
        ),
        (None, MADE_S, "of an unknown time"),
        (1e20, MADE_S, "of a time beyond the calendar"),
    ],
)
def test_the_age_of_a_backup_is_hours_and_from_two_days_on_days(
    made_s: float | None, now_s: float, age: str
) -> None:
    assert lines(replace(USABLE, made_s=made_s), now_s)[1] == f"  of gw, {age}"


def test_a_verdict_in_json_has_it_all_and_null_for_what_is_not_known() -> None:
    assert USABLE.as_json(MADE_S + 5.0) == {
        "file": "a.tar.gz",
        "is_usable": True,
        "why": "",
        "gateway": "gw",
        "made_s": MADE_S,
        "age_s": 5.0,
        "files": 7,
        "unpacked_bytes": 2_621_440,
        "encrypted_keys": [],
        "was_started": True,
        "remarks": ["sessions: cut off"],
        "holds": {"retained": 3, "waiting_messages": 1},
    }
    assert USABLE.as_json(MADE_S - 5.0)["age_s"] == 0.0, "of a clock that is behind"
    assert BackupVerdict("a.tar.gz", "it is cut off").as_json(MADE_S) == {
        "file": "a.tar.gz",
        "is_usable": False,
        "why": "it is cut off",
        **dict.fromkeys(("gateway", "made_s", "age_s", "files", "unpacked_bytes")),
        "encrypted_keys": [],
        "was_started": False,
        "remarks": [],
        "holds": {},
    }


@pytest.mark.usefixtures("found")
def test_files_are_judged_one_by_one_and_any_that_would_not_serve_fails(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = place / kept(place, 1)
    (unnamed := place / "a.tar.gz").write_text("one")
    (damaged := place / "b.tar.gz").write_text("two")
    assert hedgerow("backup", "check", named, unnamed, "--json") == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)
    assert [(one["file"], one["made_s"]) for one in told] == [
        (named.name, MADE_S),
        ("a.tar.gz", int(MADE_S)),
    ]
    words = ("backup", "check", "--no-start", unnamed, damaged, place / "none.tar.gz")
    assert hedgerow(*words) == exit_codes.FAILED
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  7 files, 2.5 MiB",
        "  its gateway was not started",
        "b.tar.gz: NOT USABLE: two is damaged",
        f"none.tar.gz: NOT USABLE: {place}/none.tar.gz: No such file or directory",
    ]


@pytest.mark.usefixtures("found")
def test_a_name_with_a_day_that_no_calendar_has_says_no_time(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = KeptArchive(1, "20261399T013000Z", "gw", 3).name
    (place / name).write_text("one")
    assert hedgerow("backup", "check", place / name) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[1] == "  of gw, of an unknown time"


def test_a_gateway_that_does_not_start_makes_its_backup_unusable(
    place: Path,
    found: dict[str, Contents],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert found
    told = Rehearsal(("no key", "no room"))
    monkeypatch.setattr(running, "rehearse", lambda *_: told)
    name, to = kept(place, 1), place / "fetched"
    words = ("backup", "fetch", "gw", "--from", place, "--to", to)
    assert hedgerow(*words) == exit_codes.FAILED
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"hedgerow: {name}: no key; no room\n"
        f"hedgerow: {place}: no usable backup of gw: the newest 1 are not usable\n",
    )
    assert not to.exists()


@pytest.mark.usefixtures("found")
def test_the_five_newest_are_tried_and_no_more(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = place / "fetched"
    words = ("backup", "fetch", "gw", "--from", place, "--to", to)
    names = [kept(place, 1), *(kept(place, number, "two") for number in range(2, 7))]
    assert hedgerow(*words) == exit_codes.FAILED
    assert capsys.readouterr().err.splitlines() == [
        *(f"hedgerow: {name}: two is damaged" for name in reversed(names[1:])),
        f"hedgerow: {place}: no usable backup of gw: the newest 5 are not usable",
    ]
    (place / names[5]).unlink()
    assert hedgerow(*words) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[:5] == [
        *(f"{name}: NOT USABLE: two is damaged" for name in reversed(names[1:5])),
        f"{names[0]}: usable",
    ]
    assert to.read_text() == "one"
    assert to.stat().st_mode & 0o777 == 0o600


def test_a_backup_of_another_gateway_under_its_name_is_not_usable(
    place: Path, found: dict[str, Contents], capsys: pytest.CaptureFixture[str]
) -> None:
    name = kept(place, 1)
    found["one"] = replace(HOLDS, gateway="gw-b")
    assert hedgerow("backup", "trial", "gw", "--from", place) == exit_codes.FAILED
    assert capsys.readouterr().out == f"{name}: NOT USABLE: it is a backup of 'gw-b'\n"
    word = json.loads((place / "gw.trial.json").read_text())
    assert (word["backup"], word["is_well"]) == (name, False)
    assert word["why"] == "it is a backup of 'gw-b'"


@pytest.mark.usefixtures("found")
def test_a_backup_that_does_not_come_whole_is_not_usable(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class CutShortPlace(FolderPlace):
        """Hands over all but the last byte."""

        def get(self, name: str, to: Path, most_bytes: int) -> None:
            to.write_bytes((place / name).read_bytes()[:-1])
            assert most_bytes == 3

    monkeypatch.setattr(backup_verbs, "place_of", lambda *_: CutShortPlace(place))
    name = kept(place, 1)
    assert hedgerow("backup", "trial", "gw", "--from", place) == exit_codes.FAILED
    assert capsys.readouterr().out == f"{name}: NOT USABLE: 2 bytes of 3 came\n"


@pytest.mark.parametrize(
    ("free", "why"),
    [
        (FREE_BYTES + 3, "66 MiB are needed there, and 64 are free"),
        (FREE_BYTES + HOLDS.unpacked_bytes - 1, "66 MiB are needed there, and 66 are free"),
        (FREE_BYTES + HOLDS.unpacked_bytes, None),
    ],
)
@pytest.mark.usefixtures("found")
def test_a_backup_takes_the_room_that_it_has_unpacked_beside_what_stays_free(
    free: int,
    why: str | None,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usage: Any = shutil.disk_usage(place)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    name = kept(place, 1)
    code = hedgerow("backup", "trial", "gw", "--from", place, "--scratch", place)
    told = capsys.readouterr().out
    if why is None:
        assert (code, told.splitlines()[0]) == (exit_codes.DONE, f"{name}: usable")
    else:
        assert code == exit_codes.FAILED
        assert told.startswith(f"{name}: NOT USABLE: it could not be tried: {place}/hedgerow-")
        assert told.endswith(f": {why}\n")


@pytest.mark.usefixtures("found")
def test_the_word_of_a_trial_is_left_unless_it_is_not_wanted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = kept(place, 1)
    words = ("backup", "trial", "gw", "gw-b", "--from", place)
    assert hedgerow(*words, "--no-word") == exit_codes.FAILED
    assert [file.name for file in place.iterdir()] == [name]
    none = f"{place} has no whole backup of it"
    assert capsys.readouterr().out.splitlines()[-1] == f"gw-b: NOT USABLE: {none}"
    assert hedgerow(*words) == exit_codes.FAILED
    word = json.loads((place / "gw.trial.json").read_text())
    assert (word["backup"], word["is_well"], word["why"]) == (name, True, "")
    word = json.loads((place / "gw-b.trial.json").read_text())
    assert (word["backup"], word["is_well"], word["why"]) == ("", False, none)


@pytest.mark.usefixtures("found")
def test_a_word_that_the_place_does_not_take_fails_the_trial_of_a_usable_backup(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class FullPlace(FolderPlace):
        """Takes nothing."""

        def put(self, file: Path, name: str) -> None:
            raise BackupError(f"{name}: it takes nothing")

    monkeypatch.setattr(backup_verbs, "place_of", lambda *_: FullPlace(place))
    kept(place, 1)
    assert hedgerow("backup", "trial", "gw", "--from", place, "--json") == exit_codes.FAILED
    said = capsys.readouterr()
    why = "gw.trial.json: it takes nothing"
    assert said.err == f"hedgerow: gw: no word of the trial is left: {why}\n"
    assert [one["is_usable"] for one in json.loads(said.out)] == [True]


def test_a_place_that_is_none_or_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none, to = tmp_path / "none", tmp_path / "fetched"
    assert hedgerow("backup", "fetch", "gw", "--from", "ftp://x", "--to", to) == 2
    assert capsys.readouterr().err.startswith("hedgerow: --from: 'ftp://x' is no place for ")
    assert hedgerow("backup", "fetch", "gw", "--from", none, "--to", to) == exit_codes.FAILED
    why = capsys.readouterr().err.removeprefix("hedgerow: ").strip()
    assert why.startswith(f"{none}: ")
    assert hedgerow("backup", "trial", "gw", "--from", none) == exit_codes.FAILED
    said = capsys.readouterr()
    assert said.out == f"gw: NOT USABLE: {why}\n"
    assert said.err.startswith("hedgerow: gw: no word of the trial is left: ")
    scratch = tmp_path / "scratch"
    assert hedgerow("backup", "check", to, "--scratch", scratch) == exit_codes.WRONG_USE
    assert capsys.readouterr().err == f"hedgerow: --scratch: {scratch}: no such folder\n"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1k", ""])
def test_what_is_no_number_of_bytes_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["backup", "check", "a", f"--max-bytes={text}"])
    assert f"{text!r} is no number of bytes" in capsys.readouterr().err


def test_a_backup_may_have_sixteen_gibibytes_unless_it_is_said_otherwise() -> None:
    check = ["backup", "check", "a"]
    assert parser().parse_args(check).max_bytes == 16 * 1024**3
    options = parser().parse_args([*check, "--max-bytes", "1"])
    assert (options.max_bytes, options.no_start, options.key) == (1, False, None)


@pytest.mark.usefixtures("found")
def test_what_an_earlier_fetch_left_half_written_is_no_hindrance(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(place, 1)
    to = place / "fetched"
    (place / "fetched.new").write_text("half")
    assert hedgerow("backup", "fetch", "gw", "--from", place, "--to", to) == exit_codes.DONE
    assert to.read_text() == "one"
    assert not (place / "fetched.new").exists()
    assert capsys.readouterr().err == ""
