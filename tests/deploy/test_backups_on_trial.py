"""The newest backup of a Pi is tried by trial.yml, and each week by the timer of trial_timer.yml.

The timer needs the systemd of a controller's user, so the Pi is its own controller there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import package_proxy
import pytest
from bed import Pi
from commands import run, until
from empty_bed import empty_bed
from fleet import DeployedFleet

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.timeout(3600),
    pytest.mark.peer("age-keygen", "age"),
]

NAME = "gw-kept"
PLACE = "/srv/backups"
SOURCE, KEY = "/srv/hedgerow", "/root/backup.key"
UNITS = "root/.config/systemd/user"
RUNTIME_FOLDER = (
    "mkdir -p /run/systemd/system/user@0.service.d && printf '[Service]\\nEnvironment="
    "XDG_RUNTIME_DIR=/run/user/0\\n' >/run/systemd/system/user@0.service.d/runtime.conf"
)
AS_ITS_USER = ("env", "XDG_RUNTIME_DIR=/run/user/0", "LC_ALL=C.UTF-8")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedFleet]:
    """A gateway that makes backups into a folder of its Pi."""
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        stack.enter_context(package_proxy.served(made))
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        pi = fleet.add(NAME, "", "", neighbours=())
        run("age-keygen", "-o", key(fleet))
        fleet.hosts[NAME] |= {
            "gateway_backup_to": PLACE,
            "gateway_backup_recipients": [run("age-keygen", "-y", key(fleet)).strip()],
        }
        package_proxy.tell(pi)
        pi.boot()
        # Backups have to be on another disk than the state.
        pi.run("mkdir", PLACE)
        pi.run("mount", "-t", "tmpfs", "-o", "mode=0700", "stick", PLACE)
        fleet.provision()
        yield fleet


def key(fleet: DeployedFleet) -> Path:
    return fleet.folder / "backup.key"


def place(pi: Pi) -> Path:
    """Return the folder of its backups as seen here: it is another mount than the Pi's root."""
    return Path(f"/proc/{pi.leader}/root{PLACE}")


def backed_up(pi: Pi) -> list[Path]:
    """The archives, once there is one more."""
    failed = pi.says("systemctl", "start", "hedgerow-gateway-backup.service")
    assert failed == "", pi.journal("hedgerow-gateway-backup")
    return sorted(place(pi).glob("*.age"))


def word(pi: Pi) -> dict[str, Any]:
    """Return what the last trial has noted beside the backups."""
    left: dict[str, Any] = json.loads((place(pi) / f"{NAME}.trial.json").read_text())
    return left


def told(fleet: DeployedFleet) -> object:
    """Return the state of its backups, as the gateway itself tells it."""
    return fleet.status(NAME).get("backup", {}).get("state")


def test_the_newest_backup_is_tried_and_its_gateway_tells_what_came_of_it(
    fleet: DeployedFleet,
) -> None:
    pi = fleet.bed.pis[NAME]
    (archive,) = backed_up(pi)
    fleet.play("trial.yml", hedgerow_backup_key=str(key(fleet))).worked()
    assert word(pi)["backup"] == archive.name
    assert word(pi)["is_well"]
    backed_up(pi)
    until("it tells that", lambda: told(fleet) == "good")


def test_a_backup_that_is_damaged_fails_its_trial_and_its_gateway_tells_that(
    fleet: DeployedFleet,
) -> None:
    pi = fleet.bed.pis[NAME]
    newest = backed_up(pi)[-1]
    content = newest.read_bytes()
    newest.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    tried = fleet.play("trial.yml", hedgerow_backup_key=str(key(fleet)))
    assert tried.returncode != 0
    assert newest.name in "\n".join(tried.failures())
    assert word(pi)["backup"] == newest.name
    assert not word(pi)["is_well"] and word(pi)["why"]
    backed_up(pi)
    until("it tells that", lambda: told(fleet) == "trial failed")


def test_a_controllers_timer_tries_it_each_week(fleet: DeployedFleet) -> None:
    pi = fleet.bed.pis[NAME]
    newest = backed_up(pi)[-1]
    pi.run("apt-get", "install", "-y", "-q", "--no-install-recommends", "ansible-core")
    shutil.copytree(fleet.source, pi.root / SOURCE.removeprefix("/"))
    shutil.copy(key(fleet), pi.root / KEY.removeprefix("/"))
    here = fleet.hosts[NAME] | {
        "ansible_connection": "local",
        "gateway_source_dir": SOURCE,
        "gateway_controller_python": "/opt/hedgerow/venv/bin/python",
    }
    inventory = {"gateways": {"hosts": {NAME: here}}}
    (pi.root / "root/inventory.json").write_text(json.dumps(inventory))
    # As a log-in does where libpam-systemd is installed.
    pi.run("sh", "-c", RUNTIME_FOLDER)
    pi.run("systemctl", "daemon-reload")
    pi.run("systemctl", "start", "user@0.service")
    play = ("ansible-playbook", "-i", "/root/inventory.json", "trial_timer.yml")
    for is_first in (True, False):
        said = pi.run(
            *("env", "--chdir", f"{SOURCE}/deploy/ansible", *AS_ITS_USER[1:], *play),
            *("-e", f"hedgerow_backup_key={KEY}"),
        )
        assert ("changed=0" in said) is not is_first, said
    assert (pi.root / UNITS / "hedgerow-backup-trial.timer").exists()
    timers = pi.run(*AS_ITS_USER, "systemctl", "--user", "list-timers", "--all")
    assert "hedgerow-backup-trial.timer" in timers, timers
    ended = pi.says(*AS_ITS_USER, "systemctl", "--user", "start", "hedgerow-backup-trial.service")
    journal = pi.says("journalctl", "--no-pager", "--lines=60")
    assert ended == "", journal
    assert word(pi)["backup"] == newest.name, journal
    assert word(pi)["is_well"]
