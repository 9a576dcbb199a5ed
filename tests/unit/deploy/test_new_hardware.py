"""New hardware gets the newest usable backup, and the old one's keys end when it serves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from backed_up_gateway import archived, filled_folders

from gateway.backups.kept_archives import KeptArchive
from gateway.base import exit_codes

ROOT = Path(__file__).resolve().parents[3]
ANSIBLE = ROOT / "deploy/ansible"
TASKS = ANSIBLE / "roles/gateway/tasks"


def names(play: str) -> list[str]:
    """The tasks of a playbook's only play, in their order, by the file or module of each."""
    (only,) = yaml.safe_load((ANSIBLE / play).read_text())
    found: list[str] = []

    def take(tasks: list[dict[str, Any]]) -> None:
        for task in tasks:
            take(task.get("block", []))
            for kind in ("import_role", "include_role"):
                if role := task.get(f"ansible.builtin.{kind}"):
                    found.append(role.get("tasks_from", "main.yml"))

    take(only["tasks"])
    return found


def test_what_the_old_card_has_is_revoked_when_the_new_one_serves() -> None:
    order = ["one.yml", "find_backup.yml", "main.yml", "restore.yml", "serves.yml", "revoke.yml"]
    assert names("replace.yml") == [*order, "replaced.yml"]


def test_a_certificate_that_is_revoked_already_is_known_by_an_exit_code_and_by_no_word() -> None:
    good = f"[{exit_codes.DONE}, {exit_codes.NO_CERTIFICATE}]"
    assert (
        f"failed_when: _replace_renewed.rc not in {good}\n" in (ANSIBLE / "replace.yml").read_text()
    )
    words = [
        f"{file.relative_to(ANSIBLE)}: {word}"
        for file in ANSIBLE.rglob("*.yml")
        for word in re.findall(r"'([^']*)' (?:not )?in \w+\.std(?:err|out)", file.read_text())
    ]
    # The other gateway may have an earlier release, which says it by CoAP's code alone.
    assert set(words) == {"roles/gateway/tasks/revoke.yml: 4.04"}


def test_what_new_hardware_is_held_to_is_no_question_to_one_that_goes_on() -> None:
    """`serves.yml` waits for a start, and what a gateway said before wins over its variable."""
    for play in ANSIBLE.glob("*.yml"):
        text = play.read_text()
        assert "ask.yml" not in text or "serves.yml" not in text, play.name


def test_the_pair_of_before_is_kept_whole_until_the_new_one_was_seen_to_work(
    tmp_path: Path,
) -> None:
    (task,) = yaml.safe_load((TASKS / "keep_certificates.yml").read_text())
    command = task["ansible.builtin.shell"]["cmd"].replace("{{ gateway_id }}", "gw")
    kept = tmp_path / "before/gw"

    def keep(said: str) -> None:
        for name in ("gw.pem", "gw.key.pem"):
            (tmp_path / name).write_text(said)
        subprocess.run(["sh", "-e", "-c", command.replace("&& sync", "")], cwd=tmp_path, check=True)

    (tmp_path / "before/gw.new").mkdir(parents=True)
    (tmp_path / "before/gw.new/gw.pem").write_text("half, of a run that was cut off")
    keep("first")
    keep("second")
    assert {path.name: path.read_text() for path in kept.iterdir()} == {
        "gw.pem": "first",
        "gw.key.pem": "first",
    }
    assert kept.stat().st_mode & 0o077 == 0
    (tmp_path / "gw.key.pem").unlink()
    subprocess.run(["sh", "-e", "-c", command], cwd=tmp_path, check=True)


@pytest.mark.slow
@pytest.mark.peer("age", "age")
def test_the_newest_usable_backup_is_found_or_nothing_is_begun(tmp_path: Path) -> None:
    place, key = tmp_path / "place", tmp_path / "key"
    place.mkdir()
    folders = filled_folders(_made(tmp_path / "pi"))
    subprocess.run(["age-keygen", "--output", str(key)], check=True, capture_output=True)
    recipient = subprocess.check_output(["age-keygen", "-y", str(key)], text=True).strip()
    archive = archived(tmp_path, folders / "gw", folders / "state")
    encrypted = subprocess.check_output(["age", "--recipient", recipient, str(archive)])
    for number, content in ((1, encrypted), (2, encrypted[:-1] + bytes([encrypted[-1] ^ 1]))):
        kept = KeptArchive(number, "20261128T013000Z", "gw", len(content))
        (place / kept.name).write_bytes(content)
    bed = FindingBed(tmp_path, place)
    assert "hedgerow_backup_key=FILE" in bed.play().stdout
    done = bed.play(hedgerow_backup_key=str(key))
    assert done.returncode == 0, done.stdout
    assert "gw.000001.20261128T013000Z" in done.stdout
    assert bed.found.read_bytes() == archive.read_bytes()
    assert bed.replacing.exists()
    (place / next(iter(sorted(one.name for one in place.iterdir())))).unlink()
    bed.replacing.unlink()
    done = bed.play(hedgerow_backup_key=str(key))
    assert done.returncode != 0
    assert "nothing was changed" in done.stdout and "hedgerow_without_backup" in done.stdout
    assert not bed.replacing.exists()
    assert bed.play(hedgerow_without_backup=True).returncode == 0
    (tmp_path / "given").mkdir()
    (tmp_path / "given/gw.tar.gz").write_bytes(b"given")
    done = bed.play(hedgerow_backups=str(tmp_path / "given"))
    assert done.returncode == 0, done.stdout
    assert bed.found.read_bytes() == b"given"
    bed.replacing.unlink()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/boot_epoch").write_text("7")
    bed.found.unlink()
    done = bed.play(hedgerow_backups=str(tmp_path / "given"))
    assert done.returncode == 0 and "it keeps its state" in done.stdout
    assert not bed.found.exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


class FindingBed:
    """Plays what finds a backup, on this machine, and copies what was found."""

    def __init__(self, folder: Path, place: Path) -> None:
        self._folder = folder
        self.found, self.replacing = folder / "found", folder / "replacing"
        tasks = [
            {"ansible.builtin.include_role": {"name": "gateway", "tasks_from": "find_backup.yml"}},
            {
                "ansible.builtin.copy": {
                    "src": "{{ gateway_found_backup }}",
                    "dest": str(self.found),
                },
                "when": "gateway_found_backup | length > 0",
            },
        ]
        left = {"name": "gateway", "tasks_from": "backup_place_left.yml"}
        block = {"block": tasks, "always": [{"ansible.builtin.include_role": left}]}
        play = [{"hosts": "all", "gather_facts": False, "tasks": [block]}]
        (folder / "play.yml").write_text(yaml.safe_dump(play))
        self._given = {
            "ansible_python_interpreter": sys.executable,
            "gateway_id": "gw",
            "gateway_backup_to": str(place),
            "gateway_state_dir": str(folder / "state"),
            "gateway_source_dir": str(ROOT),
            "gateway_controller_python": sys.executable,
            "_gateway_replacing": str(self.replacing),
        }

    def play(self, **more: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ansible", "playbook", "--connection", "local"]
        command += ["--inventory", "localhost,", str(self._folder / "play.yml")]
        environment = {
            **os.environ,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_HOME": str(self._folder / "home"),
            "ANSIBLE_ROLES_PATH": str(ANSIBLE / "roles"),
            "TMPDIR": str(self._folder),
        }
        return subprocess.run(
            [*command, "--extra-vars", json.dumps(self._given | more)],
            env=environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
