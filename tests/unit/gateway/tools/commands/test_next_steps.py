"""The next steps that `hedgerow init` shows fit the way in which the program was installed."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import pytest

from gateway.tools.commands import new_files, next_steps

FOLDER = Path("/etc/hedgerow")
UNIT = FOLDER / "hedgerow.service"


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    next_steps.of_joined(FOLDER, UNIT)
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_who_has_the_debian_package_starts_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(new_files.PACKAGED))
    assert "systemctl enable --now hedgerow.service" in said(capsys)
    monkeypatch.setattr(sys, "prefix", "/opt/hedgerow")
    assert f"systemctl enable --now {UNIT}" in said(capsys)


def test_who_came_by_sudo_is_told_commands_that_a_user_may_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "pi")
    assert f"sudo chown -R hedgerow: {FOLDER}" in said(capsys)
    monkeypatch.delenv("SUDO_USER")
    assert f"chown -R hedgerow: {FOLDER}" in said(capsys)


def test_a_user_that_is_there_is_not_to_be_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _: there)
    assert not any(line.startswith("useradd") for line in said(capsys))

    def is_missing(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", is_missing)
    assert any(line.startswith("useradd --system") for line in said(capsys))
    assert f"chown -R hedgerow: {FOLDER}" in said(capsys)
