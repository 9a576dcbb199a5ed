"""An archive of a gateway that runs has its files as they were at one moment (making.py)."""

from __future__ import annotations

import io
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.backups import making, restoring

WRITER = """
import os, sqlite3, sys
state = sys.argv[1]
first, second = (open(f"{state}/{name}.log", "ab", buffering=0) for name in ("first", "second"))
db = sqlite3.connect(f"{state}/checkpoint.db", isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = OFF")
db.execute("CREATE TABLE IF NOT EXISTS last (number)")
number = 0
while True:
    number += 1
    first.write(number.to_bytes(8, "big"))
    second.write(number.to_bytes(8, "big"))
    db.execute("INSERT INTO last VALUES (?)", (number,))
    with open(f"{state}/small.new", "w") as small:
        small.write(str(number))
    os.rename(f"{state}/small.new", f"{state}/small")
    if number == 1:
        print("writes", flush=True)
"""
"""It writes each number to four files, one after another."""
BEFORE = bytes(200_000)
"""The logs begin with so much, so that they are read after the process goes on."""


class Gateway:
    """Folders of a gateway, and what writes there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.state = folder / "etc/hedgerow", folder / "var/lib/hedgerow"
        for path in (self.config, self.state):
            path.mkdir(parents=True)
        (self.config / "hedgerow.toml").write_text(
            f'[gateway]\nid = "gw-south"\nstate_dir = "{self.state}"\n'
        )
        for name in ("first", "second"):
            (self.state / f"{name}.log").write_bytes(BEFORE)
        for number in range(200):  # between the files that are written, in the order of their names
            (self.state / f"first.log.{number}").write_text("no more")
        self.writer: subprocess.Popen[str] | None = None

    def start(self) -> int:
        command = [sys.executable, "-c", WRITER, str(self.state)]
        self.writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.writer.stdout is not None
        assert self.writer.stdout.readline() == "writes\n"
        return self.writer.pid

    def stop(self) -> None:
        if self.writer is not None:
            self.writer.send_signal(signal.SIGCONT)
            self.writer.kill()
            self.writer.communicate()

    def archive(self) -> bytes:
        out = io.BytesIO()
        pid = None if self.writer is None else self.writer.pid
        making.write(out, self.config, self.state, lambda: pid, self.folder)
        return out.getvalue()

    def goes_on(self) -> None:
        assert self.writer is not None
        path, began = self.state / "first.log", time.monotonic()
        size = path.stat().st_size
        while path.stat().st_size == size:
            assert time.monotonic() - began < 60, "it is held for ever"
            time.sleep(0.001)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(tmp_path)
    yield made
    made.stop()


def numbers_in(archive: bytes, gateway: Gateway, to: Path) -> list[int]:
    """The last number of each file, in the order in which they are written."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        # Not an argument: Python 3.11.2, which Debian 12 has, knows none (PEP 706).
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(to)
    state = to / str(gateway.state).lstrip("/")
    last = []
    for name in ("first", "second"):
        content = (state / f"{name}.log").read_bytes()
        assert len(content) % 8 == 0, "a number is cut off"
        last.append(int.from_bytes(content[-8:], "big"))
    db = sqlite3.connect(state / "checkpoint.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    last.append(db.execute("SELECT max(number) FROM last").fetchone()[0])
    db.close()
    return [*last, int((state / "small").read_text())]


def test_all_files_are_of_one_moment_and_the_gateway_goes_on(gateway: Gateway) -> None:
    gateway.start()
    for turn in range(5):
        archive = gateway.archive()
        gateway.goes_on()
        found = numbers_in(archive, gateway, gateway.folder / str(turn))
        assert found == sorted(found, reverse=True), "a later file knows more than an earlier one"
        assert found[0] - found[-1] <= 1


def test_who_is_killed_while_it_holds_a_gateway_leaves_it_going_on(gateway: Gateway) -> None:
    pid = gateway.start()
    holder = (
        "import signal, sys; from gateway.backups import making\n"
        f"with making.held({pid}): print('held', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"held\n"
        size = (gateway.state / "first.log").stat().st_size
        assert (gateway.state / "first.log").stat().st_size == size
        killed.kill()
    gateway.goes_on()


def test_what_fails_while_a_gateway_is_held_leaves_it_going_on(gateway: Gateway) -> None:
    gateway.start()
    (gateway.state / "linked").symlink_to("/etc")
    with pytest.raises(making.BackupError, match=r"linked is a link to a folder"):
        gateway.archive()
    gateway.goes_on()


def test_the_archive_is_one_that_restores_whether_the_gateway_runs_or_not(gateway: Gateway) -> None:
    (gateway.config / "tls").mkdir()
    (gateway.config / "tls/gateway.pem").symlink_to("/etc/hostname")
    os.mkfifo(gateway.state / "pipe")
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind(str(gateway.state / "s"))
    for start in (lambda: 0, gateway.start):
        start()
        backup = gateway.folder / "backup.tar.gz"
        backup.write_bytes(gateway.archive())
        restoring.unpack(backup, "gw-south", gateway.config, gateway.state)
        unpacked = restoring.beside(gateway.state)
        assert (unpacked / "first.log").read_bytes()[: len(BEFORE)] == BEFORE
        assert not (unpacked / "pipe").exists()


def test_a_gateway_that_starts_while_its_files_are_opened_spoils_the_backup(
    gateway: Gateway,
) -> None:
    told = iter([None, os.getpid()])
    with pytest.raises(making.BackupError, match="has started meanwhile"):
        making.write(
            io.BytesIO(), gateway.config, gateway.state, lambda: next(told), gateway.folder
        )


def test_more_files_than_a_gateway_has_are_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MAX_FILES", 3)
    with pytest.raises(making.BackupError, match="one file more than the 3"):
        gateway.archive()


def test_a_file_that_becomes_shorter_spoils_the_backup(gateway: Gateway) -> None:
    class Shortens(io.BytesIO):
        def write(self, chunk: object) -> int:
            os.truncate(gateway.state / "second.log", 10)
            return super().write(chunk)  # type: ignore[arg-type]

    with pytest.raises((making.BackupError, OSError)):
        making.write(Shortens(), gateway.config, gateway.state, lambda: None, gateway.folder)


def test_a_folder_without_a_configuration_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(making.BackupError, match=r"hedgerow\.toml: No such file"):
        making.gateway_id(tmp_path)
    (tmp_path / "hedgerow.toml").write_text("gateway = 1\n")
    with pytest.raises(making.BackupError, match="names no gateway"):
        making.gateway_id(tmp_path)


UNSTOPPABLE = """
import os, sys
pipe = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[pipe])
"""
"""It waits, as for a disk, until its child has opened a pipe that nobody writes to (vfork(2))."""


def test_a_thread_that_does_not_stop_is_an_error_and_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "HELD_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    waits = subprocess.Popen(
        [sys.executable, "-c", UNSTOPPABLE, str(tmp_path / "pipe")], start_new_session=True
    )
    try:
        children = Path(f"/proc/{waits.pid}/task/{waits.pid}/children")
        while not children.read_text():
            time.sleep(0.01)
        with (
            pytest.raises(making.BackupError, match="did not stop within"),
            making.held(waits.pid),
        ):
            pass
    finally:
        os.killpg(waits.pid, signal.SIGKILL)
        waits.wait()


def systemctl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin/systemctl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\necho "$*" >{folder}/called\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.parametrize(("said", "pid"), [("4711", 4711), ("0", None)])
def test_systemd_says_which_process_is_the_gateway(
    said: str, pid: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, f"echo {said}", monkeypatch)
    assert making.main_pid("a.service") == pid
    called = (tmp_path / "called").read_text()
    assert called == "show --property=MainPID --value -- a.service\n"


def test_a_systemd_that_does_not_answer_makes_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, "echo no bus >&2; exit 1", monkeypatch)
    with pytest.raises(making.BackupError) as raised:
        making.main_pid("a.service")
    assert str(raised.value) == "a.service: systemd does not answer: no bus"


