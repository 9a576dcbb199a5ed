"""The bed of the tests of deploy/ansible: a controller, a Debian, and a system booted of it.

Ansible's own ssh connection is used with a program in the place of ssh that runs the command in the
root file system: the same code path as with a Pi, without a collection of 200 MB for one
connection plugin.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fleet_keys
import psutil
import pytest
from missing_peer import skip_or_fail_in_ci

PROJECT = Path(__file__).resolve().parents[2]
ANSIBLE = PROJECT / "deploy" / "ansible"
TREE_KEY, PSK = secrets.token_hex(16), secrets.token_hex(16)
PASSWORD_HASH = (
    "$argon2id$v=19$m=65536,t=3,p=4$J8Ai5Vh8+50+/oZSIBXV7A$"
    "+q4WnrcXjN8yBd7xVxTqL4eVuAOGIZtFKv1aMlnRUyo"
)
NORTH: dict[str, Any] = {
    "gateway_id": "gw-north",
    "gateway_domain": "campus",
    "gateway_group": "north",
    "gateway_tree_key": TREE_KEY,
    "gateway_psks": {"sensor-17": PSK},
    "gateway_principals": {"psk:sensor-17": ["reader"]},
    "gateway_passwords": {"sensors": PASSWORD_HASH},
}
POWER_OFF_S = 300.0
LOOK_S = 300.0
"""A command that has used no processor time since it was looked at last hangs."""
IN_CHROOT = """#!/bin/sh
# Called as ssh is; the last argument is the command.
for command do :; done
exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh -c "$1"' \
    {root} "$command"
"""
IN_CONTAINER = """#!/bin/sh
for command do :; done
exec nsenter --target {leader} --all /bin/sh -c "$command"
"""
# Answers the role's question for the Python of a machine that is not here.
FOREIGN_PYTHON = """#!/bin/sh
echo '{{"version": "{version}", "machine": "{machine}", "bits": {bits}, "venv": true}}'
"""
FOREIGN_MACHINES = (
    ("aarch64", "3.13", 64),
    ("aarch64", "3.13", 32),
    ("armv7l", "3.13", 32),
)


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as long as it, or whom it has started, works."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options) as running:
        worked_s = 0.0
        while True:
            try:
                output, errors = running.communicate(timeout=LOOK_S)
            except subprocess.TimeoutExpired:
                before_s, worked_s = worked_s, _worked_s(running.pid)
                if worked_s == before_s:
                    running.kill()
                    raise
            else:
                return subprocess.CompletedProcess(command, running.returncode, output, errors)


def _worked_s(pid: int) -> float:
    """Return the processor time that a process and all that it has started have used so far."""
    worked_s = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                worked_s += sum(one.cpu_times()[:4])  # its own, and of children that have ended
    return worked_s


@dataclass(frozen=True)
class Play:
    """The output of a run of site.yml, and its exit code."""

    returncode: int
    output: str

    def recap(self, host: str) -> dict[str, int]:
        """The counts of the play recap: ok, changed, failed, ..."""
        line = re.search(rf"^{host}\s+: (.*)$", self.output, re.MULTILINE)
        assert line, self.output
        return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line[1])}

    def failure(self, host: str) -> str:
        """The message of the task that failed for a host."""
        line = re.search(rf"^fatal: \[{host}\]: FAILED! => (.*)$", self.output, re.MULTILINE)
        assert line, self.output
        return str(json.loads(line[1])["msg"])


@dataclass(frozen=True)
class Controller:
    """A folder of the operator's: the project's source, an inventory, a wheelhouse."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def wheelhouse(self) -> Path:
        return self.folder / "wheelhouse"

    def play(
        self,
        ssh: str,
        hosts: dict[str, dict[str, Any]],
        *arguments: str,
        playbook: str = "site.yml",
        group: str = "gateways",
    ) -> Play:
        """Run a playbook for these hosts, reached by a program in the place of ssh."""
        program = self.folder / "ssh"
        program.write_text(ssh)
        program.chmod(0o755)
        inventory = self.folder / "inventory.json"
        certificates = self.folder / "certificates"
        ids = {str(variables.get("gateway_id")) for variables in hosts.values()}
        new = [
            one
            for one in sorted(ids)
            if re.fullmatch(r"[a-z0-9][a-z0-9-]*", one)
            and not (certificates / f"{one}.pem").exists()
        ]
        if new:  # each run renews the list of revoked ones, which is a change
            fleet_keys.issue(certificates, *new)
        connection = {
            "ansible_ssh_executable": str(program),
            "ansible_ssh_transfer_method": "piped",
            "ansible_become": False,
            "gateway_source_dir": str(self.source),
            "gateway_wheelhouse_dir": str(self.wheelhouse),
            "gateway_tls_dir": str(certificates),
        }
        inventory.write_text(json.dumps({group: {"vars": connection, "hosts": hosts}}))
        settings = {"ANSIBLE_HOME": str(self.folder / "ansible"), "ANSIBLE_NOCOLOR": "1"}
        done = run(
            *(sys.executable, "-m", "ansible", "playbook", "-i", inventory, playbook),
            *arguments,
            cwd=ANSIBLE,
            env={**os.environ, "LC_ALL": "C.UTF-8", **settings},
        )
        return Play(done.returncode, done.stdout + done.stderr)


