"""Roles write their files on the smallest Debian, and where an inventory names nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PLAYBOOKS = Path(__file__).resolve().parents[3] / "deploy" / "ansible"
ROLES = PLAYBOOKS / "roles"
OF_PACKAGES = {
    "/etc/apt/apt.conf.d": "apt",
    "/etc/ssh/sshd_config.d": "openssh-server",
    "/etc/sudoers.d": "sudo",
}
"""Folders that come with a package which the role installs, or without which there is no Debian."""
ROLE_NAMES = sorted(path.name for path in ROLES.iterdir() if (path / "tasks").is_dir())


def tasks(of: Any) -> Iterator[dict[str, Any]]:
    """All tasks, those in blocks too."""
    for task in of or []:
        yield task
        for inner in ("block", "rescue", "always"):
            yield from tasks(task.get(inner))


def made_by(task: dict[str, Any]) -> Iterator[str]:
    """The folders that a task makes."""
    given = task.get("ansible.builtin.file", {})
    if given.get("state") == "directory":
        loop = task.get("loop")
        yield from (
            [each for each in loop if isinstance(each, str)] if isinstance(loop, list) else []
        )
        yield given["path"]


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_a_role_makes_the_folders_of_settings_that_it_writes_into(role: str) -> None:
    files = sorted((ROLES / role / "tasks").glob("*.yml"))
    every = [task for path in files for task in tasks(yaml.safe_load(path.read_text()))]
    there = {folder for task in every for folder in made_by(task)} | set(OF_PACKAGES)
    for task in every:
        for module in ("ansible.builtin.copy", "ansible.builtin.template"):
            folder = str(task.get(module, {}).get("dest", "")).rpartition("/")[0]
            if folder.startswith("/etc/") and folder.endswith(".d"):
                assert folder in there, task["name"]


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_a_file_of_a_list_that_is_empty_is_an_empty_file(role: str) -> None:
    # Ansible takes a loop that says nothing for no content at all, and fails.
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in tasks(yaml.safe_load(path.read_text())):
            content = str(task.get("ansible.builtin.copy", {}).get("content", ""))
            listed = [one["content"] for one in task.get("vars", {}).get("_passwords", ())]
            for text in (content, *listed):
                assert "when" in task or not text.startswith("{% for"), task["name"]


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_a_role_is_played(role: str) -> None:
    plays = [*PLAYBOOKS.glob("*.yml"), *ROLES.glob("*/tasks/*.yml")]
    named = re.compile(rf"^\s+(?:- )?(?:role|name): {role}$", re.MULTILINE)
    assert any(named.search(path.read_text()) for path in plays)


def test_a_role_that_site_roles_may_name_is_checked_played_and_explained() -> None:
    site = (PLAYBOOKS / "site.yml").read_text()
    (checked,) = re.findall(r"difference\(\[(.*?)\]\)", site)
    names = set(re.findall(r"'(\w+)'", checked))
    readme = (PLAYBOOKS / "README.md").read_text()
    table = readme.partition("| role | what it does | package |\n")[2].partition("\n\n")[0]
    assert names == set(re.findall(r"when: \"'(\w+)' in _site_roles\"", site))
    assert names == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_what_changes_releases_is_copied_with_all_that_it_imports() -> None:
    written = yaml.safe_load((ROLES / "gateway/tasks/releases.yml").read_text())
    (copied,) = (task["loop"] for task in written if task["name"] == "Copy what changes releases")
    folder = ROLES.parents[2] / "gateway" / "releases"
    wanted, left = set[str](), {"__init__.py", "__main__.py"}
    while left:
        name = left.pop()
        wanted.add(name)
        text = (folder / name).read_text()
        found = set(re.findall(r"^from \.(\w+) import", text, re.MULTILINE))
        for names in re.findall(r"^from \. import (.+)$", text, re.MULTILINE):
            found |= {name.split(" as ")[0] for name in names.split(", ")}
        left |= {f"{module}.py" for module in found} - wanted
    assert set(copied) == wanted
