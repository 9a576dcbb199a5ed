"""Goal: a trial has one verdict, whatever happens in which order."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unreadable_files import Unreadable

from gateway.base import replaced_file
from gateway.base.toml.toml_file import ConfigError
from gateway.process.config_trials import changing
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.changing import ChangedMeanwhileError
from gateway.process.config_trials.judge import ConfigJudge
from gateway.process.config_trials.trial import ConfigTrial, TrialFileError, TrialNote
from gateway.process.config_trials.trial_files import NOTE, TRIAL, TrialFiles

OLD, NEW, BAD = b"old", b"new", b"bad"


def load(path: Path) -> str:
    text = path.read_text()
    if text == "bad":
        raise ConfigError("mqtt.port", "is bad")
    return text


class World:
    """A configuration, and the folder in which its gateway notes what it sees."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        (folder / "gw.toml").write_bytes(OLD)
        self.files = TrialFiles(folder / "gw.toml")

    def change(self, after: bytes, steps: int = 3, *, needs_restart: bool = True) -> ConfigTrial:
        before = changing.way_back(self.files, self.files.file.read_bytes())
        trial = changing.new_trial(before, after, self.state, 60, needs_restart=needs_restart)
        for _ in itertools.islice(changing.begin(self.files, trial, before, after), steps):
            pass
        return trial

    def judge(self) -> ConfigJudge[str]:
        return ConfigJudge(self.files.file, load)

    @property
    def holds(self) -> bytes:
        return self.files.file.read_bytes()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_comes_up_stays(world: World) -> None:
    trial = world.change(NEW)
    judge = world.judge()
    assert judge.at_start() == "new"
    assert judge.within_s == 60
    judge.confirm()
    assert judge.within_s is None
    note = world.files.note(trial)
    assert note == TrialNote(trial.id, trials.CONFIRMED, 1)
    assert (world.holds, world.files.before.read_bytes()) == (NEW, OLD)
    assert world.files.trial() is None


def test_what_can_not_be_read_goes_back_in_the_same_start(world: World) -> None:
    trial = world.change(BAD)
    judge = world.judge()
    assert judge.at_start() == "old"
    assert judge.within_s is None
    note = world.files.note(trial)
    assert note is not None
    assert (note.state, note.why) == (trials.RETURNED, "mqtt.port: is bad")
    assert world.holds == OLD
    assert world.files.trial() is None


def test_what_does_not_come_up_goes_back_at_the_next_start(world: World) -> None:
    world.change(NEW)
    judge = world.judge()
    judge.at_start()
    assert judge.send_back("its port is taken")
    assert world.holds == OLD
    assert world.judge().at_start() == "old"


def test_a_start_that_is_killed_is_tried_three_times_and_no_more(world: World) -> None:
    world.change(NEW)
    assert [world.judge().at_start() for _ in range(5)] == ["new", "new", "new", "old", "old"]
    assert world.holds == OLD


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_change_that_is_cut_off_before_its_last_step_has_not_begun(
    world: World, steps: int
) -> None:
    world.change(NEW, steps)
    judge = world.judge()
    assert judge.at_start() == "old"
    assert judge.within_s is None
    changing.settle(world.files, is_running=True)
    assert world.files.trial() is None
    world.change(NEW)
    assert world.judge().at_start() == "new"


def test_a_hand_that_edits_the_file_meanwhile_ends_the_trial(world: World) -> None:
    world.change(NEW)
    world.files.file.write_bytes(b"mine")
    judge = world.judge()
    assert judge.at_start() == "mine"
    assert judge.within_s is None
    changing.settle(world.files, is_running=True)
    assert world.holds == b"mine"


