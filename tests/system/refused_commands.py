"""Every command, with each thing that goes wrong at a desk: what it prints, and its exit code.

    .venv/bin/python tests/system/refused_commands.py > docs/errors.md

Each is run in a child process of its own, in a folder with a fleet that does not run. The child has
none of root's rights over other users' files where it has "no right", and a full disk of its own
where there is a "full disk". Both need root. Where it is "refused" a gateway runs that refuses it,
and where there is "silence" sockets listen that nobody reads.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import io
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.tools import cli
from gateway.tools.commands.parser import actions, subcommands

NO_FILE, NO_RIGHT, NO_ANSWER = "no file", "no right", "no answer"
SILENCE, REFUSED = "silence", "refused"
FULL_DISK, WRONG_VALUE, WRONG_OPTION = "full disk", "wrong value", "misspelt option"
KINDS: Final = (
    *(NO_FILE, NO_RIGHT, NO_ANSWER, SILENCE, REFUSED),
    *(FULL_DISK, WRONG_VALUE, WRONG_OPTION),
)
SECONDS: Final = 60
PROJECT: Final = Path(__file__).parents[2]
_LIFE: Final = re.compile(r"/rd/\d+-")
"""Each life of a gateway has another number."""
_TOKEN: Final = f"hedgerow-enrol://gw-c@127.0.0.1:9/{'A' * 43}/{'A' * 22}"
_OWN: Final = "--config fleet/gw-a/hedgerow.toml"
_THEIRS: Final = "--config theirs/gw-a/hedgerow.toml"
_SILENT: Final = 21_999
"""A port at which nobody reads what comes, over TCP and over UDP."""
_UNHEARD: Final = f"127.0.0.1:{_SILENT} --timeout 1"
_STRANGE_TOKEN: Final = _TOKEN.replace(":9/", ":21990/")
_SILENT_TOKEN: Final = _TOKEN.replace(":9/", f":{_SILENT}/")
_CLEAR: Final = "127.0.0.1:21985"
"""The address at which the gateway that runs answers CoAP."""
_SECURE: Final = "127.0.0.1:21986"
"""The address at which it answers over DTLS."""
_GUEST: Final = "--psk-file running/gw-a/psk --psk-identity guest"
_ASKS: Final = {
    NO_FILE: "--config none.toml",
    NO_RIGHT: _THEIRS,
    NO_ANSWER: "127.0.0.1:9",
    SILENCE: _UNHEARD,
    WRONG_VALUE: "127.0.0.1:99999",
}
_NAMED: Final = {
    NO_FILE: "valve --config none.toml",
    NO_RIGHT: f"valve {_THEIRS}",
    NO_ANSWER: "valve --host 127.0.0.1:9",
    SILENCE: f"valve --host {_UNHEARD}",
    REFUSED: f"valve --host {_CLEAR}",
    WRONG_VALUE: "valve --host 127.0.0.1:99999",
}
_LISTED: Final = {
    NO_FILE: "list --config none.toml",
    NO_RIGHT: f"list {_THEIRS}",
    NO_ANSWER: "list --host 127.0.0.1:9",
    SILENCE: f"list --host {_UNHEARD}",
}
_SLOTS: Final = {WRONG_VALUE: "--data fleet"}
ROWS: Final[Mapping[str, Mapping[str, str]]] = {
    "init": {
        NO_FILE: "-y --add gw-c none",
        NO_RIGHT: "-y theirs/new",
        FULL_DISK: "-y disk/new",
        WRONG_VALUE: "-y --name 'A B' new",
    },
    "join": {
        NO_RIGHT: f"{_TOKEN} theirs/new",
        NO_ANSWER: f"{_TOKEN} new",
        SILENCE: f"{_SILENT_TOKEN} new",
        REFUSED: f"{_STRANGE_TOKEN} new",
        FULL_DISK: f"{_TOKEN} disk/new",
        WRONG_VALUE: "token",
    },
    "first-start": {
        NO_FILE: "new --card none.txt",
        NO_RIGHT: "theirs/new",
        FULL_DISK: "disk/new",
        WRONG_VALUE: "new --card wrong.toml",
    },
    "run": {
        NO_FILE: "--config none.toml",
        NO_RIGHT: _THEIRS,
        FULL_DISK: "--config disk/gw-a/hedgerow.toml",
        WRONG_VALUE: "--log-level infos",
    },
    "check": {NO_FILE: "--config none.toml", NO_RIGHT: _THEIRS, WRONG_VALUE: "--config wrong.toml"},
    "status": {**_ASKS, REFUSED: f"{_SECURE} --psk-file other.psk --timeout 5"},
    "tree": {**_ASKS, REFUSED: f"{_SECURE} --psk-file unknown.psk"},
    "hierarchy": _ASKS,
    "drain": {**_ASKS, REFUSED: _CLEAR},
    "passwd": {
        NO_RIGHT: "operator --file theirs/gw-a/passwords",
        FULL_DISK: "operator --file disk/gw-a/passwords",
        NO_FILE: "operator --file none/passwords",
        WRONG_VALUE: "a:b",
    },
    "demo": {NO_FILE: "--json none/result.json", NO_RIGHT: "--json theirs/result.json"},
    "simulate": {WRONG_VALUE: "--runs 0"},
    "place": {
        NO_FILE: "campus --config none.toml",
        NO_RIGHT: f"campus {_THEIRS}",
        FULL_DISK: "campus --config disk/gw-a/hedgerow.toml",
        WRONG_VALUE: f"'A B' {_OWN}",
    },
    "config show": {
        NO_FILE: "--config none.toml",
        NO_RIGHT: "--config theirs/operator.password",
        WRONG_VALUE: f"tree.helo_s {_OWN}",
    },
    "config set": {
        NO_FILE: "tree.hello_s=1 --config none.toml",
        NO_RIGHT: f"tree.hello_s=1 {_THEIRS}",
        FULL_DISK: "tree.hello_s=1 --config disk/gw-a/hedgerow.toml",
        REFUSED: f"tree.hello_s=1 --if-unchanged 0 {_OWN}",
        WRONG_VALUE: f"tree.hello_s=never {_OWN}",
    },
    "policy": {
        NO_FILE: "check none.toml",
        NO_RIGHT: "check theirs/gw-a/passwords",
        WRONG_VALUE: "check fleet/gw-a/hedgerow.toml",
    },
    "doctor": {NO_FILE: "--config none.toml"},
    "bench": {
        NO_FILE: "--folder none",
        FULL_DISK: "--folder disk",
        WRONG_VALUE: "--folder fleet --seconds 4",
    },
    "backup check": {
        NO_FILE: "none.tar.gz",
        WRONG_VALUE: "wrong.toml",
    },
    "backup fetch": {
        NO_FILE: "gw-a --from /none/backups --to found.tar.gz",
        WRONG_VALUE: "gw-a --from none --to found.tar.gz",
    },
    "backup trial": {NO_FILE: "gw-a --from /none/backups", WRONG_VALUE: "gw-a --from none"},
    "top": {
        **{kind: f"{words} --once" for kind, words in _ASKS.items()},
        REFUSED: f"--once {_SECURE} --psk-file other.psk --timeout 5",
    },
    "logs": {
        NO_FILE: "--file none.log",
        NO_RIGHT: "--file theirs/operator.password",
        WRONG_VALUE: "--lines some",
    },
    "alerts": {
        **_LISTED,
        REFUSED: f"test --host {_CLEAR}",
        WRONG_VALUE: f"silence rule=hot --for soon {_OWN}",
    },
    "clients": {**_ASKS, REFUSED: f"kick meter --host {_CLEAR}"},
    "get": _NAMED,
    "put": {kind: f"{words} 1" for kind, words in _NAMED.items()},
    "call": {
        **{kind: f"post {words}" for kind, words in _NAMED.items()},
        REFUSED: f"post host/load1 --host {_SECURE} {_GUEST}",
    },
    "observe": _NAMED,
    "discover": {
        kind: words.removeprefix("valve ") for kind, words in _NAMED.items() if kind != REFUSED
    },
    "members": {**_ASKS, REFUSED: f"forget gw-b --host {_CLEAR}"},
    "rd": {**_LISTED, REFUSED: f"remove ep=gw-a --host {_CLEAR}", WRONG_VALUE: "list temperature"},
    "sensors": {
        **_LISTED,
        REFUSED: f"add type=switch name=pump --host {_CLEAR}",
        WRONG_VALUE: f"add type {_OWN}",
    },
    "pub": {
        NO_FILE: "-t x -m y --config none.toml",
        NO_RIGHT: f"-t x -m y {_THEIRS}",
        NO_ANSWER: "-t x -m y --host 127.0.0.1 --port 9",
        SILENCE: f"-t x -m y --host 127.0.0.1 --port {_SILENT}",
        REFUSED: "-t x -m y --host 127.0.0.1 --port 21984",
        WRONG_VALUE: "-t x -m y --port 0",
    },
    "sub": {
        NO_FILE: "-t x --cafile none.pem",
        NO_RIGHT: "-t x --user u --password-file theirs/operator.password",
        NO_ANSWER: "-t x --host 127.0.0.1 --port 9",
        SILENCE: f"-t x --host 127.0.0.1 --port {_SILENT} --cafile fleet/authority/ca.pem",
        REFUSED: "-t x --host 127.0.0.1 --port 21983 -u operator --password-file other.password",
        WRONG_VALUE: "-t x --count 0",
    },
    "keys init-ca": {
        NO_FILE: "--ca new --from none.p12",
        NO_RIGHT: "--ca theirs/new",
        FULL_DISK: "--ca disk/new",
        WRONG_VALUE: "--ca new --days 0",
    },
    "keys issue": {
        NO_FILE: "gw-c --ca none",
        NO_RIGHT: "gw-c --ca theirs/authority",
        FULL_DISK: "gw-c --ca disk/authority",
        WRONG_VALUE: "'A B' --ca fleet/authority",
    },
    "keys renew": {
        NO_FILE: "gw-a --ca none",
        NO_RIGHT: "gw-a --ca theirs/authority",
        FULL_DISK: "gw-a --ca disk/authority",
        WRONG_VALUE: "gw-x --ca fleet/authority",
    },
    "keys revoke": {
        NO_FILE: "gw-a --ca none",
        NO_RIGHT: "gw-a --ca theirs/authority",
        FULL_DISK: "gw-a --ca disk/authority",
        WRONG_VALUE: "gw-x --ca fleet/authority",
    },
    "keys list": {
        NO_FILE: "--ca none",
        NO_RIGHT: "--ca theirs/authority",
        WRONG_VALUE: "--config wrong.toml",
    },
    "keys request": {
        NO_FILE: "gw-c --to none",
        NO_RIGHT: "gw-c --to theirs",
        FULL_DISK: "gw-c --to disk",
        WRONG_VALUE: "'A B' --to fleet",
    },
    "keys export": {
        NO_FILE: "gw-a --ca none --to a.p12 --password-file fleet/operator.password",
        NO_RIGHT: "gw-a --ca fleet/authority --to a.p12 --password-file theirs/operator.password",
        FULL_DISK: "gw-a --ca fleet/authority --to disk/a --password-file fleet/operator.password",
        WRONG_VALUE: "gw-x --ca fleet/authority --to a --password-file fleet/operator.password",
    },
    "keys import": {
        NO_FILE: "none.p12 --to fleet --password-file fleet/operator.password",
        NO_RIGHT: "theirs/operator.password --to fleet --password-file fleet/operator.password",
        WRONG_VALUE: "wrong.toml --to fleet --password-file fleet/operator.password",
    },
    "keys roll-over": {
        NO_FILE: "--ca none",
        NO_RIGHT: "--ca theirs/authority",
        FULL_DISK: "--ca disk/authority",
        WRONG_VALUE: "--ca fleet/authority --days 0",
    },
    "keys token": {
        NO_FILE: "gw-c --fleet none --service 127.0.0.1:9",
        NO_RIGHT: "gw-c --fleet theirs --service 127.0.0.1:9",
        FULL_DISK: "gw-c --fleet disk --service 127.0.0.1:9",
        WRONG_VALUE: "gw-c --fleet fleet --service there",
    },
    "keys serve": {
        NO_FILE: "--ca none --listen 127.0.0.1:0",
        NO_RIGHT: "--ca theirs/authority --listen 127.0.0.1:0",
        WRONG_VALUE: "--ca fleet/authority --listen 192.0.2.1:8890",
    },
    "keys enrol": {
        NO_RIGHT: f"--to theirs/new {_TOKEN}",
        NO_ANSWER: f"--to new {_TOKEN}",
        SILENCE: f"--to new {_SILENT_TOKEN}",
        REFUSED: f"--to new {_STRANGE_TOKEN}",
        FULL_DISK: f"--to disk/new {_TOKEN}",
        WRONG_VALUE: "--to new token",
    },
    "keys log": {NO_FILE: "--ca none", NO_RIGHT: "--ca theirs/authority"},
    "shell": {NO_FILE: "gw-a --relay none", WRONG_VALUE: "gw-x --relay shared"},
    "flash": {
        NO_FILE: "--inventory none.toml --image none.img --to card.img --all",
        NO_RIGHT: "--inventory theirs/operator.password --image none.img --to card.img --all",
        WRONG_VALUE: "--inventory wrong.toml --image wrong.toml --to card.img --all",
    },
    "system status": _SLOTS,
    "system install": {WRONG_VALUE: "wrong.toml --data fleet"},
    "system try": _SLOTS,
    "system confirm": _SLOTS,
    "system back": _SLOTS,
    "system watch": _SLOTS,
    "collector": {NO_FILE: "--config none.toml", WRONG_VALUE: "--config wrong.toml"},
    "ingest": {
        NO_FILE: "--spool none --tables new",
        WRONG_VALUE: "--spool fleet --tables new --master local[x]",
    },
    "dashboard": {NO_FILE: "--tables none", WRONG_VALUE: "--tables fleet --listen there"},
    "query": {NO_FILE: "--tables none 'select 1'", WRONG_VALUE: "--tables fleet 'selct 1'"},
    "completion": {WRONG_VALUE: "bahs"},
}
"""By command: what is typed behind it, by what goes wrong; the rest can not go wrong there."""
HEAD = """\
# What commands say when something is wrong

