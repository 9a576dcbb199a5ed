"""`hedgerow system` says what runs and what came of a trial, in words and as JSON."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.commands import system, system_slots
from gateway.tools.commands.carrying_out import carry_out
from gateway.tools.commands.parser import Parser
from gateway.tools.flashing import boot_partition
from gateway.tools.flashing.errors import CardWriteError, ReadBackError, RefusalError
from gateway.tools.system_slots import installing
from gateway.tools.system_slots.board import Board
from gateway.tools.system_slots.slots import Slot, SystemSlotError
from gateway.tools.system_slots.trial import StartedSlots

Printed = pytest.CaptureFixture[str]
STATUS: dict[str, Any] = {
    "running": "a",
    "default": "a",
    "versions": {"b": None, "a": "1.4.0"},
    "trial": None,
    "last": None,
}
TRIAL = {"slot": "b", "version": "1.5.0", "attempts_left": 1}


class Guard:
    """Notes what it is told to do.

    Attributes:
        asked: each call with its arguments.
        fails: what each call raises.
        told: what `status` returns.
        was_open: what `send_back` returns.

    """

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.fails: Exception | None = None
        self.told = STATUS
        self.was_open = True

    def _note(self, *call: object) -> None:
        self.asked.append(call)
        if self.fails is not None:
            raise self.fails

    def status(self) -> dict[str, Any]:
        self._note("status")
        return self.told

    def install(
        self, write: Callable[[], str], within_s: float, attempts: int, *, starts: bool
    ) -> str:
        self._note("install", within_s, attempts, starts)
        return write()

    def try_other(self, within_s: float, attempts: int) -> str:
        self._note("try", within_s, attempts)
        return "1.5.0"

    def confirm(self) -> str:
        self._note("confirm")
        return "1.5.0"

    def send_back(self, why: str) -> bool:
        self._note("back", why)
        return self.was_open

    def watch(self, version: str) -> None:
        self._note("watch", version)


class Installer:
    """Writes nothing, and returns a version."""

    made: tuple[object, ...] = ()

    def __init__(self, *given: object) -> None:
        self._slot = given[1]

    def install(self, image: Path, keyring: Path, steps: Callable[[str], Any]) -> str:
        steps("copying")(2, 2)
        Installer.made = (self._slot, image, keyring)
        return "1.5.0"


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Guard:
    made = Guard()
    monkeypatch.setattr(system_slots, "SystemGuard", lambda *_: made)
    return made


def command_line() -> Parser:
    parser = Parser(prog="hedgerow")
    system.add(parser.add_subparsers())
    return parser


def done(printed: Printed, *words: str) -> tuple[int, str]:
    code = carry_out(command_line, ["system", *words])
    said = printed.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        (STATUS, "a  1.4.0  runs, is started\nb  no whole system\n"),
        (
            STATUS | {"running": "b", "versions": {"b": "1.5.0", "a": "1.4.0"}, "trial": TRIAL},
            "a  1.4.0  is started\nb  1.5.0  runs\non trial: 1.5.0 in slot b, 1 more attempts\n",
        ),
        (
            STATUS | {"last": {"version": "1.5.0", "outcome": "failed", "why": "no status"}},
            "a  1.4.0  runs, is started\nb  no whole system\nlast trial: 1.5.0 failed: no status\n",
        ),
        (
            STATUS | {"last": {"version": "1.5.0", "outcome": "confirmed", "why": ""}},
            "a  1.4.0  runs, is started\nb  no whole system\nlast trial: 1.5.0 confirmed\n",
        ),
    ],
    ids=["one system", "on trial", "failed", "confirmed"],
)
def test_the_slots_and_the_trial_are_lines_for_a_person_and_one_document_for_scripts(
    guard: Guard, told: dict[str, Any], lines: str, capsys: Printed
) -> None:
    guard.told = told
    assert done(capsys, "status") == (0, lines)
    code, document = done(capsys, "status", "--json")
    assert (code, json.loads(document)) == (0, told)


@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        (["try"], ("try", 600.0, 2), "1.5.0 is started now, on trial\n"),
        (
            ["try", "--within", "9.5", "--attempts", "1"],
            ("try", 9.5, 1),
            "1.5.0 is started now, on trial\n",
        ),
        (["confirm"], ("confirm",), "1.5.0 stays\n"),
        (
            ["back"],
            ("back", "it was sent back"),
            "the system before runs, or is started now\n",
        ),
        (
            ["back", "--why", "no radio"],
            ("back", "no radio"),
            "the system before runs, or is started now\n",
        ),
        (["watch"], ("watch", "1.4.0"), ""),
    ],
)
def test_a_verb_is_carried_out_and_said(
    guard: Guard,
    words: list[str],
    asked: tuple[object, ...],
    said: str,
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installing, "version_of", lambda root: "1.4.0" if root == Path("/") else "")
    assert done(capsys, *words) == (0, said)
    assert guard.asked == [asked]


def test_a_trial_that_was_not_open_is_none_that_ends(guard: Guard, capsys: Printed) -> None:
    guard.was_open = False
    told = "nothing is on trial; `hedgerow system try` starts the other slot\n"
    assert done(capsys, "back") == (0, told)


@pytest.mark.parametrize(
    ("words", "starts", "said"),
    [
        ((), True, "1.5.0 is started now, on trial\n"),
        (("--no-restart",), False, "1.5.0 is whole in the other slot\n"),
        (("--json",), True, {"version": "1.5.0", "is_tried": True}),
        (("--json", "--no-restart"), False, {"version": "1.5.0", "is_tried": False}),
    ],
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_image_goes_into_the_slot_that_does_not_run(
    guard: Guard,
    words: tuple[str, ...],
    starts: bool,
    said: object,
    is_terminal: bool,
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boot_partition, "check_programs", lambda: None)
    monkeypatch.setattr(system_slots, "SlotInstaller", Installer)
    monkeypatch.setattr(Board, "running", lambda _: StartedSlots(Slot.B, Slot.B))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert carry_out(command_line, ["system", "install", "new.img", *words]) == 0
    told, progress = capsys.readouterr()
    assert (told if isinstance(said, str) else json.loads(told)) == said
    assert guard.asked == [("install", 600.0, 2, starts)]
    assert bool(progress) is is_terminal
    assert Installer.made == (Slot.B, Path("new.img"), installing.KEYRING)
    assert carry_out(command_line, ["system", "install", "new.img", "--keyring", "own.gpg"]) == 0
    assert Installer.made == (Slot.B, Path("new.img"), Path("own.gpg"))


def test_without_the_program_that_writes_a_boot_partition_nothing_is_begun(
    guard: Guard, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    code, said = done(capsys, "install", "new.img")
    assert code == RefusalError.exit_code
    assert said.startswith("hedgerow: system: ")
    assert "mtools" in said
    assert guard.asked == []


@pytest.mark.parametrize(
    ("fails", "code", "said"),
    [
        (SystemSlotError("slot b holds no whole system"), 1, "slot b holds no whole system"),
        (RefusalError("new.img: too long"), RefusalError.exit_code, "new.img: too long"),
        (CardWriteError("it is full"), CardWriteError.exit_code, "it is full"),
        (ReadBackError("it differs"), ReadBackError.exit_code, "it differs"),
        (
            OSError(errno.EBUSY, os.strerror(errno.EBUSY), "/data/system"),
            1,
            "/data/system: Device or resource busy",
        ),
        (OSError(errno.EIO, os.strerror(errno.EIO)), 1, "Input/output error"),
        (OSError("a text alone"), 1, "a text alone"),
    ],
)
def test_what_fails_is_one_line_and_its_exit_code(
    guard: Guard, fails: Exception, code: int, said: str, capsys: Printed
) -> None:
    guard.fails = fails
    assert done(capsys, "try") == (code, f"hedgerow: system: {said}\n")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_what_stands_in_for_the_firmware_is_where_a_test_says(
    way: str, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--firmware", str(tmp_path)] if way == "option" else []
    elsewhere = tmp_path if way == "environment" else tmp_path / "other"
    monkeypatch.setenv(system_slots.FIRMWARE_VARIABLE, str(elsewhere))
    code, said = done(capsys, "status", *words, "--data", str(tmp_path))
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith(f"hedgerow: system: {tmp_path}/partition: No such file or directory: ")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_what_stands_in_for_the_disk_is_where_a_test_says(
    way: str, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "partition").write_bytes(Slot.A.boot_partition.to_bytes(4, "big"))
    card, other = f"{tmp_path}/card", f"{tmp_path}/other"
    words = ["--partitions", card] if way == "option" else []
    monkeypatch.setenv(system_slots.PARTITIONS_VARIABLE, card if way == "environment" else other)
    where = ["--firmware", str(tmp_path), "--data", str(tmp_path)]
    assert done(capsys, "status", *where, *words) == (
        1,
        f"hedgerow: system: {card}1: No such file or directory\n",
    )
