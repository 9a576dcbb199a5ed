"""A command signals the process that wrote to the state folder and has it open."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.process.state_folder import listeners_file
from gateway.tools.commands.errors import FailedError
from gateway.tools.commands.running_gateway import RunningGateway

OTHER_USER = 65_534
HOLD = "import sys; file = open(sys.argv[1], 'w'); print(flush=True); sys.stdin.read()"


@contextmanager
def process_with(file: Path, user: int) -> Iterator[int]:
    """Have a process of a user keep a file open."""
    command = (sys.executable, "-c", HOLD, str(file))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, user=user) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def says(state_dir: Path, pid: object) -> None:
    listeners_file.write(state_dir, "gw", {})
    file = state_dir / listeners_file.NAME
    file.write_text(file.read_text().replace(str(os.getpid()), str(pid)))


def test_a_process_that_has_the_folder_open_is_the_gateway(tmp_path: Path) -> None:
    with process_with(tmp_path / "log", os.getuid()) as pid:
        says(tmp_path, pid)
        assert RunningGateway.find(tmp_path) == RunningGateway(pid)
    assert RunningGateway.find(tmp_path) is None, "it has ended"


def test_a_process_with_nothing_of_the_folder_open_is_not_meant(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with process_with(tmp_path_factory.mktemp("elsewhere") / "log", os.getuid()) as pid:
        says(tmp_path, pid)
        assert RunningGateway.find(tmp_path) is None


@pytest.mark.parametrize("pid", ["0", "-1", "true", '"1"', "null"])
def test_what_is_no_number_of_a_process_is_none(tmp_path: Path, pid: str) -> None:
    says(tmp_path, pid)
    assert RunningGateway.find(tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a file to another user")
def test_who_owns_the_folder_has_root_signal_nobody_elses_process(tmp_path: Path) -> None:
    """Its owner has it open in root's process by what root reads there, such as a backup."""
    with process_with(tmp_path / "log", 0) as pid:
        says(tmp_path, pid)
        os.chown(tmp_path / listeners_file.NAME, OTHER_USER, OTHER_USER)
        assert RunningGateway.find(tmp_path) is None
        os.chown(tmp_path / listeners_file.NAME, 0, 0)
        assert RunningGateway.find(tmp_path) == RunningGateway(pid)


@pytest.mark.parametrize("name", ["/run/gw/listeners.json", None])
def test_a_folder_that_can_not_be_looked_into_is_told(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    monkeypatch.setattr(listeners_file, "read_with_owner", read)
    with pytest.raises(FailedError) as failed:
        RunningGateway.find(tmp_path)
    why = "permission denied to see whether the gateway runs"
    assert str(failed.value) == f"{name or tmp_path}: {why}"


def test_a_gateway_is_told_to_read_again_and_to_start_anew_by_its_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *what: sent.append(what))
    RunningGateway(7).reload()
    RunningGateway(8).restart()
    assert sent == [(7, signal.SIGHUP), (8, signal.SIGUSR2)]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ProcessLookupError(), "the gateway (process 7) has just ended"),
        (
            PermissionError(),
            "the gateway (process 7) takes no signal: it is another user's: repeat this as that "
            "user, or with sudo",
        ),
    ],
)
def test_a_gateway_that_takes_no_signal_is_told(
    error: OSError, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: int) -> None:
        raise error

    monkeypatch.setattr(os, "kill", kill)
    with pytest.raises(FailedError) as failed:
        RunningGateway(7).reload()
    assert str(failed.value) == why


def test_a_file_that_is_closed_while_one_looks_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readlink, closed = Path.readlink, list[Path]()

    def read(path: Path) -> Path:
        if not closed:
            closed.append(path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return readlink(path)

    with process_with(tmp_path / "log", os.getuid()) as pid:
        says(tmp_path, pid)
        monkeypatch.setattr(Path, "readlink", read)
        assert RunningGateway.find(tmp_path) == RunningGateway(pid)
    assert closed