def test_an_edit_by_hand_just_before_the_way_back_is_taken_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.change(NEW)
    judge, real = world.judge(), replaced_file.replace
    judge.at_start()

    def edited_meanwhile(path: Path, *given: Any, **more: Any) -> None:
        if path == world.files.file:
            path.write_bytes(b"mine")
        real(path, *given, **more)

    monkeypatch.setattr(replaced_file, "replace", edited_meanwhile)
    assert judge.send_back("its port is taken")
    assert world.holds == b"mine"
    assert world.files.trial() is None
    assert world.judge().at_start() == "mine"


def test_who_may_not_write_the_configuration_goes_by_the_one_before_it_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service of its own user reads its configuration, and only root writes it."""
    world.change(BAD)
    judge, real = world.judge(), replaced_file.replace

    def only_the_note(path: Path, *given: Any, **more: Any) -> None:
        if path == world.files.file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        real(path, *given, **more)

    monkeypatch.setattr(replaced_file, "replace", only_the_note)
    assert judge.at_start() == "old"
    assert judge.file == world.files.before
    assert world.holds == BAD


def test_without_a_way_back_there_is_no_trial(world: World) -> None:
    world.change(BAD)
    world.files.before.write_bytes(b"something else")
    with pytest.raises(ConfigError, match="is bad"):
        world.judge().at_start()
    world.files.before.unlink()
    with pytest.raises(ConfigError, match="is bad"):
        world.judge().at_start()


def test_a_reload_leaves_what_takes_a_restart_to_the_restart(world: World) -> None:
    world.change(NEW)
    judge = world.judge()
    assert judge.at_reload() == "new"
    assert judge.within_s is None
    assert judge.at_start() == "new"
    assert judge.within_s == 60


def test_a_reload_judges_what_it_takes_over(world: World) -> None:
    world.change(NEW, needs_restart=False)
    judge = world.judge()
    assert judge.at_reload() == "new"
    assert not judge.judge(["mqtt: silent"])
    assert judge.judge([])
    assert changing.settle(world.files, is_running=True) is None
    assert world.holds == NEW


def test_a_gateway_that_may_not_write_there_goes_by_the_one_before_all_the_same(
    world: World,
) -> None:
    trial = world.change(NEW)
    with world.files.locked():  # so that the gateway finds somebody at work, and leaves the files
        judge = world.judge()
        judge.at_start()
        judge.send_back("its port is taken")
        assert world.holds == NEW
        again = world.judge()
        assert again.at_start() == "old"
        assert again.file == world.files.before
        assert again.at_reload() == "old"
        note = changing.settle(world.files, is_running=True)
    assert note is not None
    assert note.state == trials.RETURNED
    assert world.holds == OLD
    assert world.files.note(trial) == note


def test_one_change_at_a_time_is_on_trial(world: World) -> None:
    world.change(NEW)
    with pytest.raises(ChangedMeanwhileError, match="another change is on trial"):
        changing.settle(world.files, is_running=True)
    changing.settle(world.files, is_running=False)
    world.change(b"newer")
    assert world.files.before.read_bytes() == OLD  # what came up last, and not what nobody tried


def test_who_has_seen_another_file_is_told(world: World) -> None:
    seen = trials.digest(world.holds)
    changing.expect(world.files, seen)
    world.files.write(NEW)
    with pytest.raises(ChangedMeanwhileError, match="somebody has changed it"):
        changing.expect(world.files, seen)


def test_a_note_that_can_not_be_written_takes_the_way_back_from_nobody(world: World) -> None:
    world.change(NEW)
    world.state.rmdir()
    judge = world.judge()
    assert judge.at_start() == "new"
    assert judge.send_back("a full disk")
    assert world.holds == OLD


def test_the_other_files_are_for_whoever_may_read_the_configuration(world: World) -> None:
    world.files.file.chmod(0o640)
    world.change(NEW, 2)
    for name in (".before", ".trial"):
        path = world.files.file.with_name(f"gw.toml{name}")
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_root_notes_for_the_gateway_is_the_gateways_to_read(world: World) -> None:
    os.chown(world.state, 1, 1)
    trial = world.change(NEW)
    world.files.write_note(trial, TrialNote(trial.id))
    found = (world.state / NOTE).stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1, 1, 0o600)


def test_a_link_stays_a_link_and_the_other_files_stand_beside_it(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/real.toml").write_bytes(OLD)
    (tmp_path / "gw.toml").symlink_to("there/real.toml")
    files = TrialFiles(tmp_path / "gw.toml")
    files.write(NEW)
    assert (tmp_path / "gw.toml").is_symlink()
    assert (tmp_path / "there/real.toml").read_bytes() == NEW
    assert files.before.parent == tmp_path


verdicts = st.lists(st.sampled_from(["begin", "confirm", "return"]), max_size=8)


@given(verdicts)
def test_the_first_verdict_stands(steps: list[str]) -> None:
    trial = ConfigTrial("0" * 16, "a" * 64, "b" * 64, 60, "/x")
    note, first = trials.begun(trial, None), ""
    for step in steps:
        if step == "begin":
            note = trials.begun(trial, note)
        elif step == "confirm":
            note = trials.confirmed(note)
        else:
            note = trials.returned(note, "it is silent")
        if first:
            assert note.state == first
        elif note.state != trials.TRYING:
            first = note.state
        assert note.starts <= trials.STARTS
        assert trials.decode_note(trials.encode(note)) == note


GOOD: dict[str, Any] = {
    "id": "0" * 16,
    "before": "a" * 64,
    "after": "b" * 64,
    "within_s": 60,
    "state_dir": "/x",
    "needs_restart": True,
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "../../etc"),
        ("id", None),
        ("before", "x"),
        ("after", 3),
        ("within_s", True),
        ("within_s", 1e9),
        ("within_s", float("nan")),
        ("state_dir", None),
        ("needs_restart", "yes"),
    ],
)
def test_a_file_that_is_no_trial_is_none_and_the_field_is_named(field: str, value: Any) -> None:
    assert trials.decode_trial(json.dumps(GOOD).encode()).id == "0" * 16
    with pytest.raises(TrialFileError, match=field):
        trials.decode_trial(json.dumps(GOOD | {field: value}).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{" * 5000, b" " * 9000, b"\xff"])
def test_any_bytes_are_no_trial_and_no_note(data: bytes, tmp_path: Path) -> None:
    for decode in (trials.decode_trial, trials.decode_note):
        with pytest.raises(TrialFileError):
            decode(data)
    (tmp_path / "gw.toml").write_bytes(OLD)
    (tmp_path / "gw.toml.trial").write_bytes(data)
    assert TrialFiles(tmp_path / "gw.toml").open_trial() is None


@pytest.mark.parametrize(
    "change", [{"state": "well"}, {"starts": -1}, {"starts": True}, {"why": 3}, {"id": "x"}]
)
def test_a_damaged_note_is_none(world: World, change: dict[str, Any]) -> None:
    trial = world.change(NEW)
    told = {"id": trial.id, "state": "returned", "starts": 1, "why": ""} | change
    (world.state / NOTE).write_text(json.dumps(told))
    assert world.files.note(trial) is None


def test_a_trial_that_can_not_be_read_is_left_to_who_reads_the_configuration(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.change(NEW)
    Unreadable(monkeypatch, TRIAL, errno.EIO, times=1)
    judge = world.judge()
    assert judge.at_start() == "new"
    assert (judge.within_s, judge.file) == (None, world.files.file)
    assert world.judge().at_start() == "new"
    assert world.files.trial() is not None


def test_the_end_of_a_trial_is_on_the_disk_before_anything_else_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, synced = World(tmp_path), list[tuple[Path, bool]]()
    world.change(NEW)
    assert world.files.trial() is not None
    monkeypatch.setattr(
        replaced_file,
        "sync_folder",
        lambda folder: synced.append((folder, world.files.trial() is None)),
    )
    world.files.end_trial()
    world.files.end_trial()  # there is none any more
    assert synced == [(tmp_path, True)] * 2
