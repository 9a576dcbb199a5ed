"""`hedgerow join` writes nothing that does not fit, and starts what it wrote."""

from __future__ import annotations

import argparse
import errno
import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.process.configuration import place as config_place
from gateway.tools import cli
from gateway.tools.commands import enrolling, joining, new_files
from gateway.tools.commands.errors import FailedError
from gateway.tools.provisioning import new_folder
from gateway.tools.provisioning.plan import GatewayPlan, Ports
from gateway.tools.provisioning.welcome import Welcome
from gateway.trust.certificates import private_keys
from gateway.trust.enrolment.requests import EnrolmentAnswer
from gateway.trust.enrolment.tokens import EnrolmentToken

TOKEN = EnrolmentToken("gw-c", "127.0.0.1:1", bytes(32), bytes(16))
SHARED = {
    "access.toml": "version = 1\n",
    "passwords": "",
    "psk": f"pump:{'ab' * 16}\n",
    "tree.key": "ab" * 32,
}
ACCOUNT = pwd.struct_passwd(("hedgerow", "x", 987, 986, "", "/", "/usr/sbin/nologin"))
OK = (0, "")

Ran = list[tuple[tuple[str, ...], dict[str, Any]]]


def handed_on(plan: GatewayPlan, shared: Mapping[str, str] = SHARED) -> dict[str, Any]:
    return Welcome(plan, "pump", shared).as_json()


