"""A certificate and its key come to a gateway together (roles/gateway/tasks/certificates.yml)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

TASKS = Path(__file__).parents[3] / "deploy/ansible/roles/gateway/tasks"
COPY, SHELL = "ansible.builtin.copy", "ansible.builtin.shell"


def test_both_are_on_the_disk_beside_those_of_before_and_then_renamed_by_one_command(
    tmp_path: Path,
) -> None:
    looks, beside, renames = yaml.safe_load((TASKS / "certificates.yml").read_text())
    assert looks["check_mode"] is True
    assert beside[COPY]["dest"] == looks[COPY]["dest"] + ".new"
    names = ["gateway.pem", "gateway.key.pem"]
    for name in names:
        (tmp_path / name).write_text("of before")
        (tmp_path / f"{name}.new").write_text("new")
    command = re.sub(r"\{\{.*?\}\}", " ".join(names), renames[SHELL]["cmd"])
    assert command.startswith("sync && ")
    # The disks of this machine need no sync here.
    subprocess.run(["sh", "-c", command.removeprefix("sync && ")], cwd=tmp_path, check=True)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == dict.fromkeys(names, "new")


def test_no_other_task_writes_a_key_into_its_place() -> None:
    for path in TASKS.glob("*.yml"):
        text = path.read_text()
        place = "_gateway_config_dir }}/tls/{{ item.to }}"
        assert path.name == "certificates.yml" or place not in text, path.name
