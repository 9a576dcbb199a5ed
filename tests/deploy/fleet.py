"""An operator and a fleet of booted systems: playbooks, commands, and what gateways tell."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import argon2
import fleet_keys
from bed import Bed, Pi
from commands import WAIT_S, run, until

PROJECT = Path(__file__).resolve().parents[2]
ANSIBLE = PROJECT / "deploy" / "ansible"
HEDGEROW = "/opt/hedgerow/venv/bin/hedgerow"
PLAY_S = 2400.0
"""A playbook has ended by then, for a few Pis and on a machine that does much else."""
PASSWORD = "open sesame"


@dataclass(frozen=True)
class Play:
    """The outcome of one run of a playbook.

    Attributes:
        returncode: of `ansible-playbook`.
        output: all that it printed.
        took_s: how long it ran.

    """

    returncode: int
    output: str
    took_s: float

    def recap(self, host: str) -> dict[str, int]:
        """The counts of the play recap: ok, changed, failed, ..."""
        line = re.search(rf"^{host}\s+: (.*)$", self.output, re.MULTILINE)
        assert line, self.output
        return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line[1])}

    def worked(self) -> Play:
        """This, which must have worked out."""
        assert self.returncode == 0, "\n".join([*self.failures(), self.output[-6000:]])
        return self

    def failures(self) -> list[str]:
        """Return the lines that it printed of failed tasks, on whichever host, in their order."""
        return re.findall(r"^(?:fatal|failed): .*$", self.output, re.MULTILINE)


@dataclass
class DeployedFleet:
    """Gateways on a bed, and all that their operator has.

    Attributes:
        bed: where they run.
        folder: the operator's.
        hosts: Ansible's variables, by host.
        servers: the same, of the cloud side's.
        play_s: a playbook has ended by then.

    """

    bed: Bed
    folder: Path
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    play_s: float = PLAY_S
    tree_key: str = field(default_factory=lambda: secrets.token_hex(16))
    psks: dict[str, str] = field(
        default_factory=lambda: {"operator": secrets.token_hex(16), "reader": secrets.token_hex(16)}
    )
    password_hash: str = field(
        default_factory=lambda: argon2.PasswordHasher(memory_cost=1024).hash(PASSWORD)
    )
    principals: dict[str, list[str]] = field(
        default_factory=lambda: {
            "psk:operator": ["admin"],
            "psk:reader": ["reader"],
            "user:load": ["operator"],
        }
    )

    def __post_init__(self) -> None:
        self.source = self.folder / "source"
        shutil.copytree(PROJECT, self.source, ignore=not_shipped)
        self.certificates = self.folder / "certificates"
        self.psk_file("operator")
        self.psk_file("reader")

    @contextmanager
    def changed_source(self, file: str, *changes: tuple[str, str]) -> Iterator[None]:
        """Have another release in the checkout for a while: texts of a file in place of others."""
        path = self.source / file
        kept = text = path.read_text()
        for old, new in changes:
            assert old in text, f"{file}: {old}"
            text = text.replace(old, new)
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(kept)

    def next_release(self) -> None:
        """Make another release of the checkout, which does the same."""
        with (self.source / "gateway/__init__.py").open("a") as module:
            module.write("# one more release\n")

    def psk_file(self, who: str) -> Path:
        """The key file of somebody."""
        path = self.folder / f"{who}.psk"
        path.touch(mode=0o600)
        path.write_text(f"{who}:{self.psks[who]}\n")
        return path

    def add(
        self,
        name: str,
        domain: str,
        group: str,
        neighbours: Sequence[str],
        suite: str = "trixie",
    ) -> Pi:
        """Put one more Pi on the bed and into the inventory; it is off and empty."""
        pi = self.bed.pi(name, suite)
        fleet_keys.issue(self.certificates, f"{name}={pi.address}")
        self.hosts[name] = {
            "ansible_host": pi.address,
            "gateway_id": name,
            "gateway_domain": domain,
            "gateway_group": group,
            "gateway_tree_neighbours": [f"{self.bed.pis[one].address}:8883" for one in neighbours],
        }
        return pi

    def add_server(self, name: str, neighbours: Sequence[str], **variables: Any) -> Pi:
        """Put a server of the cloud side on the bed and into the inventory; it is off and empty."""
        server = self.bed.pi(name)
        fleet_keys.issue(self.certificates, f"{name}={server.address}")
        self.servers[name] = {
            "ansible_host": server.address,
            "cloud_collector_id": name,
            "cloud_neighbours": [f"{self.bed.pis[one].address}:8883" for one in neighbours],
            "cloud_tree_key": self.tree_key,
            "cloud_tls_dir": str(self.certificates),
            "cloud_source_dir": str(self.source),
            **variables,
        }
        return server

    @property
    def shared(self) -> dict[str, Any]:
        """The variables of all hosts."""
        return {
            "ansible_ssh_executable": str(self.bed.ssh),
            "ansible_ssh_transfer_method": "piped",
            "ansible_become": False,
            "gateway_source_dir": str(self.source),
            "gateway_wheelhouse_dir": str(self.folder / "wheelhouse"),
            "gateway_tls_dir": str(self.certificates),
            "gateway_tree_key": self.tree_key,
            "gateway_psks": self.psks,
            "gateway_passwords": {"load": self.password_hash},
            "gateway_principals": self.principals,
            "gateway_mqtt_host": "{{ ansible_host }}",
            "gateway_coap_host": "{{ ansible_host }}",
            "gateway_tree_discovery": False,
            "gateway_sensors": [
                {"type": "host", "interval_s": 10.0},
                {"type": "switch", "name": "valve", "interval_s": 10.0},
            ],
        }

    def play(self, playbook: str, *arguments: str, **variables: Any) -> Play:
        """Run a playbook for the whole inventory."""
        return self._played(self.start(playbook, *arguments, **variables))

    def start(
        self, playbook: str, *arguments: str, **variables: Any
    ) -> tuple[subprocess.Popen[str], float]:
        """Begin to run one."""
        inventory = self.folder / "inventory.json"
        gateways = {"vars": self.shared, "hosts": self.hosts}
        reached = {name: of for name, of in self.shared.items() if name.startswith("ansible_")}
        cloud = {"vars": reached, "hosts": self.servers}
        inventory.write_text(json.dumps({"gateways": gateways, "cloud": cloud}))
        settings = {
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        more = ("-e", json.dumps(variables)) if variables else ()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), playbook),
                *(*more, *arguments),
            ],
            cwd=ANSIBLE,
            env={**os.environ, **settings},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return process, time.monotonic()

    def _played(self, started: tuple[subprocess.Popen[str], float]) -> Play:
        process, began_s = started
        output, _ = process.communicate(timeout=self.play_s)
        return Play(process.returncode, output, time.monotonic() - began_s)

    finish = _played

    def provision(self, within_s: float = WAIT_S) -> Play:
        """Make gateways of all Pis, and wait until they are one tree.

        Args:
            within_s: of the end of the playbook.

        """
        done = self.play("site.yml")
        if done.returncode:
            for pi in self.bed.pis.values():
                sys.stderr.write(f"{pi.name}: {pi.journal()}\n")
        done.worked()
        self.one_tree(within_s=within_s)
        return done

    # -- what gateways tell ------------------------------------------------------------------------

    def hedgerow(self, *arguments: str | Path, who: str = "operator") -> tuple[int, str]:
        """Exit code and words of a command on the operator's machine."""
        command = [sys.executable, "-m", "gateway.tools.cli", *map(str, arguments)]
        if who:
            command += ["--psk-file", str(self.folder / f"{who}.psk")]
        done = subprocess.run(
            self.bed.operator(*command),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=PROJECT,
        )
        return done.returncode, (done.stdout + done.stderr).strip()

    def status(self, name: str) -> dict[str, Any]:
        """Return the status that a gateway tells; empty while it does not answer."""
        address = self.bed.pis[name].address
        code, told = self.hedgerow("status", address, "--json", "--timeout", "4")
        if code:
            return {}
        status: dict[str, Any] = json.loads(told)
        return status

    def one_tree(self, *names: str, within_s: float = WAIT_S) -> None:
        """Wait until these gateways, or all, are one tree without a link that is refused."""
        wanted = names or tuple(self.hosts)

        def is_one() -> bool:
            told = [self.status(name) for name in wanted]
            return (
                all(told)
                and len({one["root"] for one in told}) == 1
                and all(set(wanted) <= set(one["members"]) for one in told)
                and sum(one["parent"] is None for one in told) == 1
            )

        until(f"{wanted} are one tree", is_one, within_s)

    def release(self, name: str) -> str:
        """The name of the release that a Pi's link leads to."""
        return run("readlink", self.bed.pis[name].root / "opt/hedgerow/venv").strip().split("/")[-1]


def not_shipped(folder: str, names: list[str]) -> set[str]:
    ignore = shutil.ignore_patterns(
        *(".*", "build", "dist", "*.egg-info", "__pycache__", "tests", "benchmarks")
    )
    return ignore(folder, names)
