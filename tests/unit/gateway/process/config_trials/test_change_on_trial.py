"""Goal: a change is written whole or not at all, and has a verdict though nobody gives one."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.process.config_trials import change_on_trial
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.change_on_trial import WantedChange, WrongChangeError
from gateway.process.config_trials.changing import ChangedMeanwhileError
from gateway.process.config_trials.judge import ConfigJudge
from gateway.process.config_trials.trial import TrialNote
from gateway.process.config_trials.trial_files import TrialFiles

TEXT = """[gateway]
id = "gw"
state_dir = "state"
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
"""


class Told:
    """A gateway that notes what it is told, and does nothing."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def reload(self) -> None:
        self.heard.append("reload")

    def restart(self) -> None:
        self.heard.append("restart")


@pytest.fixture
def files(tmp_path: Path) -> TrialFiles:
    (tmp_path / "state").mkdir()
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "gw.toml").write_text(TEXT)
    return TrialFiles(tmp_path / "gw.toml")


def adding(line: str) -> WantedChange:
    return WantedChange(lambda text: f"{text}{line}\n", 5.0)


def no_fault(_data: bytes, _file: Path) -> Sequence[str]:
    return ()


def nobody(_state: Path) -> None:
    return None


def test_a_gateway_is_told_to_reload_or_to_restart_as_the_change_needs(files: TrialFiles) -> None:
    for line, what in (("keep_local = ['a']", "reload"), ("hello_s = 2.0", "restart")):
        gateway = Told()
        planned = change_on_trial.written(files, adding(line), no_fault, lambda _, it=gateway: it)
        assert planned is not None
        assert planned.trial is not None
        assert planned.trial.needs_restart is (what == "restart")
        change_on_trial.tell(planned)
        assert gateway.heard == [what]
        files.put_back(planned.trial)


def test_what_would_be_wrong_is_not_written_and_all_faults_are_told(files: TrialFiles) -> None:
    with pytest.raises(WrongChangeError, match="nothing is written: a: b\nc: d") as caught:
        change_on_trial.written(files, adding("x = 1"), lambda *_: ["a: b", "c: d"], nobody)
    assert caught.value.faults == ("a: b", "c: d")
    assert files.file.read_text() == TEXT
    assert not files.before.exists()


def test_a_rehearsal_writes_nothing(files: TrialFiles) -> None:
    wanted = WantedChange(lambda text: f"{text}hello_s = 2.0\n", is_rehearsal=True)
    planned = change_on_trial.written(files, wanted, no_fault, nobody)
    assert planned is not None
    assert "+hello_s = 2.0" in planned.difference
    assert planned.restarting == ("tree.hello_s",)
    assert files.file.read_text() == TEXT
    assert files.trial() is None


def test_nothing_to_change_and_another_digest_are_told(files: TrialFiles) -> None:
    assert change_on_trial.written(files, WantedChange(lambda text: text), no_fault, nobody) is None
    with pytest.raises(ChangedMeanwhileError):
        change_on_trial.written(files, WantedChange(str.upper, 5.0, "0" * 64), no_fault, nobody)


def test_a_file_that_is_wrong_is_mended_without_a_trial(files: TrialFiles) -> None:
    files.file.write_text("[gateway]\n")
    planned = change_on_trial.written(files, WantedChange(lambda _: TEXT), no_fault, nobody)
    assert planned is not None
    assert planned.trial is None
    assert files.file.read_text() == TEXT
    assert files.before.read_text() == "[gateway]\n"


@pytest.mark.parametrize("damage", ["a = ", "a = " + "[" * 100_000])
def test_a_file_that_is_no_toml_is_mended_without_a_trial(files: TrialFiles, damage: str) -> None:
    files.file.write_text(damage)
    planned = change_on_trial.written(files, WantedChange(lambda _: TEXT), no_fault, nobody)
    assert planned is not None
    assert (planned.trial, planned.restarting) == (None, ("gateway",))
    assert files.file.read_text() == TEXT


def test_what_can_not_be_taken_over_beside_what_stays_takes_a_restart(files: TrialFiles) -> None:
    before = TEXT + '[mqtt]\nhost = "0.0.0.0"\n'
    after = before.replace("0.0.0.0", "10.0.0.1").replace("discovery = false", "discovery = true")
    files.file.write_text(before)
    gateway = Told()
    wanted = WantedChange(lambda _: after)
    planned = change_on_trial.written(files, wanted, no_fault, lambda _: gateway)
    assert planned is not None
    assert planned.restarting == ("gateway.address",)
    change_on_trial.tell(planned)
    assert gateway.heard == ["restart"]


def test_a_gateway_that_says_nothing_goes_back(files: TrialFiles) -> None:
    gateway = Told()
    planned = change_on_trial.written(files, adding("hello_s = 2.0"), no_fault, lambda _: gateway)
    assert planned is not None
    assert planned.trial is not None
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    note = change_on_trial.verdict(
        files, planned.trial, lambda _: gateway, sleep=sleep, clock=lambda: now_s
    )
    assert (note.state, note.why) == (trials.RETURNED, change_on_trial.SILENT)
    assert 5 + change_on_trial.PATIENCE_S <= now_s < 6 + change_on_trial.PATIENCE_S
    assert files.file.read_text() == TEXT
    assert gateway.heard == ["restart"]


def test_a_verdict_ends_the_trial(files: TrialFiles) -> None:
    planned = change_on_trial.written(files, adding("hello_s = 2.0"), no_fault, lambda _: Told())
    assert planned is not None
    assert planned.trial is not None
    note = TrialNote(planned.trial.id, trials.CONFIRMED, 1)
    files.write_note(planned.trial, note)
    assert change_on_trial.verdict(files, planned.trial, nobody) == note
    assert files.trial() is None
    assert "hello_s" in files.file.read_text()


@pytest.mark.parametrize("text", [TEXT, "wrong = 1\n"])
def test_an_edit_by_hand_while_a_change_is_checked_stays_and_is_on_no_trial(
    files: TrialFiles, text: str
) -> None:
    files.file.write_text(text)

    def edit_by_hand(_data: bytes, file: Path) -> Sequence[str]:
        file.write_text("# by hand\n")
        return ()

    with pytest.raises(ChangedMeanwhileError, match="changed it meanwhile: look at it again"):
        change_on_trial.written(files, adding("hello_s = 2.0"), edit_by_hand, nobody)
    assert files.file.read_text() == "# by hand\n"
    assert files.trial() is None


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_verdict_that_a_full_disk_did_not_take_is_seen_by_what_the_gateway_goes_by(
    files: TrialFiles, monkeypatch: pytest.MonkeyPatch, comes_up: bool
) -> None:
    gateway = Told()
    planned = change_on_trial.written(files, adding("hello_s = 2.0"), no_fault, lambda _: gateway)
    assert planned is not None
    assert planned.trial is not None

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TrialFiles, "write_note", full)
    judge = ConfigJudge(files.file, Path.read_text)
    judge.at_start()
    if comes_up:
        judge.confirm()
    else:
        judge.send_back("its port is taken")

    def sleep(_: float) -> None:
        pytest.fail("it has judged")

    note = change_on_trial.verdict(files, planned.trial, lambda _: gateway, sleep=sleep)
    if comes_up:
        assert note.state == trials.CONFIRMED
        assert files.file.read_text() != TEXT
    else:
        assert (note.state, note.why) == (trials.RETURNED, change_on_trial.UNNOTED)
        assert files.file.read_text() == TEXT
    assert gateway.heard == []
