"""A backup has keys: on the controller nobody but its owner can read it, at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ANSIBLE = Path(__file__).resolve().parents[3] / "deploy" / "ansible"
TASKS = ANSIBLE / "roles/gateway/tasks/fetch_backup.yml"


class Watch:
    """Notes each mode that a file in a folder ever has, and what the backup holds."""

    def __init__(self, backup: Path) -> None:
        self.modes: set[int] = set()
        self.held: set[bytes] = set()
        self._backup = backup
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _look(self) -> None:
        has_ended = False
        while not has_ended:
            has_ended = self._has_ended.wait(0.0005)  # and then it looks once more
            for file in self._backup.parent.glob("gw.tar.gz*"):
                try:
                    self.modes.add(file.stat().st_mode & 0o777)
                except FileNotFoundError:
                    continue
            if self._backup.exists():
                self.held.add(self._backup.read_bytes())


def test_a_backup_is_its_owners_alone_from_its_first_moment_and_replaces_one_that_is_whole(
    tmp_path: Path,
) -> None:
    archive, backup = tmp_path / "archive", tmp_path / "backups" / "gw.tar.gz"
    play = tmp_path / "play.yml"
    given = {"_gateway_archive": str(archive), "_gateway_backup": str(backup)}
    play.write_text(
        f"- hosts: localhost\n  gather_facts: false\n  tasks:\n"
        f"    - ansible.builtin.import_tasks: {TASKS}\n      vars: {json.dumps(given)}\n"
    )
    with Watch(backup) as watch:
        for content in (b"first", b"second"):
            archive.write_bytes(content * 1_000_000)
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "ansible", "playbook", "--connection", "local"),
                    *("--inventory", "localhost,", str(play)),
                    *("--extra-vars", f"ansible_python_interpreter={sys.executable}"),
                ],
                env={**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(tmp_path / "home")},
                cwd=tmp_path,
                umask=0o022,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    assert watch.modes == {0o600}
    assert watch.held == {b"first" * 1_000_000, b"second" * 1_000_000}
    assert [one.name for one in backup.parent.iterdir()] == ["gw.tar.gz"]