Made by running them, as root: `.venv/bin/python tests/system/refused_commands.py > docs/errors.md`.
Each is typed in a folder with a fleet (`fleet`) that does not run, the same of another user
(`theirs`), and on a full disk (`disk`). There is no `none`, and `wrong.toml` has a slip. A gateway
of `running` runs, and refuses what is asked of it. At port 21999 there is silence, as where a
machine is off, or a firewall drops what comes. What the codes mean: [commands](commands.md).
"""
TABLE = "\n## hedgerow {}\n\n| | typed | code | what it says |\n|---|---|--:|---|\n"
LOADED = (
    *(
        "gateway.process.configuration.config",
        "gateway.tools.provisioning.files",
        "gateway.process.running.configuration_faults",
        "gateway.tools.commands.check",
    ),
    *(
        "gateway.tools.commands.asking",
        "gateway.tools.commands.resources",
        "gateway.tools.commands.certifying",
    ),
    *(
        "gateway.tools.commands.enrolling",
        "gateway.tools.commands.joining",
        "gateway.tools.commands.broker_address",
    ),
    *(
        "gateway.tools.commands.mqtt_client",
        "gateway.tools.commands.flashing",
        "gateway.tools.commands.policy",
    ),
    *("gateway.tools.commands.passwd", "gateway.process.running.service"),
)
"""The modules that commands load: they are loaded once, for all children."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The end of a command.

    Attributes:
        typed: behind `hedgerow`.
        code: its exit code; None if it ended by an exception.
        said: what it printed: on standard error, else as its answer.

    """

    typed: str
    code: int | None
    said: str


def why_not() -> str | None:
    """Return why these can't be run here, or None."""
    return None if os.geteuid() == 0 else "other users' files and a full disk need root"


