"""`hedgerow shell` runs ssh with what the relay has written, and nothing for who is not known."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.commands import shell
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.parser import Parser


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(shell.VARIABLE, raising=False)
    (tmp_path / "gateways").mkdir()
    for name in ("gw-north", "gw-south"):
        (tmp_path / "gateways" / f"{name}.known_hosts").touch()
    (tmp_path / "ssh_config").touch()
    return tmp_path


class Ssh:
    """Stands for the program, and ends as the test says.

    Attributes:
        ran: the command and its environment.
        code: what it ends with; None where there is no such program.
        during: what an interrupt does while it runs.

    """

    def __init__(self) -> None:
        self.ran: tuple[list[str], dict[str, str]] = ([], {})
        self.code: int | None = 0
        self.during: Any = None

    def __call__(self, command: list[str], env: dict[str, str]) -> Ssh:
        if self.code is None:
            raise FileNotFoundError(2, "No such file or directory", "ssh")
        self.ran = (command, env)
        return self

    def wait(self) -> int:
        self.during = signal.getsignal(signal.SIGINT)
        assert self.code is not None
        return self.code


@pytest.fixture
def ssh(monkeypatch: pytest.MonkeyPatch) -> Ssh:
    made = Ssh()
    monkeypatch.setattr(subprocess, "Popen", made)
    return made


def run(*words: str) -> int:
    parser = Parser(prog="hedgerow")
    shell.add(parser.add_subparsers())
    options = parser.parse_args(["shell", *words])
    code: int = options.command(options)
    return code


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("gw-north",), ["gw-north"]),
        (("ines@gw-north",), ["-l", "ines", "gw-north"]),
        (("gw-north", "--", "ls -l | wc"), ["gw-north", "ls -l | wc"]),
        (("gw-north", "--", "ls", "a b", "-l"), ["gw-north", "ls 'a b' -l"]),
    ],
)
def test_ssh_is_run_with_the_configuration_of_the_relay(
    relay: Path, ssh: Ssh, words: tuple[str, ...], command: list[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run("--relay", str(relay), *words) == 0
    ran, environment = ssh.ran
    assert ran == ["ssh", "-F", f"{relay}/ssh_config", *command]
    assert environment == os.environ | {"HEDGEROW_RELAY": str(relay)}
    assert ssh.during == signal.SIG_IGN, "Ctrl-C is for what runs there"
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("ends", "code"), [(0, 0), (1, 1), (254, 254), (-15, 143)])
def test_the_exit_code_is_that_of_what_runs_there(
    relay: Path, ssh: Ssh, ends: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shell.VARIABLE, str(relay))
    ssh.code = ends
    assert run("gw-south") == code


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (255, "gw-north: no connection through the relay, and ssh or the relay has said why: "),
        (None, "ssh is not installed: sudo apt-get install openssh-client"),
    ],
)
def test_without_a_connection_or_a_program_it_fails(
    relay: Path, ssh: Ssh, code: int | None, why: str
) -> None:
    ssh.code = code
    with pytest.raises(FailedError) as failed:
        run("--relay", str(relay), "gw-north")
    assert str(failed.value).startswith(why)
    assert failed.value.exit_code == 1


def test_the_folder_of_the_relay_is_needed_with_what_is_in_it(relay: Path, ssh: Ssh) -> None:
    with pytest.raises(WrongUseError) as refused:
        run("gw-north")
    assert str(refused.value) == (
        "--relay: not given, and HEDGEROW_RELAY is not set: it is the folder that relay.yml fills "
        "(docs/relay.md)"
    )
    (relay / "ssh_config").unlink()
    with pytest.raises(WrongUseError) as refused:
        run("--relay", str(relay), "gw-north")
    assert str(refused.value) == (
        f"--relay: {relay} has no ssh_config, which relay.yml writes there"
    )
    assert ssh.ran == ([], {})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gw-nort", "did you mean gw-north?"),
        ("attic", "relay.yml writes it there once it has a way"),
    ],
)
def test_a_gateway_without_a_host_key_is_not_dialled(
    relay: Path, ssh: Ssh, name: str, hint: str
) -> None:
    with pytest.raises(WrongUseError) as refused:
        run("--relay", str(relay), f"ines@{name}")
    assert str(refused.value) == f"{name!r}: {relay}/gateways has no host key of it, {hint}"
    assert ssh.ran == ([], {})
