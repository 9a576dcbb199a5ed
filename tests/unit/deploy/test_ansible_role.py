"""What can be said of deploy/ansible without a machine to provision."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[3]
ANSIBLE = PROJECT / "deploy" / "ansible"
LOCK = ANSIBLE / "roles/gateway/files/requirements.txt"


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


def test_each_dependency_of_the_project_is_pinned_for_the_wheelhouse() -> None:
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, project["dependencies"]):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        version = pinned.get(name, "0")
        assert requirement.specifier.contains(version), f"{LOCK}: {requirement}, not {version}"
