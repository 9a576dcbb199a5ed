"""Goal: from nothing to the first reading, and to three gateways in TLS, by one command each."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pty
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from gateway.process.running import configuration_faults
from gateway.tools import cli
from gateway.tools.provisioning import new_folder
from gateway.trust.certificates.authority_folder import listed

pytestmark = pytest.mark.usefixtures("cheap_passwords")

HEDGEROW = [sys.executable, "-m", "gateway.tools.cli"]
LIMIT_S = 60.0
KEYS = re.compile(r"passwords|psk|tree\.key|.*\.password|.*\.key\.pem")


def ports(count: int) -> int:
    """The first of so many free ports in a row, of this worker's own."""
    while True:
        first = free_port()
        if first % 1000 + count <= 1000 and all(_is_free(first + i) for i in range(count)):
            return first


def _is_free(port: int) -> bool:
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    try:
        for kind in kinds:
            with socket.socket(type=kind) as probe:
                probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def init(*arguments: str | Path) -> tuple[int, str, str]:
    """Run it without a terminal: exit code, output and complaints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(["init", "-y", *map(str, arguments)])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


async def hedgerow(*arguments: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *HEDGEROW,
        *map(str, arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate()
    assert process.returncode == 0, (arguments, err)
    return out.decode()


async def shows(text: str, *arguments: str | Path) -> None:
    """Wait until a command succeeds and prints a text: a sensor has no value at first."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with contextlib.suppress(AssertionError):
                if text in await hedgerow(*arguments):
                    return


@asynccontextmanager
async def running(*configurations: Path) -> AsyncIterator[None]:
    """Have `hedgerow run` run them all."""
    processes = [
        await asyncio.create_subprocess_exec(
            *HEDGEROW, "run", "--config", str(one), stderr=subprocess.PIPE
        )
        for one in configurations
    ]
    readers = []
    try:
        for process in processes:
            assert process.stderr is not None
            async with asyncio.timeout(LIMIT_S):
                while line := await process.stderr.readline():
                    if b" is up: " in line:
                        break
            readers.append(asyncio.create_task(process.stderr.read()))
            assert line, "it has ended"
        yield
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
        for process in processes:
            async with asyncio.timeout(LIMIT_S):
                await process.wait()
        await asyncio.gather(*readers)


