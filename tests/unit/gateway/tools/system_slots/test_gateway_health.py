"""The gateway of a system on trial is asked as `hedgerow status` asks it, and held to before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.system_slots.gateway_health import GatewayHealth

WELL: dict[str, Any] = {
    "boot_epoch": 2,
    "neighbours": [{"id": "gw-b", "forwarding": True}],
    "members": ["gw-b"],
}


class AskedCommand:
    """`hedgerow status`, which prints what it is told to, and notes how it was called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config = folder / "hedgerow.toml"
        self._folder = folder
        program = folder / "python"
        program.write_text(f'#!/bin/sh\necho "$*" >{folder}/called\n. {folder}/answer\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        self.health = GatewayHealth(self.config)

    def says(self, text: str, code: int = 0) -> None:
        (self._folder / "said").write_text(text)
        (self._folder / "answer").write_text(f"cat {self._folder}/said; exit {code}\n")

    def called(self) -> str:
        return (self._folder / "called").read_text().strip()


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AskedCommand:
    return AskedCommand(tmp_path, monkeypatch)


def test_it_is_asked_by_its_configuration_and_with_its_keys_where_it_has_some(
    asked: AskedCommand,
) -> None:
    asked.says(json.dumps(WELL))
    assert asked.health.status() == WELL
    usual = f"-m gateway.tools.cli status --json --timeout 2 --config {asked.config}"
    assert asked.called() == usual
    keys = asked.config.with_name("psk")
    keys.touch()
    assert asked.health.status() == WELL
    assert asked.called() == f"{usual} --psk-file {keys}"


@pytest.mark.parametrize(
    ("said", "code"), [('{"boot_epoch": 1}', 1), ("", 0), ("no JSON", 0), ("[1]", 0)]
)
def test_what_is_no_status_is_no_answer(said: str, code: int, asked: AskedCommand) -> None:
    asked.says(said, code)
    assert asked.health.status() == {}
    assert asked.health.complaints({}, has_to_run=True) == ["it does not answer"]


def test_a_command_that_does_not_end_or_can_not_be_run_is_no_answer(
    asked: AskedCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (subprocess.TimeoutExpired("a", 1), OSError(2, "No such file")):

        def fail(*_: object, why: Exception = error, **__: object) -> None:
            raise why

        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "run", fail)
            assert asked.health.status() == {}


def test_a_machine_that_had_no_gateway_needs_none(asked: AskedCommand) -> None:
    asked.says("", 1)
    assert not asked.health.has_gateway()
    assert asked.health.complaints({}, has_to_run=False) == []
    asked.config.touch()
    assert asked.health.has_gateway()
    assert asked.health.complaints({}, has_to_run=False) == ["it does not answer"]


def test_a_gateway_is_held_to_what_it_was_and_to_no_more_than_it_told_before(
    asked: AskedCommand,
) -> None:
    asked.says(json.dumps(WELL))
    assert asked.health.complaints(WELL | {"boot_epoch": 1}, has_to_run=True) == []
    assert asked.health.complaints(WELL, has_to_run=True) == ["it has not started again"]
    silent = {"boot_epoch": 2}
    asked.says(json.dumps(silent))
    assert asked.health.complaints(silent, has_to_run=True) == []
    nothing_told = ["it tells nothing of itself: gateway_ask_as may not read /status"]
    for before in (WELL, {}):
        assert asked.health.complaints(before, has_to_run=True) == nothing_told
