"""A release whose Python an upgrade of Debian took away goes on, or says so (interpreter.sh)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.tools import provisioning
from gateway.tools.commands import new_files
from gateway.tools.flashing import first_run
from gateway.tools.provisioning.unit import (
    OF_RELEASES,
    STARTER,
    STARTER_FILES,
    CloudService,
    ServicePlan,
    cloud_unit,
)
from gateway.tools.provisioning.unit import unit as made_unit

ROLES = Path(__file__).parents[3] / "deploy/ansible/roles"
PROVISIONING = Path(provisioning.__file__).parent
SCRIPT = PROVISIONING / STARTER
WANTED = "python3.77"


class Installed:
    """A folder of releases as the role makes it, with one for a Python that no Debian has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.release = folder / "releases/1.0-abc"
        self.python = program(folder / "debian" / WANTED)
        (self.release / "bin").mkdir(parents=True)
        (self.release / "lib" / WANTED).mkdir(parents=True)
        (self.release / "bin/python").symlink_to("python3")
        (self.release / "bin/python3").symlink_to(self.python)
        (self.release / "pyvenv.cfg").write_text(f"home = {self.python.parent}\nversion = 3.77.0\n")
        program(self.release / "bin/hedgerow", 'echo "started with $*"')
        (folder / "venv").symlink_to(self.release)
        (folder / "interpreter").mkdir()
        for name in STARTER_FILES:
            shutil.copy(PROVISIONING / name, folder / "interpreter")

    def step(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.folder / "interpreter/interpreter.sh", name, self.folder, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def upgrade_debian(self) -> None:
        """Have another Python where the one was."""
        self.python.unlink()
        other = program(self.python.with_name("python3.78"))
        (self.release / "bin/python3").unlink()
        (self.release / "bin/python3").symlink_to(other)


def program(path: Path, does: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path / "hedgerow")


def test_a_release_that_has_its_interpreter_is_left_as_it_is_and_started(
    installed: Installed,
) -> None:
    before = (installed.release / "pyvenv.cfg").read_text()
    carried = installed.step("carry")
    assert (carried.returncode, carried.stderr) == (0, "")
    assert (installed.release / "pyvenv.cfg").read_text() == before
    assert (
        installed.step("run", "run", "--config", "x y").stdout == "started with run --config x y\n"
    )


@pytest.mark.parametrize("left", ["another one", "nothing"])
def test_a_release_whose_interpreter_is_gone_says_so_in_one_line_and_what_to_do(
    installed: Installed, left: str
) -> None:
    installed.upgrade_debian()
    if left == "nothing":
        (installed.python.with_name("python3.78")).unlink()
    assert installed.step("carry").returncode == 0
    started = installed.step("run", "run")
    assert started.returncode == 2, "systemd starts it again and again"
    (line,) = started.stderr.splitlines()
    assert f"the interpreter of release 1.0-abc is gone: it is for {WANTED}" in line
    assert "Run site.yml" in line


@pytest.mark.parametrize("left", ["another one", "nothing"])
def test_a_release_whose_interpreter_is_gone_goes_on_with_the_copy(
    installed: Installed, left: str
) -> None:
    copy = program(installed.folder / f"interpreters/3.77/bin/{WANTED}")
    installed.upgrade_debian()
    if left == "nothing":
        (installed.python.with_name("python3.78")).unlink()
    carried = installed.step("carry")
    (line,) = carried.stderr.splitlines()
    assert f"it goes on with {copy}" in line
    assert (installed.release / "bin/python").resolve() == copy
    assert f"home = {copy.parent}\n" in (installed.release / "pyvenv.cfg").read_text()
    assert installed.step("run", "run").stdout == "started with run\n"
    assert installed.step("carry").stderr == "", "it is carried over once"


def test_a_copy_that_does_not_run_is_not_taken(installed: Installed) -> None:
    program(installed.folder / f"interpreters/3.77/bin/{WANTED}", "exit 127")
    installed.upgrade_debian()
    installed.step("carry")
    assert installed.step("run", "run").returncode == 2


@pytest.mark.soak("copies an interpreter and syncs, which takes seconds of a busy disk")
def test_the_copy_of_an_interpreter_runs_by_itself_and_is_made_once(installed: Installed) -> None:
    debians = Path("/usr/bin/python3").resolve()
    if not (debians.name.startswith("python3.") and debians.parent == Path("/usr/bin")):
        pytest.skip("Debian's python3 is not installed")
    (installed.release / "lib" / WANTED).rename(installed.release / "lib" / debians.name)
    (installed.release / "bin/python3").unlink()
    (installed.release / "bin/python3").symlink_to(debians)
    release = str(installed.release)
    of_nobody = installed.folder / "interpreters/3.1"
    of_nobody.mkdir(parents=True)
    first = installed.step("keep", release)
    assert (first.returncode, first.stdout) == (0, "kept\n"), first.stderr
    assert installed.step("keep", release).stdout == ""
    assert not of_nobody.exists()
    copy = installed.folder / "interpreters" / debians.name.removeprefix("python")
    asks = "import asyncio, sys; print(sys.prefix)"
    told = subprocess.check_output([copy / "bin" / debians.name, "-I", "-c", asks], text=True)
    assert told.strip() == str(copy)
    (copy / "lib" / debians.name / "ssl.py").write_bytes(b"")
    assert installed.step("keep", release).stdout == "kept\n", "a power cut emptied it"


@pytest.mark.parametrize("left", ["another one", "nothing"])
def test_an_environment_by_itself_is_started_so_too(installed: Installed, left: str) -> None:
    """The Debian package and `hedgerow join` each make such an environment."""
    run = [SCRIPT, "run", installed.release, "--version"]
    started = subprocess.run(run, capture_output=True, text=True, check=True)
    assert started.stdout == "started with --version\n"
    installed.upgrade_debian()
    if left == "nothing":
        (installed.python.with_name("python3.78")).unlink()
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, "systemd starts it again and again"
    (line,) = ended.stderr.splitlines()
    gone = f"the interpreter of environment {installed.release} is gone: it is for {WANTED}"
    assert gone in line and "install Hedgerow there" in line


def test_an_environment_that_was_brought_over_to_another_python_is_started(
    installed: Installed,
) -> None:
    """`python3 -m venv --upgrade` leaves the older library beside the new one."""
    installed.upgrade_debian()
    (installed.release / "lib/python3.78").mkdir()
    assert installed.step("run", "run").stdout == "started with run\n"


# -- one start for all -----------------------------------------------------------------------------


def starts(unit: str) -> list[str]:
    return [line for line in unit.splitlines() if line.startswith(("ExecStart=", "ExecStartPre="))]


@pytest.mark.parametrize("role", ["gateway", "cloud"])
def test_the_unit_of_a_role_starts_its_release_so(role: str) -> None:
    unit = (ROLES / role / "templates/hedgerow.service.j2").read_text()
    folder = f"{{{{ _{role}_install_dir }}}}"
    starter = f"{folder}/interpreter/interpreter.sh"
    carry, start = starts(unit)
    assert carry == f"ExecStartPre=-+{starter} carry {folder}"
    assert start.startswith(f"ExecStart={starter} run {folder} ")
    assert "\nRestartPreventExitStatus=2\n" in unit
    assert "\nSyslogIdentifier=hedgerow" in unit
    assert "venv" not in unit


def test_a_card_and_a_system_image_start_as_the_role_has_it() -> None:
    unit = (ROLES / "gateway/templates/hedgerow.service.j2").read_text()
    told = {"_gateway_install_dir": "/opt/hedgerow", "_gateway_config_dir": "/etc/hedgerow"}
    for name, value in told.items():
        unit = unit.replace(f"{{{{ {name} }}}}", value)
    plan = ServicePlan(
        gateway_id="gw",
        command=("/opt/hedgerow/venv/bin/hedgerow",),
        user="hedgerow",
        folder=Path("/etc/hedgerow"),
        state_dir=Path("/var/lib/hedgerow"),
        environment=OF_RELEASES,
    )
    assert starts(made_unit(plan)) == starts(unit)
    assert "\nSyslogIdentifier=hedgerow\n" in made_unit(plan)


def test_who_joins_or_collects_from_an_environment_of_ones_own_starts_so_too() -> None:
    own = new_files.machine().environment
    assert own is not None, "tests run in a virtual environment"
    assert own.folder == Path(sys.prefix)
    assert os.access(own.starter, os.X_OK)
    start = f"ExecStart={own.starter} run {sys.prefix}"
    of_gateway = ServicePlan("gw", ("x",), "pi", Path("/home/pi/gw"), Path("/home/pi/s"), own)
    assert starts(made_unit(of_gateway)) == [f"{start} run --config /home/pi/gw/hedgerow.toml"]
    of_cloud = CloudService(
        name="ingest",
        command=("x",),
        arguments=("ingest", "--follow"),
        user="pi",
        folder=Path("/home/pi/c"),
        state_dir=Path("/home/pi/s"),
        environment=own,
    )
    assert starts(cloud_unit(of_cloud)) == [f"{start} ingest --follow"]
    assert "\nSyslogIdentifier=hedgerow-ingest\n" in cloud_unit(of_cloud)


def test_a_card_brings_what_its_unit_starts_and_its_first_boot_installs_it_before(
    tmp_path: Path,
) -> None:
    first_boot = Path(first_run.__file__).with_name("data") / "first-boot.sh"
    text = first_boot.read_text().partition("install_starter() {")[2].partition("\n}\n")[0]
    kit, opt = tmp_path / "kit", tmp_path / "opt"
    kit.mkdir()
    for name in STARTER_FILES:
        shutil.copy(PROVISIONING / name, kit / name)
        (kit / name).chmod(0o644)  # a boot partition has no modes
    installed = Installed(opt)
    shutil.rmtree(opt / "interpreter")
    script = (
        f'set -eu; kit={kit} opt={opt} folder={installed.release}; say() {{ echo "$*"; }}\n{text}'
    )
    for _ in range(2):  # a power cut has it done again
        subprocess.run(["sh", "-c", script], check=True)
    assert installed.step("run", "run").stdout == "started with run\n"
    order = first_boot.read_text().partition("\ninstall_release() {")[2].partition("\n}\n")[0]
    assert order.splitlines()[-1].strip() == "install_starter"