def new_controller(folder: Path) -> Controller:
    """A controller with a copy of this source."""
    controller = Controller(folder)
    shutil.copytree(
        PROJECT,
        controller.source,
        ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests"),
    )
    return controller


def new_debian(root: Path, *packages: str) -> None:
    """A Debian 13 as its installer leaves it, and interpreters of machines that are not here."""
    if os.geteuid() != 0:
        skip_or_fail_in_ci("only root can make and enter a root file system")
    include = ",".join(("python3", "python3-venv", "systemd", *packages))
    made = run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={include}", "trixie", root)
    if made.returncode != 0:
        skip_or_fail_in_ci(f"mmdebstrap made no Debian: {made.stderr[-500:]}")
    for machine, version, bits in FOREIGN_MACHINES:
        python = root / f"usr/local/bin/python-{machine}-{version}-{bits}"
        python.write_text(FOREIGN_PYTHON.format(version=version, machine=machine, bits=bits))
        python.chmod(0o755)


@dataclass(frozen=True)
class Container:
    """A booted system; ``leader`` is its first process as the host numbers it."""

    leader: int

    def run(self, *command: str) -> str:
        """Run a command in it; return what it prints, errors included."""
        done = run("nsenter", "--target", str(self.leader), "--all", *command)
        return (done.stdout + done.stderr).strip()

    def state(self) -> str:
        """The service's state, with its journal if it isn't active."""
        state = self.run("systemctl", "is-active", "hedgerow")
        journal = ("journalctl", "--unit=hedgerow", "--no-pager")
        return state if state == "active" else self.run(*journal)

    def main_pid(self) -> str:
        return self.run("systemctl", "show", "--property=MainPID", "--value", "hedgerow")


def _tell(process: int, what: int) -> None:
    with suppress(ProcessLookupError):  # it may be gone, and systemd-nspawn not yet
        os.kill(process, what)


@contextmanager
def booted_system(root: Path, folder: Path) -> Iterator[Container]:
    """Boot a root file system under systemd-nspawn, and power it off in the end.

    Args:
        root: the root file system.
        folder: an empty one, for the console's log.

    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(folder / "notify"))
        notices.settimeout(60)
        log = folder / "console"
        with log.open("wb") as console:
            nspawn = subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", f"--directory={root}"),
                    *("--register=no", "--keep-unit", "--private-network"),
                    *("--notify-ready=yes", "--console=read-only"),
                    f"--machine=hedgerow-{os.getpid()}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(folder / "notify"),
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
                },
            )
        leader = 0
        try:
            notice = ""
            while "READY=1" not in notice:
                try:
                    notice = notices.recv(4096).decode()
                except TimeoutError:
                    pytest.fail(f"did not boot: {log.read_text(errors='replace')[-2000:]}")
                if found := re.search(r"X_NSPAWN_LEADER_PID=(\d+)", notice):
                    leader = int(found[1])
            yield Container(leader)
        finally:
            if leader:
                _tell(leader, signal.SIGRTMIN + 4)  # systemd's signal to power off
            else:
                nspawn.terminate()
            try:
                nspawn.wait(POWER_OFF_S)
            except subprocess.TimeoutExpired:
                _tell(leader or nspawn.pid, signal.SIGKILL)
                nspawn.wait()  # the kernel ends it, however long it is busy with others