def files(folder: Path) -> dict[str, int]:
    """Each file of a folder with its mode."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


def commands(out: str) -> list[list[str]]:
    """Return the commands that are printed to be typed."""
    return [shlex.split(line) for line in out.splitlines() if line.startswith("  hedgerow")]


def typed(words: Sequence[str]) -> list[str]:
    return list(words[1:])


def faults(file: Path) -> list[Any]:
    return configuration_faults.faults_of(file.read_bytes(), file)


# -- the first reading, and three gateways ---------------------------------------------------------


@pytest.mark.peer("mosquitto_sub", "mosquitto-clients")
async def test_from_nothing_to_the_first_reading_by_what_is_printed(tmp_path: Path) -> None:
    folder, port = tmp_path / "gw", ports(4)
    run, sub, get = commands(await hedgerow("init", folder, "--port", str(port)))
    assert run == ["hedgerow", "run", "--config", str(folder / "hedgerow.toml")]
    password = (folder / "operator.password").read_text().strip()
    who = ("-p", str(port), "-u", "operator", "-P", password)
    async with running(folder / "hedgerow.toml"):
        assert "/host/" in await hedgerow(*typed(sub), "-C", "4")
        await shows('"n":"host/load1"', *typed(get))
        # What writes takes the configuration's own keys: it is let in, and told what is wrong.
        own = ("--config", str(folder / "hedgerow.toml"))
        done = await asyncio.to_thread(
            subprocess.run,
            [*HEDGEROW, "members", "--forget", "gw-x", *own],
            capture_output=True,
            text=True,
        )
        assert done.stderr == "hedgerow: 4.04 no such member\n"
        process = await asyncio.create_subprocess_exec(
            *("mosquitto_sub", *who, "-t", "+/+/+/host/#", "-C", "1", "-v"), stdout=subprocess.PIPE
        )
        async with asyncio.timeout(LIMIT_S):
            out, _ = await process.communicate()
    assert b'"n":' in out


async def test_from_nothing_to_three_gateways_in_tls_by_one_command(tmp_path: Path) -> None:
    folder, names = tmp_path / "fleet", ["gw-a", "gw-b", "gw-c"]
    made = await hedgerow("init", folder, "--port", str(ports(12)), "--fleet", *names)
    *runs, sub, get, tree = commands(made)
    configurations = [folder / name / "hedgerow.toml" for name in names]
    assert [run[-1] for run in runs] == [str(file) for file in configurations]
    async with running(*configurations):
        async with asyncio.timeout(LIMIT_S):
            shown = ""
            while not all(name in shown for name in names):
                shown = await hedgerow(*typed(tree))
        assert "silent" not in shown
        await shows('"n":"host/load1"', *typed(get))
        assert "/host/" in await hedgerow(*typed(sub), "-C", "4")
        user = ["--user", "operator", "--password-file", str(folder / "operator.password")]
        listening = asyncio.create_task(
            hedgerow("sub", "--config", configurations[2], *user, "-t", "door", "-C", "1")
        )
        publish = ("pub", "--config", configurations[1], *user, "-t", "door", "-m", "open", "-r")
        await hedgerow(*publish)
        assert "open" in await listening
    for file in configurations:
        written = tomllib.loads(file.read_text())
        assert written["tree"].get("tls", "required") == "required"


async def test_a_gateway_that_is_added_to_a_fleet_is_linked_by_what_is_printed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "fleet"
    await hedgerow("init", folder, "--port", str(ports(12)), "--fleet", "gw-a", "gw-b")
    before = contents(folder)
    [run] = commands(await hedgerow("init", folder, "--add", "gw-c"))
    assert run == ["hedgerow", "run", "--config", str(folder / "gw-c" / "hedgerow.toml")]
    assert contents(folder).items() >= before.items()
    async with running(*(folder / name / "hedgerow.toml" for name in ("gw-a", "gw-b", "gw-c"))):
        async with asyncio.timeout(LIMIT_S):
            shown = ""
            while not all(name in shown for name in ("gw-a", "gw-b", "gw-c")):
                shown = await hedgerow("tree", "--config", folder / "gw-a" / "hedgerow.toml")
        user = ("--user", "operator", "--password-file", folder / "operator.password")
        own = ("--config", folder / "gw-c" / "hedgerow.toml")
        assert "/host/" in await hedgerow("sub", *own, *user, "-t", "+/+/+/host/#", "-C", "1")


# -- what is written -------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "fd00::7"])
def test_what_is_written_passes_check_and_shows_no_secret(tmp_path: Path, address: str) -> None:
    folder = tmp_path / "gw"
    code, out, _ = init(
        folder, "--name", "gw-7", "--place", "campus/north", "--address", address, "--user", "anna"
    )
    assert code == 0
    assert faults(folder / "hedgerow.toml") == []
    written = tomllib.loads((folder / "hedgerow.toml").read_text())
    assert written["gateway"] == {
        "id": "gw-7",
        "domain": "campus",
        "group": "north",
        "address": address,
        "state_dir": "state",
    }
    # Beyond this machine nothing of MQTT goes in the clear.
    assert written["mqtt"]["host"] == "127.0.0.1"
    assert written["mqtt"].get("tls_host", "127.0.0.1") == address
    assert written["coap"]["host"] == list(dict.fromkeys(["127.0.0.1", address]))
    policy = tomllib.loads((folder / "access.toml").read_text())
    assert policy["principals"] == {"user:anna": ["operator"], "psk:anna": ["admin"]}
    assert set(policy) == {"version", "principals"}
    modes = files(folder)
    assert {name for name, mode in modes.items() if mode == 0o600} >= {
        name for name in modes if KEYS.fullmatch(Path(name).name)
    }
    for name in ("anna.password", "passwords", "psk", "tree.key"):
        assert (folder / name).read_text().strip() not in out
    assert str(folder / "anna.password") in out


def test_a_fleet_of_several_machines_is_a_folder_for_each(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    code, out, err = init(folder, "--fleet", "gw-a=10.0.0.1", "gw-b=10.0.0.2", "gw-c=fd00::3")
    assert (code, err) == (0, "")
    # One command on each machine, by a token of its own.
    serve, *tokens = [line.split() for line in out.splitlines() if "  hedgerow keys " in line]
    assert serve[1:6] == ["keys", "serve", "--ca", f"{folder}/authority", "--listen"]
    assert [words[5] for words in tokens] == ["gw-a", "gw-b", "gw-c"]
    assert {words[-1] for words in tokens} == {serve[-1]}
    assert serve[-1].endswith(":8890")
    assert "  sudo hedgerow join TOKEN" in out.splitlines()
    # From another machine the status is told by a key alone.
    assert out.splitlines()[-1] == f"  hedgerow tree --psk-file {folder}/gw-a/psk 10.0.0.1:5684"
    for name in ("gw-a", "gw-b", "gw-c"):
        assert faults(folder / name / "hedgerow.toml") == []
        # The program of this machine may be nowhere there.
        unit = (folder / name / "hedgerow.service").read_text()
        runs = "/opt/hedgerow/bin/hedgerow run --config /etc/hedgerow/hedgerow.toml"
        assert f"ExecStart={runs}\n" in unit
        assert "ProtectHome=read-only" not in unit
        # What makes gateways, and the password in clear, are on none.
        assert not {"authority/ca.key.pem", "operator.password"} & files(folder / name).keys()
    written = tomllib.loads((folder / "gw-a" / "hedgerow.toml").read_text())
    assert written["tree"]["neighbours"] == ["10.0.0.2:8883", "[fd00::3]:8883"]
    assert written["gateway"]["state_dir"] == "/var/lib/hedgerow"
    shared = {(folder / name / "tree.key").read_text() for name in ("gw-a", "gw-b", "gw-c")}
    assert len(shared) == 1
    added = subprocess.run(
        [*HEDGEROW, "keys", "issue", "--ca", folder / "authority", "gw-d=10.0.0.4"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert added.stdout == f"{folder}/authority/gw-d.pem\n"


def contents(folder: Path) -> dict[str, bytes]:
    """All files, but for those of the authority that tell of each change."""
    told = ("audit.jsonl", "issued.json")
    found = (one for one in folder.rglob("*") if one.is_file() and one.name not in told)
    return {str(one): one.read_bytes() for one in found}


def test_what_is_added_has_what_the_fleet_has_and_what_is_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    assert init(folder, "--user", "anna", "--fleet", "gw-a=10.0.0.1", "gw-b=10.0.0.2")[0] == 0
    before = contents(folder)
    code, out, err = init(folder, "--add", "gw-c=10.0.0.3", "--place", "campus")
    assert (code, err) == (0, "")
    assert f"scp -rp {folder}/gw-c 10.0.0.3:" in out
    assert "sudo mv -T gw-c /etc/hedgerow" in out
    assert '"10.0.0.3:8883"' in out.splitlines()[-1]
    assert contents(folder).items() >= before.items()
    first, added = folder / "gw-a", folder / "gw-c"
    for name in ("access.toml", "passwords", "psk", "tree.key", "tls/ca.pem", "tls/revoked.pem"):
        assert (added / name).read_bytes() == (first / name).read_bytes(), name
    assert files(added) == files(first)
    assert faults(added / "hedgerow.toml") == []
    written = tomllib.loads((added / "hedgerow.toml").read_text())
    assert written["tree"]["neighbours"] == ["10.0.0.1:8883", "10.0.0.2:8883"]
    assert (written["gateway"]["address"], written["gateway"]["domain"]) == ("10.0.0.3", "campus")
    # A second one on a machine has ports of its own, as where both were there from the start.
    assert init(folder, "--add", "gw-d=10.0.0.3")[0] == 0
    beside = tomllib.loads((folder / "gw-d" / "hedgerow.toml").read_text())
    assert (beside["mqtt"]["port"], beside["mqtt"]["tls_port"]) == (1884, 8884)
    assert (beside["coap"]["port"], beside["coap"]["dtls_port"]) == (5685, 5686)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--add", "gw-a=10.0.0.9"], "{folder}/gw-a is there already, and stays as it is"),
        (["--add", "sam=10.0.0.9"], "{folder}/authority/sam.pem is there already"),
        (["--add", "gw-c"], "--add: gw-c: no address, and others have one"),
        (["--add", "gw-c=127.0.0.1"], "--add: gw-c: other machines do not reach 127.0.0.1"),
        (["--add", "gw-c=10.0.0"], "address: '10.0.0' is not an IP address"),
        (["--add", "gw-c=0.0.0.0"], "address: '0.0.0.0' is no address that others reach"),
        (["--add", "GW=10.0.0.3"], "name: 'GW' is not 1 to 63"),
        (["--add", "gw-c=10.0.0.3", "--name", "x"], "--name: of no use with --add"),
    ],
)
def test_what_can_not_be_added_is_one_line_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], why: str
) -> None:
    folder = tmp_path / "fleet"
    assert init(folder, "--fleet", "gw-a=10.0.0.1", "gw-b=10.0.0.2")[0] == 0
    (folder / "authority" / "sam.pem").write_text("mine")
    before = contents(folder)
    code, out, err = init(folder, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why.format(folder=folder) in err
    assert contents(folder) == before


def test_to_what_is_no_fleet_nothing_is_added(tmp_path: Path) -> None:
    assert init(tmp_path / "gw")[0] == 0
    before = contents(tmp_path)
    code, _, err = init(tmp_path / "gw", "--add", "gw-b")
    assert (code, err) == (
        2,
        f"hedgerow: {tmp_path}/gw/authority/ca.pem: no such file: this is no fleet that init has "
        "written\n",
    )
    assert contents(tmp_path) == before


def test_if_what_is_added_can_not_be_written_there_is_no_certificate_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fleet"
    assert init(folder, "--fleet", "gw-a=10.0.0.1", "gw-b=10.0.0.2")[0] == 0
    before = contents(folder)

    def full(path: Path, *_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("gateway.tools.provisioning.files.write", full)
    code, _, err = init(folder, "--add", "gw-c=10.0.0.3")
    assert (code, "No space left on device; nothing is written" in err) == (2, True)
    assert contents(folder) == before
    assert {one.name for one in listed(folder / "authority")} == {"gw-a", "gw-b"}


def test_without_a_terminal_defaults_are_taken_where_every_command_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert cli.main(["init"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert (tmp_path / ".config" / "hedgerow" / "hedgerow.toml").is_file()
    assert commands(out)[0] == ["hedgerow", "run"]


# -- what is there stays ---------------------------------------------------------------------------


def test_what_is_there_is_named_and_stays_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "psk").write_text("mine")
    before = files(tmp_path)
    assert init(tmp_path) == (
        2,
        "",
        f"hedgerow: {tmp_path}/psk is there already, and stays as it is\n",
    )
    assert files(tmp_path) == before


def test_what_has_other_names_stays_beside_it(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text("mine")
    assert init(tmp_path)[0] == 0
    assert (tmp_path / "driver.py").read_text() == "mine"
    code, _, err = init(tmp_path)
    assert (code, err) == (
        2,
        f"hedgerow: {tmp_path}/hedgerow.toml is there already, and stays as it is\n",
    )


def test_if_a_file_can_not_be_written_there_is_none(tmp_path: Path) -> None:
    def fill(fresh: Path) -> None:
        new_folder.write(fresh / "one", "1", 0o600)
        raise OSError(28, "No space left on device", str(fresh / "two"))

    with pytest.raises(OSError, match="No space"):
        new_folder.make(tmp_path / "a" / "b" / "gw", fill)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--name", "GW 1"], "name: 'GW 1' is not 1 to 63 lower-case letters, digits and hyphens"),
        (["--place", "a/b/c"], "place: 'a/b/c' is not DOMAIN or DOMAIN/GROUP"),
        (["--place", "A"], "place: 'A' is not 1 to 63"),
        (["--address", "nowhere"], "address: 'nowhere' is not an IP address"),
        (["--address", "0.0.0.0"], "address: '0.0.0.0' is no address that others reach"),
        (["--user", "../x"], "--user: '../x' is not 1 to 64"),
        (["--port", "0"], "init: argument --port: '0' is no port"),
        (["--port", "65534"], "port: 65537 is no port"),
        (["--fleet", "a", "a"], "name: 'a' stands twice"),
        (["--fleet", "a=10.0.0.1", "b"], "--fleet: b: no address, and others have one"),
        (["--fleet", "a=10.0.0.1", "b=127.0.0.1"], "--fleet: b: other machines do not reach"),
        (["--fleet", "a="], "init: argument --fleet: 'a=': no address behind '='"),
        (["--fleet", "authority"], "--fleet: 'authority' is the name of another file"),
        (["--fleet", "a", "--name", "b"], "--name: of no use with --fleet"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], why: str
) -> None:
    code, out, err = init(tmp_path / "gw", *arguments)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.removeprefix("hedgerow ").removeprefix("hedgerow: ").startswith(why)
    assert list(tmp_path.iterdir()) == []


# -- questions -------------------------------------------------------------------------------------


HEARING_CTRL_C = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Runs a command that hears it even where the tests run in the background, and do not."""


