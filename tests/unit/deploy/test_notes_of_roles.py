"""A role reads its own note at its next run, whatever a power cut left of the note."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from loaded_file import loaded

ANSIBLE = Path(__file__).parents[3] / "deploy/ansible"
NOTES = loaded(ANSIBLE / "filter_plugins/hedgerow_notes.py")


def slurped(text: bytes) -> dict[str, Any]:
    return {"content": base64.b64encode(text).decode(), "encoding": "base64"}


@pytest.mark.parametrize(
    "read",
    [{"msg": "file not found", "failed": True}, slurped(b""), slurped(b"\0" * 40), slurped(b"7")],
    ids=["none", "emptied", "zeros", "another"],
)
def test_a_note_that_is_damaged_says_what_none_says(read: dict[str, Any]) -> None:
    assert NOTES.noted(read, {"users": []}) == {"users": []}


def test_a_note_is_read(tmp_path: Path) -> None:
    assert NOTES.noted(slurped(b'["/tmp"]\n'), []) == ["/tmp"]


def test_a_play_reads_what_a_note_says(tmp_path: Path) -> None:
    """Ansible gives filters maps and lists of its own classes, not those of Python."""
    tasks = []
    for note, otherwise in (({"made": ["anna"]}, "{'made': []}"), (["/tmp"], "[]")):
        named = {
            "_read": slurped(json.dumps(note).encode()),
            "_said": f"{{{{ _read | hedgerow_noted({otherwise}) }}}}",
            "_noted": note,
        }
        wanted = {"that": ["_said == _noted"], "fail_msg": "it said {{ _said }}"}
        tasks.append({"ansible.builtin.assert": wanted, "vars": named})
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "play.yml"]
    filters = {"ANSIBLE_FILTER_PLUGINS": str(ANSIBLE / "filter_plugins")}
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **filters},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_role_fails_at_a_file_of_the_machine_that_is_empty() -> None:
    for path in ANSIBLE.rglob("*.yml"):
        for line in path.read_text().splitlines():
            assert not re.search(r"b64decode\s*\|\s*from_json", line), f"{path}: {line.strip()}"


def test_a_note_is_on_the_disk_before_the_role_goes_on() -> None:
    made = yaml.safe_load((ANSIBLE / "roles/target/tasks/made.yml").read_text())
    sync = made[-1]["ansible.builtin.command"]["argv"]
    assert sync == ["sync", made[-2]["ansible.builtin.copy"]["dest"]]


def test_each_role_that_notes_what_it_made_takes_it_away_again() -> None:
    noting = {
        path.parents[1]
        for path in ANSIBLE.glob("roles/*/tasks/*.yml")
        if "tasks_from: made.yml" in path.read_text()
    }
    assert len(noting) > 5
    assert [role.name for role in noting if not (role / "tasks/left.yml").is_file()] == []
