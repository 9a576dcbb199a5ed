"""`hedgerow config` says what a change does before it counts, and what came of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from one_parser import hedgerow, parser

from gateway.base import exit_codes
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial import TrialNote
from gateway.process.config_trials.trial_files import TrialFiles
from gateway.process.configuration import keys
from gateway.tools.commands.running_gateway import RunningGateway

TEXT = """\
[gateway]
id = "gw-a"
state_dir = "state"

[tree]
key_file = "tree.key"
tls = "off"
hello_s = 2.0

[access]
anonymous = true
"""
DIFFERENCE = """\
--- {file}
+++ {file} (new)
@@ -5,7 +5,7 @@
 [tree]
 key_file = "tree.key"
 tls = "off"
-hello_s = 2.0
+hello_s = 1.5
 \n\
 [access]
 anonymous = true
"""
"""A unified difference, with three lines around."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    key, made = tmp_path / "tree.key", tmp_path / "gw.toml"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    made.write_text(TEXT)
    return made


def changed(file: Path, *words: str) -> int:
    return hedgerow("config", "set", "--config", file, *words)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_rehearsal_shows_the_change_and_writes_nothing(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert changed(file, "tree.hello_s=1.5", "--dry-run") == exit_codes.DONE
    difference = DIFFERENCE.format(file=file)
    assert capsys.readouterr().out == f"{difference}{file}: nothing is written\n"
    assert changed(file, "tree.hello_s=1.5", "--dry-run", "--json") == exit_codes.DONE
    assert json.loads(capsys.readouterr().out) == {
        "outcome": "planned",
        "why": "",
        "restarts_for": ["tree.hello_s"],
        "difference": difference,
    }
    assert file.read_text() == TEXT
    assert not file.with_name("gw.toml.before").exists()


@pytest.mark.parametrize("words", [[], ["--no-apply"]])
def test_what_no_gateway_runs_by_is_on_trial_from_its_next_start_on(
    words: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hedgerow("config", "show", "tree", "--config", file) == exit_codes.DONE
    assert "it is on trial" not in capsys.readouterr().out
    assert changed(file, "tree.hello_s=1.5", *words) == exit_codes.DONE
    told = f"{file}: written; a gateway goes by it, on trial, from its next start on\n"
    assert capsys.readouterr().out == DIFFERENCE.format(file=file) + told
    assert file.read_text() == TEXT.replace("2.0", "1.5")
    assert file.with_name("gw.toml.before").read_text() == TEXT
    assert hedgerow("config", "show", "tree", "--config", file) == exit_codes.DONE
    assert capsys.readouterr().out.endswith("\nit is on trial\n")
    assert hedgerow("config", "show", "tree.hello_s", "--json", "--config", file) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["digest"], shown["is_on_trial"]) == (str(file), digest(file), True)
    assert [(one["key"], one["value"]) for one in shown["keys"]] == [("tree.hello_s", 1.5)]


def test_a_change_in_json_is_one_document(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert changed(file, "--unset", "tree.hello_s", "--json") == exit_codes.DONE
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(told) == ["outcome", "why", "restarts_for", "difference"]
    assert (told["outcome"], told["why"]) == ("written", "")
    assert "\n-hello_s = 2.0\n" in told["difference"]
    assert "hello_s" not in file.read_text()


class TriedNow:
    """A gateway that runs, and has its verdict on a change at once.

    Args:
        file: its configuration.
        why: it goes back; empty if it stays.

    """

    def __init__(self, file: Path, why: str = "") -> None:
        self._files = TrialFiles(file)
        self._why = why
        self.told: list[str] = []

    def reload(self) -> None:
        self._judge("reload")

    def restart(self) -> None:
        self._judge("restart")

    def _judge(self, told: str) -> None:
        self.told.append(told)
        trial = self._files.trial()
        assert trial is not None
        assert trial.within_s == 7.0
        note = TrialNote(trial.id)
        judged = trials.returned(note, self._why) if self._why else trials.confirmed(note)
        self._files.write_note(trial, judged)


@pytest.mark.parametrize(
    ("key", "how", "said"),
    [
        ("tree.hello_s=1.5", "restart", "starts anew for tree.hello_s"),
        ("gateway.domain=campus", "reload", "reads"),
    ],
)
def test_a_gateway_that_runs_is_told_of_a_change_and_its_verdict_is_waited_for(
    key: str,
    how: str,
    said: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.with_name("state").mkdir()
    running = TriedNow(file)
    monkeypatch.setattr(RunningGateway, "find", lambda _state_dir: running)
    assert changed(file, key, "--within", "7") == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"the gateway {said}; it has 7 s to come up",
        f"{file}: the gateway goes by it",
    ]
    assert running.told == [how]
    assert hedgerow("config", "show", "tree", "--config", file) == exit_codes.DONE
    assert "it is on trial" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_gateway_that_went_back_says_why(
    words: list[str],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.with_name("state").mkdir()
    running = TriedNow(file, "no\x1b link")
    monkeypatch.setattr(RunningGateway, "find", lambda _state_dir: running)
    code = changed(file, "tree.hello_s=1.5", "--within", "7", *words)
    said = capsys.readouterr()
    assert (code, running.told) == (exit_codes.FAILED, ["restart"])
    why = r"the gateway went back to what was before: no\x1b link"
    assert said.err == f"hedgerow: {file}: {why}\n"
    if words:
        told = json.loads(said.out)
        assert (told["outcome"], told["why"]) == ("returned", "no\x1b link")


def test_a_gateway_that_runs_is_left_as_it_is_where_that_is_asked_for(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.with_name("state").mkdir()
    running = TriedNow(file)
    monkeypatch.setattr(RunningGateway, "find", lambda _state_dir: running)
    for more, end in (("--dry-run", "nothing is written"), ("--no-apply", "next start on")):
        assert changed(file, "tree.hello_s=1.5", "--within", "7", more) == exit_codes.DONE
        assert capsys.readouterr().out.endswith(f"{end}\n")
    assert running.told == []


def test_what_changes_nothing_is_told_and_written_nowhere(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert changed(file, "tree.hello_s=2.0") == exit_codes.DONE
    assert capsys.readouterr().out == f"{file}: nothing changes\n"
    assert changed(file, "tree.hello_s=2.0", "--json") == exit_codes.DONE
    assert json.loads(capsys.readouterr().out) == {"outcome": "unchanged"}
    assert not file.with_name("gw.toml.before").exists()


def test_a_file_that_has_changed_since_it_was_seen_is_left_alone(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = digest(file)
    file.write_text(TEXT + "# mine\n")
    words = ("tree.hello_s=1.5", "--dry-run", "--if-unchanged")
    assert changed(file, *words, seen) == exit_codes.FAILED
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert changed(file, *words, digest(file)) == exit_codes.DONE


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "config set: neither KEY=VALUE nor --unset KEY is given"),
        (["tree.hello_s"], "config set: "),
        (["tree.hello_s=100.0"], "{file}: nothing is written: "),
    ],
)
def test_a_wrong_change_is_told_and_not_written(
    words: list[str], why: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert changed(file, *words) == exit_codes.WRONG_USE
    assert capsys.readouterr().err.startswith(f"hedgerow: {why.format(file=file)}")
    assert file.read_text() == TEXT


def test_a_file_that_can_not_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = tmp_path / "none.toml"
    (damaged := tmp_path / "damaged.toml").write_text("[gateway\n")
    (foreign := tmp_path / "foreign.toml").write_bytes(b"\xff\n")
    whys = {
        tmp_path: f"{tmp_path}: Is a directory",
        none: f"{none}: No such file or directory",
    }
    for file, why in whys.items():
        assert hedgerow("config", "show", "--config", file) == exit_codes.WRONG_USE
        assert changed(file, "tree.hello_s=1.5") == exit_codes.WRONG_USE
        assert capsys.readouterr().err == f"hedgerow: {why}\n" * 2
    for file in (damaged, foreign):
        assert hedgerow("config", "show", "--config", file) == exit_codes.WRONG_USE
        said = capsys.readouterr().err
        assert said.startswith(f"hedgerow: {file}: ")
        assert said.endswith(": `hedgerow check` says where\n")


def test_an_unknown_key_is_told_with_the_one_that_may_be_meant(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hints = {
        "tree.helo_s": ", did you mean tree.hello_s?",
        "an.altogether.unknown.table.hello_s": ", did you mean tree.hello_s?",
        "nothing-like-it": ": `hedgerow config show` lists all",
    }
    for key, hint in hints.items():
        assert hedgerow("config", "show", key, "--config", file) == exit_codes.WRONG_USE
        assert capsys.readouterr().err == f"hedgerow: {key!r} is no key{hint}\n"


@pytest.mark.parametrize(
    ("key", "more", "lines"),
    [
        (
            "tree.hello_s",
            "",
            [
                "tree.hello_s = 2.0",
                "  {text}",
                "  from: {file}:8",
                "  type: number, 0.01 to 60",
                "  default: 0.5",
                "  a change takes a restart",
            ],
        ),
        (
            "gateway.id",
            "",
            [
                'gateway.id = "gw-a"',
                "  {text}",
                "  from: {file}:2",
                "  type: text",
                "  default: a file has to have it",
                "  a change takes a restart",
            ],
        ),
        (
            "alerts.webhook",
            '[alerts.webhook]\nurl = "https://example.org"\n',
            ['alerts.webhook = {{url = "https://example.org"}}'],
        ),
        ("access.anonymous", "", ["access.anonymous = true"]),
        ("tree.neighbours", "", ["tree.neighbours = []"]),
    ],
)
def test_one_key_is_shown_with_all_that_is_known_of_it(
    key: str, more: str, lines: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(TEXT + more)
    assert hedgerow("config", "show", key, "--config", file) == exit_codes.DONE
    said = capsys.readouterr().out.splitlines()
    expected = [line.format(file=file, text=keys.texts()[key]) for line in lines]
    assert said[: len(expected)] == expected


def test_a_long_value_is_cut_to_sixty_characters_in_the_table(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {58: '"' + "a" * 58 + '"', 59: '"' + "a" * 56 + "..."}
    for count, shown in whole.items():
        file.write_text(TEXT.replace("tree.key", "a" * count))
        assert hedgerow("config", "show", "tree", "--config", file) == exit_codes.DONE
        (row,) = [
            line.split()
            for line in capsys.readouterr().out.splitlines()
            if line.startswith("tree.key_file ")
        ]
        assert row == ["tree.key_file", shown, "line", "6"]
        assert len(shown) == 60


@pytest.mark.parametrize("text", ["1", "1.0", "3600"])
def test_a_gateway_is_given_a_second_to_an_hour_to_come_up(text: str) -> None:
    assert parser().parse_args(["config", "set", "--within", text]).within == float(text)
    assert parser().parse_args(["config", "set"]).within == 60.0


@pytest.mark.parametrize("text", ["0.99", "3600.1", "nan", "soon", ""])
def test_less_than_a_second_and_more_than_an_hour_are_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        hedgerow("config", "set", f"--within={text}")
    assert ended.value.code == exit_codes.WRONG_USE
    assert f"{text!r} is not 1 to 3600 seconds" in capsys.readouterr().err
