"""Checks of deploy/ansible that need no machine to provision."""

from __future__ import annotations

import json
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


def test_all_playbooks_parse_with_the_example_inventories(tmp_path: Path) -> None:
    inventories = ("-i", "inventory/example.yml", "-i", "inventory/cloud.example.yml")
    playbooks = sorted(file.name for file in ANSIBLE.glob("*.yml"))
    assert {"site.yml", "rotate_keys.yml", "cloud.yml"} <= {*playbooks}
    done = run_module(
        "ansible", "playbook", "--syntax-check", *inventories, *playbooks, home=tmp_path
    )
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


PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_vars: {role}/defaults/main.yml
    - ansible.builtin.include_vars: {role}/vars/main.yml
    - ansible.builtin.include_role: {{name: cloud, tasks_from: monitoring}}
"""


def test_the_clouds_role_has_grafana_find_its_dashboards_and_prometheus_its_rules(
    tmp_path: Path,
) -> None:
    grafana, rules = tmp_path / "grafana", tmp_path / "rules"
    rules.mkdir()
    (tmp_path / "play.yml").write_text(PLAY.format(role=ANSIBLE / "roles/cloud"))
    told = {
        "cloud_grafana_dir": str(grafana),
        "cloud_prometheus_rules_dir": str(rules),
        "cloud_source_dir": str(PROJECT),
        "cloud_tables": "/srv/it's here",
        "cloud_tree_key": "ab" * 16,
        "target_is_booted": False,
    }
    given = ("playbook", "-i", "localhost,", "-e", json.dumps(told), str(tmp_path / "play.yml"))
    # Files of another user need root: here they belong to who runs this.
    done = run_module("ansible", *given, home=tmp_path / "home")
    if os.geteuid() != 0 and "chown failed" in done.stdout:
        pytest.skip("files of root's need root")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (rules / "hedgerow.rules.yml").is_file()
    (provider,) = yaml.safe_load((grafana / "provisioning/dashboards/hedgerow.yml").read_text())[
        "providers"
    ]
    found = [json.loads(one.read_text()) for one in Path(provider["options"]["path"]).glob("*")]
    asked = {one["templating"]["list"][0]["query"] for one in found}
    sources = yaml.safe_load((grafana / "provisioning/datasources/hedgerow.yml").read_text())
    assert asked == {one["type"] for one in sources["datasources"]}
    first_sql = sources["datasources"][1]["jsonData"]["initSql"]
    assert "delta_scan('/srv/it''s here/gateways')" in first_sql
