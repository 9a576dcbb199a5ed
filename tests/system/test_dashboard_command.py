"""`hedgerow dashboard` as a process: where it may listen, and how it ends."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from authority import Authority
from dashboard_server import CHEAP
from synthetic_tables import Fleet

COMMAND = (sys.executable, "-m", "gateway.tools.cli", "dashboard")


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            if process.poll() is None:
                process.kill()


def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    Fleet(3).write(tmp_path)
    with started("--tables", str(tmp_path), "--listen", "127.0.0.1:0") as (process, said):
        assert said.startswith(f"dashboard of {tmp_path}: http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_prometheus_of_this_machine_is_told_of_the_fleet_where_one_asks_for_that(
    tmp_path: Path,
) -> None:
    Fleet(3).write(tmp_path)
    where = ("--tables", str(tmp_path), "--listen", "127.0.0.1:0")
    with started(*where, "--metrics", "127.0.0.1:0") as (process, said):
        assert said.startswith("metrics at port ")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("dashboard of ")
        address = f"http://127.0.0.1:{int(said.split()[-1])}/metrics"
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert "hedgerow_fleet_gateways" in answer.read().decode()
        with started(*where, "--metrics", address.split("/")[2]) as (other, other_said):
            assert other_said.startswith("dashboard of "), "it goes on without"
            other.send_signal(signal.SIGTERM)
            assert other.wait(60) == 0
            assert other.stderr is not None
            assert "the dashboard goes on without" in other.stderr.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_off_this_machine_it_needs_users_and_a_certificate(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"olga:{CHEAP.hash('olga')}\n")
    own = Authority(tmp_path).issue("dashboard", is_server=True)
    tls = ("--certificate", str(own.certificate), "--key", str(own.key))
    listen = ("--tables", str(tmp_path), "--listen", "0.0.0.0:0")
    for given in ((), tls, ("--passwords", str(passwords))):
        done = subprocess.run(
            [*COMMAND, *listen, *given], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "--listen: 0.0.0.0 is reached from elsewhere" in done.stderr
    arguments = ("--tables", str(tmp_path), "--listen", "127.0.0.1:0")
    with started(*arguments, "--passwords", str(passwords), *tls) as (process, said):
        assert "https://127.0.0.1:" in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


class Browser:
    """Logs in, and looks at the fleet."""

    def __init__(self, base: str) -> None:
        self.base = base
        jar = urllib.request.HTTPCookieProcessor()
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)

    def ask(self, path: str, document: object = None) -> int:
        data = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json", "Origin": self.base}
        request = urllib.request.Request(f"{self.base}/api/{path}", data, headers)
        try:
            with self.opener.open(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def log_in(self, user: str, password: str) -> int:
        return self.ask("login", {"user": user, "password": password})


def test_sighup_reads_access_again_and_what_is_wrong_leaves_that_of_before(tmp_path: Path) -> None:
    Fleet(3).write(tmp_path)
    passwords, access = tmp_path / "passwords", tmp_path / "access.toml"
    rita = f"rita:{CHEAP.hash('rita')}\n"
    passwords.write_text(f"olga:{CHEAP.hash('olga')}\n{rita}")
    head = "version = 1\n[principals]\n"
    access.write_text(f'{head}"console:olga" = ["reader"]\n"console:rita" = []\n')
    files = ("--passwords", str(passwords), "--access", str(access))
    arguments = ("--tables", str(tmp_path), "--listen", "127.0.0.1:0", *files)
    with started(*arguments) as (process, said):
        assert process.stdout is not None
        assert process.stderr is not None
        base = said.split()[-1].rstrip("/")
        olga, rita_looks = Browser(base), Browser(base)
        assert olga.log_in("olga", "olga") == 200
        assert rita_looks.log_in("rita", "rita") == 403

        passwords.write_text("olga:" + "no-hash-but-a-secret\n")
        process.send_signal(signal.SIGHUP)
        line = process.stderr.readline()
        assert "passwords:1" in line
        assert "stay" in line
        assert "secret" not in line
        assert olga.ask("fleet") == 200

        passwords.write_text(f"olga:{CHEAP.hash('other')}\n{rita}")
        access.write_text(f'{head}"console:rita" = ["reader"]\n')
        process.send_signal(signal.SIGHUP)
        assert "read again" in process.stdout.readline()
        assert olga.ask("fleet") == 401
        assert rita_looks.log_in("rita", "rita") == 200
        assert rita_looks.ask("fleet") == 200


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--tables", "nowhere"), "nowhere: no such folder"),
        (("--listen", "somewhere"), "--listen: 'somewhere' is not HOST:PORT"),
        (("--certificate", "x.pem"), "--certificate, --key"),
        (("--passwords", "nowhere"), "nowhere: No such file or directory"),
        (("--access", "nowhere.toml"), "nowhere.toml: No such file or directory"),
        (("--tiles", "https://tiles.example.org/"), "--tiles: 'https://tiles.example.org/': {z}"),
        (("--tiles-credit", "Maps"), "--tiles-credit"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: tuple[str, ...], named: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stderr.count("\n") == 1
