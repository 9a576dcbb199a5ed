"""Files, roles and variables that plays and pages name are there: no look at the syntax tells."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ansible_command_lines import ANSIBLE, ROOT, loaded, mappings

OF_ROLES = ("ansible.builtin.include_role", "ansible.builtin.import_role")
OF_TASKS = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")
OF_FILES = {"ansible.builtin.template": "templates", "ansible.builtin.copy": "files"}
PROJECTS = re.compile(
    r"{{ (?:gateway_source_dir|cloud_source_dir|role_path|playbook_dir) }}/((?:\.\./)*)([\w./-]+)"
)
"""A path in the project: of a role's folder, of a play's, or of the checkout."""
PLAYED = re.compile(r"ansible-playbook\s[^`\n]*")
NAMED = re.compile(r"(?:-e|--extra-vars)[ =][\"']?([a-z_]+)=")


def tasks() -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in sorted(ANSIBLE.rglob("*.yml")):
        for mapping in mappings(loaded(file)):
            yield file, mapping


def role_of(file: Path) -> Path:
    """Return the folder of the role that a file is in; of all plays for a playbook."""
    return file.parents[1] if "roles" in file.parts else ANSIBLE


def wanted(file: Path, task: dict[str, Any]) -> Iterator[Path]:
    """Return the files that a task takes, as far as no variable says which."""
    for one in OF_ROLES:
        if one in task:
            entry = str(task[one].get("tasks_from", "main"))
            tasks_of = ANSIBLE / "roles" / task[one]["name"] / "tasks"
            yield tasks_of / (entry if entry.endswith(".yml") else f"{entry}.yml")
    for one in OF_TASKS:
        if one in task:
            named = task[one]["file"] if isinstance(task[one], dict) else task[one]
            yield file.parent / named
    for one, folder in OF_FILES.items():
        source = str(task.get(one, {}).get("src", ""))
        if source and not source.startswith("/"):
            yield role_of(file) / folder / source
    roles = task.get("roles")
    for role in roles if isinstance(roles, list) else ():
        name = role if isinstance(role, str) else role["role"]
        yield ANSIBLE / "roles" / name / "tasks/main.yml"


def test_what_a_play_or_role_includes_copies_and_fills_in_is_there() -> None:
    found = {(str(file), one) for file, task in tasks() for one in wanted(file, task)}
    assert len(found) > 80
    missing = {named for named in found if "{{" not in str(named[1]) and not named[1].is_file()}
    assert missing == set()


def test_each_file_of_the_project_that_a_play_or_role_takes_is_there() -> None:
    found = set()
    for file in sorted(ANSIBLE.rglob("*.yml")):
        for line in file.read_text().splitlines():
            for ups, named in PROJECTS.findall(line.replace("/{{ item }}", "")):
                is_checkout = "source_dir" in line and not ups
                start = ROOT if is_checkout else role_of(file)
                found.add((file.name, (start / ups / named).resolve()))
    assert {"whole_release.sh", "making.py"} <= {path.name for _, path in found}
    assert {named for named in found if not named[1].exists()} == set()


@cache
def names_of_ansible() -> frozenset[str]:
    """Return all words of plays and roles, without comments."""
    files = (*ANSIBLE.rglob("*.yml"), *ANSIBLE.rglob("*.j2"))
    texts = (re.sub(r"(?m)^\s*#.*$", "", file.read_text()) for file in files)
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def test_each_playbook_and_variable_that_a_text_has_somebody_give_is_there() -> None:
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    texts = [name for name in files if name.endswith((".md", ".yml", ".py"))]
    texts = [name for name in texts if not name.startswith(("tests/", "docs/decisions/"))]
    played = [
        (name, line)
        for name in texts
        if (ROOT / name).is_file()
        for line in PLAYED.findall((ROOT / name).read_text())
    ]
    assert len(played) > 20
    for name, line in played:
        for playbook in re.findall(r"(?<![\w/.-])([a-z_]+\.yml)", line):
            is_here = (ANSIBLE / playbook).is_file() or (ROOT / name).with_name(playbook).is_file()
            assert is_here or "-i " + playbook in line, f"{name}: {line}"
        for variable in NAMED.findall(line):
            assert variable in names_of_ansible(), f"{name}: {variable}: {line}"


def test_no_variable_of_a_role_is_a_file_beside_whichever_role_asks_for_it() -> None:
    """A variable is read where it is used: there role_path is the folder of another role."""
    files = [
        file for part in ("vars", "defaults") for file in ANSIBLE.glob(f"roles/*/{part}/**/*.yml")
    ]
    assert len(files) > 10
    assert [str(file) for file in files if "role_path" in file.read_text()] == []