@pytest.mark.parametrize(
    ("welcome", "why"),
    [
        ({}, "what the service hands on can't be read: 'name'"),
        (handed_on(GatewayPlan("gw-d")), "the token is gw-c's, and the plan gw-d's"),
        (handed_on(GatewayPlan("gw-c", address="fe80::1")), "fe80::1: "),
        (
            handed_on(GatewayPlan("gw-c", ports=Ports(1883, 8883, 5683, 5683))),
            "what the fleet hands on: {}: coap.dtls_port: 5683 is port already; nothing is written",
        ),
        (
            None,
            "the token brought a certificate alone, and is used now: take another one, of "
            "`hedgerow keys token --fleet DIR`",
        ),
    ],
    ids=["nothing", "another's", "no scope", "one port twice", "certificate alone"],
)
def test_what_a_fleet_hands_on_that_does_not_fit_is_told_and_nothing_is_written(
    welcome: dict[str, Any] | None,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = EnrolmentAnswer("", "", "", welcome)
    monkeypatch.setattr(enrolling, "enrolled", lambda *_: answer)
    assert cli.main(["join", TOKEN.as_text(), str(tmp_path / "new")]) == 1
    said = capsys.readouterr().err
    start, _, end = why.partition("{}")
    assert said.startswith(f"hedgerow: join: {start}")
    assert said.removesuffix("\n").endswith(end)
    assert said.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == [".new.key.pem"], "for the next attempt"


def test_a_folder_that_can_not_be_made_is_told_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "sub" / "new"
    assert cli.main(["join", TOKEN.as_text(), str(folder)]) == 2
    assert capsys.readouterr().err == f"hedgerow: join: {folder}: Not a directory\n"


def attempted(folder: Path, configuration: str) -> None:
    """Have files there, and the key that an attempt has kept beside them."""
    (folder / "tls").mkdir(parents=True)
    key = private_keys.as_pem(private_keys.make(private_keys.KINDS[0]))
    for file in (folder / "tls" / "gateway.key.pem", new_folder.beside(folder, "key.pem")):
        file.touch(mode=0o600)
        file.write_bytes(key)
    (folder / "tree.key").touch(mode=0o600)
    (folder / "tree.key").write_text("ab" * 32)
    (folder / "hedgerow.toml").write_text(configuration)


def configured(name: str) -> str:
    tree = '[tree]\nkey_file = "tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
    return f'[gateway]\nid = "{name}"\nstate_dir = "state"\n{tree}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (configured("gw-d"), "{} is there already, and stays as it is"),
        (
            configured("gw-c").replace("id", "idd"),
            "join: {}: gateway.idd: unknown key, did you mean 'id'?",
        ),
    ],
    ids=["another gateway", "changed"],
)
def test_files_that_are_not_of_the_attempt_before_are_named_and_stay(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    attempted(folder, text)
    assert cli.main(["join", TOKEN.as_text(), str(folder)]) == 2
    assert capsys.readouterr().err == f"hedgerow: {why.format(folder / 'hedgerow.toml')}\n"
    assert (folder / "hedgerow.toml").read_text() == text


# -- as root, where systemd runs ------------------------------------------------------------------


class Machine:
    """One on which commands end as the test says.

    Attributes:
        ran: the commands, and who runs them.
        given: what was handed over to whom, by name.
        has_user: whether the service's user is there.
        ends: the exit code and complaint of a command, by its first word, or what it raises.

    """

    def __init__(self) -> None:
        self.ran: Ran = []
        self.given: dict[str, tuple[int, int]] = {}
        self.has_user = True
        self.ends: dict[str, tuple[int, str] | OSError] = {}

    def getpwnam(self, name: str) -> pwd.struct_passwd:
        if not self.has_user:
            raise KeyError(name)
        return ACCOUNT

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.ran.append((tuple(command), options))
        self.has_user = self.has_user or command[0] == "useradd"
        end = self.ends.get(Path(command[0]).name, OK)
        if isinstance(end, OSError):
            raise end
        said: Any = end[1] if options.get("text") else end[1].encode()
        is_kept = options["capture_output"] and not options["check"]
        return subprocess.CompletedProcess(command, end[0], None, said if is_kept else None)

    def chown(self, path: Any, owner: int, group: int, **options: Any) -> None:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink().name
        else:
            assert options["follow_symlinks"] is False, "it may lead to a file of root's"
        self.given[path] = (owner, group)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine's gateway, written by an attempt to join."""
    folder = tmp_path / "hedgerow"
    (folder / "tls").mkdir(parents=True)
    (folder / "hedgerow.toml").symlink_to("/etc/passwd")
    monkeypatch.setattr(config_place, "SYSTEM", folder / "hedgerow.toml")
    monkeypatch.setattr(joining, "SYSTEMD", tmp_path)
    new_folder.beside(folder, "key.pem").touch()
    return folder


@pytest.fixture
def unit(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    unit = home / "hedgerow-gw-c.service"
    monkeypatch.setattr(joining, "written", lambda *_: unit)
    return unit


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(pwd, "getpwnam", made.getpwnam)
    monkeypatch.setattr(subprocess, "run", made.run)
    monkeypatch.setattr(os, "chown", made.chown)
    return made


def joined(folder: Path, *, no_start: bool = False) -> int:
    options = argparse.Namespace(token=TOKEN.as_text(), folder=folder, no_start=no_start)
    return joining.join(options)


def test_a_gateway_of_the_machine_is_handed_to_its_user_and_started(
    home: Path, unit: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert joined(home) == 0
    assert capsys.readouterr().out == (
        f"gw-c is written to {home}\n{unit.name} is started, and starts with the machine\n"
    )
    assert machine.given == dict.fromkeys(["hedgerow", "tls", "hedgerow.toml"], (987, 986))
    (tried, options), (started, _) = machine.ran
    assert tried == (*new_files.machine().command, "--version")
    assert (options["user"], options["group"], options["extra_groups"]) == (987, 986, ())
    assert started == ("systemctl", "enable", "--now", str(unit))
    assert not new_folder.beside(home, "key.pem").exists(), "nothing is left to do"


def test_the_user_of_the_service_is_made_where_there_is_none(
    home: Path, unit: Path, machine: Machine
) -> None:
    assert unit.parent == home
    machine.has_user = False
    assert joined(home) == 0
    nobody_logs_in = ("--no-create-home", "--shell", "/usr/sbin/nologin")
    assert machine.ran[0][0] == ("useradd", "--system", *nobody_logs_in, "hedgerow")


@pytest.mark.parametrize("elsewhere", ["no systemd", "not asked for", "another folder"])
def test_where_nothing_is_started_the_way_to_do_it_is_told(
    elsewhere: str,
    home: Path,
    unit: Path,
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert unit.parent == home
    folder = home
    if elsewhere == "no systemd":
        monkeypatch.setattr(joining, "SYSTEMD", home / "none")
    elif elsewhere == "another folder":
        folder = home.with_name("other")
        new_folder.beside(folder, "key.pem").touch()
    assert joined(folder, no_start=elsewhere == "not asked for") == 0
    assert machine.ran == []
    said = capsys.readouterr().out
    way = "hedgerow run" if folder != home else "systemctl enable --now"
    assert way in said
    assert "is started" not in said


@pytest.mark.parametrize(
    ("program", "end", "why"),
    [
        ("useradd", (9, "note\nuseradd: user exists\n"), "`{useradd}` says: useradd: user exists"),
        ("useradd", (9, "\n"), "`{useradd}` says: exit code 9"),
        ("useradd", FileNotFoundError(2, "No such file or directory"), "useradd: No such file"),
        ("systemctl", (1, "no bus"), "`systemctl enable --now {unit}` says: no bus"),
    ],
)
def test_a_command_that_fails_is_named_with_what_it_says_last(
    program: str,
    end: tuple[int, str] | OSError,
    why: str,
    home: Path,
    unit: Path,
    machine: Machine,
) -> None:
    machine.has_user, machine.ends[program] = False, end
    with pytest.raises(FailedError) as failed:
        joined(home)
    useradd = "useradd --system --no-create-home --shell /usr/sbin/nologin hedgerow"
    expected = f"join: all is written, but {why.format(useradd=useradd, unit=unit)}"
    assert str(failed.value).startswith(expected)
    assert new_folder.beside(home, "key.pem").exists(), "the command may be repeated"


@pytest.mark.parametrize("end", [(1, ""), PermissionError(errno.EACCES, "Permission denied")])
def test_a_program_that_the_user_may_not_run_is_named_with_the_way_to_go_on(
    end: tuple[int, str] | OSError, home: Path, unit: Path, machine: Machine
) -> None:
    program = new_files.machine().command[0]
    machine.ends[Path(program).name] = end
    with pytest.raises(FailedError) as failed:
        joined(home)
    assert str(failed.value) == (
        f"join: all is written, but the user hedgerow may not run {program}: install it where all "
        "may read it, such as /opt, or let hedgerow read it; then: systemctl enable --now "
        f"{unit}"
    )


def test_what_can_not_be_handed_over_is_named(
    home: Path, unit: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unit.parent == home

    def chown(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", "hedgerow.toml")

    monkeypatch.setattr(os, "chown", chown)
    with pytest.raises(FailedError) as failed:
        joined(home)
    assert str(failed.value) == ("join: all is written, but hedgerow.toml: Operation not permitted")
    assert machine.ran == []