def commands(
    parser: argparse.ArgumentParser, above: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """All commands that do something, by name."""
    for name, command in subcommands(parser).items():
        below = list(commands(command, f"{above}{name} "))
        yield from below or [(above + name, command)]


def misspelt(command: argparse.ArgumentParser) -> str | None:
    """An option of a command with one letter too few; None if it has none but its help."""
    names = [name for action in actions(command) for name in action.option_strings]
    longest = max(
        (name for name in names if name.startswith("--") and name != "--help"), key=len, default=""
    )
    return f"{longest[:4]}{longest[5:]}" if longest else None


def lines() -> Iterator[tuple[str, str, str]]:
    """Each command, what goes wrong, and what is typed."""
    for name, command in commands(cli.command_line()):
        rows = dict(ROWS[name])
        slip = misspelt(command)
        if slip is not None:
            first = next((words for kind, words in rows.items() if kind != NO_RIGHT), "")
            rows[WRONG_OPTION] = f"{first} {slip}".strip()
        for kind in KINDS:
            if kind in rows:
                yield name, kind, f"{name} {rows[kind]}"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """The folder in which they are typed."""
    for module in LOADED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        ended = _ended(home, "init fleet --fleet gw-a gw-b --port 21883 -y", "")
        assert ended.code == 0, ended
        (home / "wrong.toml").write_text('[gatway]\nid = "gw-a"\n')
        shutil.copytree(home / "fleet", home / "theirs")
        (home / "disk").mkdir()
        (home / "shared/gateways").mkdir(parents=True)  # what relay.yml fills
        for name in ("ssh_config", "gateways/gw-a.known_hosts"):
            (home / "shared" / name).touch()
        for path in (home / "theirs", *(home / "theirs").rglob("*")):
            os.chown(path, 1, 1)
            path.chmod(0o700 if path.is_dir() else 0o600)
            if path.name == "gw-a" or path.suffix == ".toml" or path.name == "theirs":
                path.chmod(path.stat().st_mode | 0o055)
        yield home


@contextlib.contextmanager
def partners(home: Path) -> Iterator[None]:
    """A gateway and a service of keys that refuse what is asked, and one that is silent."""
    ended = _ended(home, "init running --fleet gw-a gw-b --port 21983 -y", "")
    assert ended.code == 0, ended
    with (home / "running/gw-a/psk").open("a") as keys:
        keys.write(f"guest:{bytes(16).hex()}\n")
    for name, whose in (("other", "operator"), ("unknown", "nobody")):
        (home / f"{name}.psk").write_text(f"{whose}:{bytes(16).hex()}\n")
        (home / f"{name}.psk").chmod(0o600)
    (home / "other.password").write_text("another one\n")
    with contextlib.ExitStack() as there:
        there.enter_context(socket.create_server(("127.0.0.1", _SILENT)))
        datagrams = there.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", _SILENT))
        for typed, awaited in (
            ("run --config running/gw-a/hedgerow.toml", " is up: "),
            ("keys serve --ca running/authority --listen 127.0.0.1:21990", "enrolment at "),
        ):
            there.enter_context(_going_on(home, typed, awaited))
        yield


@contextlib.contextmanager
def _going_on(home: Path, typed: str, awaited: str) -> Iterator[None]:
    """Run a command beside the others, from the line on that says that it is there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", *typed.split()],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = list(itertools.takewhile(lambda line: awaited not in line, process.stdout))
    assert process.poll() is None, said
    output = threading.Thread(target=process.stdout.read)  # none of it is to hold it up
    output.start()
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        output.join()


def refused(home: Path, kind: str, typed: str) -> Refused:
    """Run a command in a child process, and tell how it ended."""
    return _ended(home, typed, kind)


def _ended(home: Path, typed: str, kind: str) -> Refused:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            signal.alarm(SECONDS)
            os.chdir(home)
            os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = str(home / "none")
            if kind == FULL_DISK:
                _fill(home)
            if kind == NO_RIGHT:
                _give_up_rights()
            code, said = _run(shlex.split(typed))
            said = _LIFE.sub("/rd/1-", said.replace(f"{home}/", "").strip())
            os.write(write, f"{code}\n{said}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        code, _, said = pipe.read().decode().partition("\n")
    os.waitpid(child, 0)
    return Refused(typed, int(code) if code.isdecimal() else None, said)


def _run(words: list[str]) -> tuple[int | str, str]:
    out, err = io.StringIO(), io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"secret\n"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | str = cli.main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException as error:  # a traceback: no row may show it
            return "raised", repr(error)
    return code, err.getvalue() or out.getvalue()


def _give_up_rights() -> None:
    """Have root no more rights over files than anybody (capset(2))."""
    header = struct.pack("Ii", 0x20080522, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def _fill(home: Path) -> None:
    """Mount a small disk of this process's own, with the fleet, and fill it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for done in (
        libc.unshare(0x00020000),  # CLONE_NEWNS
        libc.mount(None, b"/", None, 0x00084000, None),  # MS_REC | MS_SLAVE
        libc.mount(b"tmpfs", os.fsencode(home / "disk"), b"tmpfs", 0, b"size=512k"),
    ):
        if done:
            raise OSError(ctypes.get_errno(), "mount")
    shutil.copytree(home / "fleet", home / "disk", dirs_exist_ok=True)
    with contextlib.suppress(OSError), (home / "disk/other").open("wb", buffering=0) as file:
        while file.write(bytes(1024)):
            pass


def page() -> str:
    """Run all, and write the page."""
    text, last = HEAD, ""
    with folder() as home, partners(home):
        for name, kind, typed in lines():
            if name != last:
                text += TABLE.format(name)
            last, ended = name, refused(home, kind, typed)
            shown = typed.removeprefix(f"{name} ")
            said = "<br>".join(_cell(line) for line in ended.said.splitlines())
            text += f"| {kind} | `{_cell(shown)}` | {ended.code} | {said} |\n"
    return text


def _cell(text: str) -> str:
    for token in (_TOKEN, _STRANGE_TOKEN, _SILENT_TOKEN):
        text = text.replace(token, "TOKEN")
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