def test_a_process_that_is_gone_is_named() -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    with (
        pytest.raises(making.BackupError, match=f"^process {ended.pid}: No such process: make the"),
        making.held(ended.pid),
    ):
        pytest.fail("nothing is held")


def test_sigterm_ends_the_command_as_an_error_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        making.end_in_order()
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 128 + signal.SIGTERM


@pytest.mark.usefixtures("process_of_a_service")
def test_the_command_leaves_a_whole_archive_for_its_owner_alone_or_none(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.umask(0)
    systemctl(gateway.folder, "echo 0", monkeypatch)
    monkeypatch.setattr(making, "end_in_order", lambda: None)
    (to := gateway.folder / "out").mkdir()
    (to / "a.new").write_text("of one that was killed")
    folders = ["--config", str(gateway.config), "--state", str(gateway.state)]
    monkeypatch.setattr(sys, "argv", ["making.py", "--to", str(to / "a"), *folders])
    assert making.main() == 0
    assert [path.name for path in to.iterdir()] == ["a"]
    assert (to / "a").stat().st_mode & 0o777 == 0o600
    assert (gateway.folder / "called").read_text().endswith(" -- hedgerow.service\n")
    whole = (to / "a").read_bytes()
    with tarfile.open(to / "a") as tar:
        assert str(gateway.state / "first.log").lstrip("/") in tar.getnames()
    systemctl(gateway.folder, "exit 1", monkeypatch)
    assert making.main() == 1
    assert capsys.readouterr().err == "backup: hedgerow.service: systemd does not answer: \n"
    gateway.state.rename(gateway.folder / "gone")
    systemctl(gateway.folder, "echo 0", monkeypatch)
    assert making.main() == 1
    assert capsys.readouterr().err == f"backup: {gateway.state}: No such file or directory\n"
    (gateway.config / "hedgerow.toml").unlink()
    assert making.main() == 1
    assert capsys.readouterr().err == (
        f"backup: {gateway.config}/hedgerow.toml: No such file or directory\n"
    )
    assert [path.name for path in to.iterdir()] == ["a"]
    assert (to / "a").read_bytes() == whole


def test_a_folder_that_can_not_be_read_spoils_the_backup(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = os.walk

    def refuse(top: Path, *, onerror: Callable[[OSError], None]) -> object:
        onerror(PermissionError(13, "Permission denied", str(top)))
        return walk(top)

    monkeypatch.setattr(os, "walk", lambda top, **how: refuse(top, **how) if how else walk(top))
    with pytest.raises(PermissionError, match="Permission denied"):
        gateway.archive()


def test_the_archive_has_mode_owner_time_and_kind_of_all_that_is_there(gateway: Gateway) -> None:
    file, folder = gateway.state / "first.log", gateway.state / "inner"
    folder.mkdir(mode=0o750)
    file.chmod(0o640)
    os.utime(file, (1, 1_500_000_000.75))
    os.utime(folder, (1, 1_400_000_000))
    with tarfile.open(fileobj=io.BytesIO(gateway.archive())) as tar:
        found = {path: tar.getmember(str(path).lstrip("/")) for path in (file, folder)}
    stat = file.stat()
    of_file, of_folder = found[file], found[folder]
    assert (of_file.isfile(), of_file.mode, of_file.mtime) == (True, 0o640, 1_500_000_000)
    assert (of_file.uid, of_file.gid, of_file.size) == (stat.st_uid, stat.st_gid, len(BEFORE))
    assert (of_folder.isdir(), of_folder.mode, of_folder.size) == (True, 0o750, 0)
    assert of_folder.mtime == 1_400_000_000


class CutsShort(io.BytesIO):
    """Takes an archive, and before its first piece makes a file shorter."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file: Path | None = file

    def write(self, chunk: Any, /) -> int:
        if self._file is not None:
            os.truncate(self._file, self._file.stat().st_size - 1)
            self._file = None
        return super().write(chunk)


def is_copied(name: str, folder: Path, **files: int) -> bool:
    """Return whether a file of these, by their sizes, is read before the gateway goes on."""
    config, state = folder / "config", folder / "state"
    for each in (config, state):
        each.mkdir(exist_ok=True)
    for file, size in files.items():
        (state / file).write_bytes(bytes(size))
    try:
        making.write(CutsShort(state / name), config, state, lambda: None, folder)
    except making.BackupError as error:
        assert f"{name} became shorter" in str(error)
        return False
    return True


def test_files_of_up_to_64_kib_and_sqlites_own_are_copied_while_the_gateway_is_held(
    tmp_path: Path,
) -> None:
    most = making.SMALL_BYTES
    for name, size, expected in (
        ("a", most, True),
        ("a", most + 1, False),
        ("a-wal", most + 1, True),
        ("a-journal", most + 1, True),
    ):
        assert is_copied(name, tmp_path, **{name: size}) is expected


def test_small_files_are_copied_up_to_so_many_bytes_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "COPIED_BYTES", 100)
    copied = {name: is_copied(name, tmp_path, a=60, b=40, c=20) for name in ("a", "b", "c")}
    assert copied == {"a": True, "b": True, "c": False}
