"""What can be said of deploy/ansible without a machine to provision."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[3]
ANSIBLE = PROJECT / "deploy" / "ansible"


def run_module(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "ANSIBLE_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ANSIBLE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.soak("takes most of a minute of a core")
def test_the_role_meets_the_production_profile_of_ansible_lint(tmp_path: Path) -> None:
    done = run_module("ansiblelint", "--offline", "--profile", "production", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("playbook", "inventory"),
    [("site.yml", "inventory/example.yml"), ("cloud.yml", "inventory/cloud.example.yml")],
)
def test_the_playbook_parses_with_the_example_inventory(
    tmp_path: Path, playbook: str, inventory: str
) -> None:
    given = ("--syntax-check", "-i", inventory, playbook)
    done = run_module("ansible", "playbook", *given, home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("role", "extras"), [("gateway", []), ("cloud", ["cloud"])])
def test_each_dependency_of_the_project_is_pinned_for_its_role(
    role: str, extras: list[str]
) -> None:
    lock = ANSIBLE / "roles" / role / "files" / "requirements.txt"
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    for requirement in map(Requirement, wanted):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        version = pinned.get(name, "0")
        assert requirement.specifier.contains(version), f"{lock}: {requirement}, not {version}"


def test_whatever_a_role_installs_comes_with_a_digest_or_from_its_own_folder_alone() -> None:
    """`pip` runs code of whoever can put a package where it looks."""
    found = []
    for file in sorted(ANSIBLE.glob("roles/*/tasks/*.yml")):
        for task in tasks_of(yaml.safe_load(file.read_text()) or []):
            argv = f"{task.get('ansible.builtin.command', {})} {task.get('vars', {})}"
            if "pip" not in argv or not re.search(r"'(install|download)'", argv):
                continue
            found.append(f"{file.parent.parent.name}: {task['name']}")
            has_digests = "--require-hashes" in argv and "--no-build-isolation" in argv
            has_digests |= "--require-hashes" in argv and "--only-binary" in argv
            assert has_digests or "'--no-index'" in argv, found[-1]
    assert len(found) >= 5


def tasks_of(listed: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in listed:
        yield task
        for inner in ("block", "always", "rescue"):
            yield from tasks_of(task.get(inner, []))
