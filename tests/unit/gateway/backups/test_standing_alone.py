"""The part of `gateway/backups` that roles copy to a Pi runs there without the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[4]
TASKS = ROOT / "deploy/ansible/roles/gateway/tasks"


def _files_of_the_timer() -> list[str]:
    tasks = yaml.safe_load((TASKS / "backups_wanted.yml").read_text())
    (copies,) = (one for one in tasks if one["name"] == "Copy what makes them")
    return list(copies["loop"])


def _files_of_the_restore() -> list[str]:
    (block,) = (one["block"] for one in yaml.safe_load((TASKS / "restore.yml").read_text())[2:])
    (sends,) = (one for one in block if one["name"] == "Send it, and what unpacks it")
    names = (Path(one["dest"]).name for one in sends["loop"])
    return [name for name in names if name.endswith(".py")]


@pytest.mark.parametrize(
    ("files", "module"),
    [(_files_of_the_timer(), "backups"), (_files_of_the_restore(), "backups.restoring")],
)
def test_it_runs_with_the_systems_python_alone(
    tmp_path: Path, files: list[str], module: str
) -> None:
    (tmp_path / "backups").mkdir()
    for name in files:
        shutil.copy(ROOT / "gateway/backups" / name, tmp_path / "backups" / name)
    done = subprocess.run(
        ["/usr/bin/python3", "-B", "-m", module, "--help"],
        env={"PYTHONPATH": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
