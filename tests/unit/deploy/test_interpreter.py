"""A release whose Python an upgrade of Debian took away goes on, or says so (interpreter.sh)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.flashing import first_run

ROLES = Path(__file__).parents[3] / "deploy/ansible/roles"
SCRIPTS = (ROLES / "target/files/interpreter.sh", ROLES / "gateway/files/whole_release.sh")
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
        for script in SCRIPTS:
            shutil.copy(script, folder / "interpreter")

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


@pytest.mark.parametrize("role", ["gateway", "cloud"])
def test_the_unit_of_a_role_starts_its_release_so(role: str) -> None:
    unit = (ROLES / role / "templates/hedgerow.service.j2").read_text()
    starts = f"{{{{ _{role}_install_dir }}}}/interpreter/interpreter.sh"
    assert f"\nExecStartPre=-+{starts} carry {{{{ _{role}_install_dir }}}}\n" in unit
    assert f"\nExecStart={starts} run {{{{ _{role}_install_dir }}}} " in unit
    assert "\nRestartPreventExitStatus=2\n" in unit
    of_a_card = unit.partition("{% if _gateway_is_on_card | default(false) %}")[2]
    assert unit.count("venv/bin") == of_a_card.partition("{% else %}")[0].count("venv/bin")


def test_the_unit_of_a_card_starts_what_its_first_boot_installs() -> None:
    """No first boot has `interpreter.sh`: a card whose unit started it never served."""
    unit = (ROLES / "gateway/templates/hedgerow.service.j2").read_text()
    card = (ROLES / "gateway/tasks/card_files.yml").read_text()
    first_boot = Path(first_run.__file__).with_name("data") / "first-boot.sh"
    of_a_card = unit.partition("{% if _gateway_is_on_card | default(false) %}")[2]
    starts = of_a_card.partition("{% else %}")[0]
    assert "\nExecStart={{ _gateway_install_dir }}/venv/bin/hedgerow run " in starts
    assert "interpreter" not in starts.replace("finds interpreters", "")
    assert "\n    _gateway_is_on_card: true\n" in card
    assert 'mv -T "$opt/venv.new" "$opt/venv"' in first_boot.read_text()
