"""Goal: machines that have Debian and the package alone are a fleet, by one command on each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bed
import pytest
from bed import OPERATOR, Bed, Pi
from commands import run, until
from empty_bed import empty_bed
from fleet import PROJECT
from server_wheels import download

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

NAMES = ("gw-root", "gw-north", "gw-south")
HEDGEROW = (sys.executable, "-m", "gateway.tools.cli")
LIST = PROJECT / "deploy/ansible/roles/gateway/files/requirements.txt"
SERVICE = f"{OPERATOR}:8890"


@dataclass
class Machines:
    """Three machines with the package, and the operator's folder of their fleet."""

    bed: Bed
    fleet: Path

    def operator(self, *words: str) -> str:
        """Run a `hedgerow` command on the operator's machine; return what it prints."""
        return run(*self.bed.operator(*HEDGEROW, *words))

    def token(self, name: str, *options: str) -> str:
        made = self.operator(
            *("keys", "token", "--fleet", str(self.fleet), name, "--service", SERVICE),
            *("--json", *options),
        )
        return str(json.loads(made)["token"])


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    wheels = tmp_path_factory.mktemp("wheels")
    download(LIST, wheels)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    run(*pip, "--wheel-dir", wheels, PROJECT)
    with empty_bed(tmp_path_factory) as made:
        pis = [made.pi(name) for name in (*NAMES, "gw-barn")]
        bed.boot_all(pis)
        for pi in pis:
            run("cp", "-r", wheels, pi.root / "opt/wheels")
            install(pi, "/opt/hedgerow")
        machines = Machines(made, tmp_path_factory.mktemp("operator") / "fleet")
        named = [f"{pi.name}={pi.address}" for pi in pis[:3]]
        machines.operator("init", str(machines.fleet), "--fleet", *named, "--yes")
        serving = subprocess.Popen(
            made.operator(
                *(*HEDGEROW, "keys", "serve", "--ca", str(machines.fleet / "authority")),
                *("--listen", SERVICE),
            ),
            stdout=subprocess.PIPE,
        )
        try:
            assert serving.stdout is not None
            assert serving.stdout.readline().startswith(b"enrolment at ")
            yield machines
        finally:
            serving.terminate()
            serving.wait()


def install(pi: Pi, venv: str, umask: str = "022") -> None:
    pip = f"{venv}/bin/pip install --quiet --no-index --find-links /opt/wheels hedgerow"
    pi.run("sh", "-ec", f"umask {umask}; python3 -m venv {venv}; {pip}", timeout_s=600.0)


def join(pi: Pi, token: str) -> str:
    said = pi.says("/opt/hedgerow/bin/hedgerow", "join", token)
    assert "is started" in said, f"{said}\n{pi.journal()}"
    return said


def tree(pi: Pi) -> str:
    return pi.says("/opt/hedgerow/bin/hedgerow", "tree")


def test_three_machines_that_join_are_one_tree_and_stay_one_after_a_boot(
    machines: Machines,
) -> None:
    pis = [machines.bed.pis[name] for name in NAMES]
    for pi in pis:
        assert "hedgerow.service is started" in join(pi, machines.token(pi.name))
        assert pi.says("systemctl", "is-active", "hedgerow") == "active", pi.journal()
        assert pi.run("stat", "-c", "%U %a", "/etc/hedgerow/tree.key").strip() == "hedgerow 600"
    for pi in pis:
        until("one tree", lambda pi=pi: all(name in tree(pi) for name in NAMES))
    pis[1].reboot()
    until("one tree", lambda: all(name in tree(pis[1]) for name in NAMES))


def test_a_program_that_the_service_may_not_run_is_named_and_one_more_joins_by_what_is_said(
    machines: Machines,
) -> None:
    barn = machines.bed.pis["gw-barn"]
    install(barn, "/opt/hidden", umask="077")
    token = machines.token(f"{barn.name}={barn.address}", "--place", "campus/barn")
    said = barn.says("/opt/hidden/bin/hedgerow", "join", token)
    assert "the user hedgerow may not run /opt/hidden/bin/hedgerow" in said
    barn.run("chmod", "-R", "go+rX", "/opt/hidden")
    barn.run(*said.partition("; then: ")[2].split())
    root = machines.bed.pis["gw-root"]
    until("one tree", lambda: "gw-barn" in tree(root))


def test_a_machine_that_is_a_gateway_already_stays_as_it_is(machines: Machines) -> None:
    root = machines.bed.pis["gw-root"]
    before = root.run("sha256sum", "/etc/hedgerow/hedgerow.toml")
    token = machines.token("gw-late=10.77.0.77")
    said = root.says("/opt/hedgerow/bin/hedgerow", "join", token)
    assert said == "hedgerow: /etc/hedgerow/hedgerow.toml is there already, and stays as it is"
    assert root.run("sha256sum", "/etc/hedgerow/hedgerow.toml") == before