class Terminal:
    """One on which the command asks."""

    def __init__(self, *arguments: str | Path) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEARING_CTRL_C, *HEDGEROW, "init", *map(str, arguments)],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""

    def until(self, text: bytes) -> None:
        while not self.shown.endswith(text):
            self.shown += os.read(self._ours, 1000)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        self._process.communicate(timeout=LIMIT_S)
        while True:
            try:
                more = os.read(self._ours, 1000)
            except OSError:  # nobody has the other end any more
                break
            self.shown += more
        os.close(self._ours)
        return self._process.returncode


def test_a_terminal_is_asked_three_questions_each_with_a_default(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "gw")
    terminal.until(b"]: ")
    terminal.type(b"GW\n")
    terminal.until(
        b"letters, digits and hyphens\r\nName of this gateway [%s]: " % _default(terminal)
    )
    terminal.type(b"gw-7\n")
    terminal.until(b"[the top]: ")
    terminal.type(b"campus\n")
    terminal.until(b"[127.0.0.1: this machine alone]: ")
    terminal.type(b"\n")
    assert terminal.end() == 0
    written = tomllib.loads((tmp_path / "gw" / "hedgerow.toml").read_text())
    assert written["gateway"]["id"] == "gw-7"
    assert written["gateway"]["domain"] == "campus"
    assert written["mqtt"]["host"] == "127.0.0.1"


def _default(terminal: Terminal) -> bytes:
    return terminal.shown.partition(b"[")[2].partition(b"]")[0]


def test_on_a_terminal_yes_asks_nothing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "gw", "-y")
    assert terminal.end() == 0
    # What takes longer than a second says meanwhile what goes on, and takes it back.
    assert re.sub(rb"\r\x1b\[K(making keys \.\.\. \d+ s)?", b"", terminal.shown) == b""


def test_at_ctrl_d_it_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "gw")
    terminal.until(b"]: ")
    terminal.type(b"\x04")
    assert terminal.end() == 2
    said = terminal.shown.partition(b"\r\n")[2]
    assert said == b"hedgerow: init: the input has ended, and nothing is written\r\n"
    assert list(tmp_path.iterdir()) == []


def test_at_ctrl_c_it_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "gw")
    terminal.until(b"]: ")
    terminal.interrupt()
    assert terminal.end() == 130
    said = terminal.shown.partition(b"\r\n")[2]
    assert said == b"hedgerow: init: interrupted, and nothing is written\r\n"
    assert list(tmp_path.iterdir()) == []
