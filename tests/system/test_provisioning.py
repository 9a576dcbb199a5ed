"""deploy/ansible against a real Debian: installed into a root file system, then booted.

The root file system is Debian 13, so its Python is usually another one than the controller's,
as it is between a developer's machine and a Pi.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fleet_keys
import pytest
from provisioning_bed import (
    IN_CHROOT,
    IN_CONTAINER,
    NORTH,
    PASSWORD_HASH,
    PSK,
    TREE_KEY,
    Container,
    Controller,
    Play,
    booted_system,
    new_controller,
    new_debian,
    run,
)

pytestmark = [
    pytest.mark.timeout(900),  # a playbook is the fixture of its first test
    pytest.mark.soak("minutes; roles and units are tested as texts in tests/unit/deploy"),
]

SERVED = {"gateway_keys_service": "127.0.0.1:8890", "gateway_tls_dir": ""}
TOKEN = "hedgerow-enrol://{}@127.0.0.1:8890/AAAA"
# What Ansible and the kernel write to in a root file system that stays as it is.
SCRATCH = {Path("root"), Path("tmp"), Path("proc")}


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    return new_controller(tmp_path_factory.mktemp("controller"))


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("debian") / "root"
    new_debian(root)
    yield root
    shutil.rmtree(root)


@dataclass(frozen=True)
class Provisioned:
    """A root file system that site.yml was applied to twice."""

    root: Path
    first: Play
    second: Play

    def owner_group_mode(self, path: str) -> tuple[str, str, str]:
        """As ``ls -l`` in the root file system shows them."""
        done = run("chroot", self.root, "stat", "--format=%U %G %a", path)
        owner, group, mode = done.stdout.split()
        return owner, group, mode


@pytest.fixture(scope="module")
def provisioned(
    controller: Controller, debian: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Provisioned]:
    root = tmp_path_factory.mktemp("provisioned") / "root"
    run("cp", "--archive", "--reflink=auto", debian, root)
    ssh = IN_CHROOT.format(root=root)
    first = controller.play(ssh, {"north": NORTH}, "--diff", "-vvv")
    assert first.returncode == 0, first.output[-5000:]
    yield Provisioned(root, first, controller.play(ssh, {"north": NORTH}, "--diff"))
    shutil.rmtree(root)


@pytest.fixture
def booted(provisioned: Provisioned, tmp_path: Path) -> Iterator[Container]:
    with booted_system(provisioned.root, tmp_path) as container:
        yield container


def snapshot(root: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, size and time of change of all but Ansible's scratch folders."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name for name in folders if Path(folder, name).relative_to(root) not in SCRATCH
        ]
        for name in (*folders, *files):
            path = Path(folder, name)
            at = path.lstat()
            size = at.st_size if stat.S_ISREG(at.st_mode) else 0
            found[str(path.relative_to(root))] = (at.st_mode, size, at.st_mtime_ns)
    return found


@pytest.mark.deploy
@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_a_wrong_inventory_fails_by_name_and_changes_nothing(
    controller: Controller, debian: Path
) -> None:
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "bad-domain": ({"gateway_domain": "Campus North"}, 'gateway_domain "Campus North"'),
        "no-domain": ({"gateway_domain": ""}, 'gateway_domain ""'),
        "no-tree-key": ({"gateway_tree_key": None}, "gateway_tree_key"),
        "short-tree-key": ({"gateway_tree_key": "00ff"}, "gateway_tree_key is not at least 16"),
        "old-name": ({"gateway_hello_s": 0.25}, "gateway_hello_s: no such variable"),
        "misspelled": ({"gateway_tree_modes": "flood"}, "gateway_tree_modes: no such variable"),
        "no-choice": ({"gateway_tree_mode": "all"}, "value of gateway_tree_mode must be one of"),
        "no-number": ({"gateway_limits_sessions": "many"}, "gateway_limits_sessions"),
        "too-slow": ({"gateway_tree_hello_s": 99}, "gateway_tree_hello_s is 99: not 0.01 to 60"),
        "too-many": ({"gateway_limits_sessions": 0}, "gateway_limits_sessions is 0: not 1"),
        "bad-psk": ({"gateway_psks": {"sensor-17": f"{PSK}x"}}, "gateway_psks needs"),
        "plain-password": ({"gateway_passwords": {"sensors": PSK}}, "gateway_passwords needs"),
        "no-certificates": ({"gateway_tls_dir": ""}, "links need a folder with ca.pem"),
        "bad-service": ({"gateway_keys_service": "10.0.0.9"}, 'gateway_keys_service is "10.0.0.9"'),
        "bad-interval": ({"gateway_keys_interval_s": 0}, "gateway_keys_interval_s"),
        "no-service": ({"gateway_keys_token": TOKEN.format("no-service")}, "needs a service"),
        "other-token": (
            {**SERVED, "gateway_keys_token": TOKEN.format("gw-x")},
            "gateway_keys_token is for this gateway_id",
        ),
        "no-token": (SERVED, "gateway_keys_service with a gateway_keys_token"),
        "bad-port": ({"gateway_mqtt_port": 70000}, "gateway_mqtt_port is 70000: neither a port"),
        "bits-32": ({"gateway_python": "/usr/local/bin/python-armv7l-3.13-32"}, "armv7l"),
        "kernel-64": ({"gateway_python": "/usr/local/bin/python-aarch64-3.13-32"}, "32-bit Python"),
        "twin-1": ({"gateway_id": "twin"}, 'gateway_id "twin" is used by more than one'),
        "twin-2": ({"gateway_id": "twin"}, 'gateway_id "twin" is used by more than one'),
    }
    hosts = {
        host: {k: v for k, v in {**NORTH, "gateway_id": host, **change}.items() if v is not None}
        for host, (change, _) in wrong.items()
    }
    before = snapshot(debian), snapshot(controller.wheelhouse)
    play = controller.play(IN_CHROOT.format(root=debian), hosts)
    assert play.returncode != 0
    for host, (_, message) in wrong.items():
        assert message in play.failure(host), host
        assert play.recap(host)["changed"] == 0
    assert not {secret for secret in (PSK, TREE_KEY, "8890/AAAA") if secret in play.output}
    assert (snapshot(debian), snapshot(controller.wheelhouse)) == before


@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_a_second_run_changes_nothing(provisioned: Provisioned) -> None:
    assert provisioned.first.recap("north")["changed"] > 0
    assert provisioned.second.returncode == 0, provisioned.second.output[-5000:]
    assert provisioned.second.recap("north")["changed"] == 0


@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_no_key_is_shown_however_much_is_printed(provisioned: Provisioned) -> None:
    for secret in (TREE_KEY, PSK, PASSWORD_HASH):
        assert secret not in provisioned.first.output + provisioned.second.output


@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_the_installed_command_runs_on_the_target(provisioned: Provisioned) -> None:
    done = run("chroot", provisioned.root, "/opt/hedgerow/venv/bin/hedgerow", "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: hedgerow" in done.stdout


@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_files_have_their_owners_and_modes_and_the_service_is_enabled(
    provisioned: Provisioned,
) -> None:
    assert provisioned.owner_group_mode("/etc/hedgerow") == ("root", "hedgerow", "750")
    config = "/etc/hedgerow/hedgerow.toml"
    assert provisioned.owner_group_mode(config) == ("root", "hedgerow", "640")
    for name in ("psk", "tree.key"):
        assert provisioned.owner_group_mode(f"/etc/hedgerow/{name}") == ("root", "root", "600")
    users = provisioned.owner_group_mode("/etc/hedgerow/passwords")
    assert users == ("root", "hedgerow", "640")
    for name in ("gateway.key.pem", "gateway.pem", "ca.pem", "revoked.pem"):
        mode = provisioned.owner_group_mode(f"/etc/hedgerow/tls/{name}")
        assert mode == ("hedgerow", "hedgerow", "600")
    assert not (provisioned.root / "etc/hedgerow/tls/ca.key.pem").exists()
    unit = "/etc/systemd/system/hedgerow.service"
    assert provisioned.owner_group_mode(unit) == ("root", "root", "644")
    folder = provisioned.root / "etc/systemd/system/multi-user.target.wants"
    assert str((folder / "hedgerow.service").readlink()) == unit
    done = run("chroot", provisioned.root, "systemd-analyze", "verify", unit)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.peer("mmdebstrap", "mmdebstrap")
@pytest.mark.parametrize("device", ["", "/dev/gpiochip0"])
def test_the_unit_is_exposed_less_than_2_of_10(provisioned: Provisioned, device: str) -> None:
    text = (provisioned.root / "etc/systemd/system/hedgerow.service").read_text()
    if device:
        opened = f"PrivateDevices=no\nDeviceAllow={device} rw"
        text = text.replace("PrivateDevices=yes", opened)
    (provisioned.root / "tmp/hedgerow.service").write_text(text)
    analyze = ("systemd-analyze", "security", "--offline=true", "--threshold=19")
    done = run("chroot", provisioned.root, *analyze, "/tmp/hedgerow.service")
    assert done.returncode == 0, done.stdout
    assert "exposure level" in done.stdout + done.stderr


@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_the_installed_gateway_accepts_the_configuration(provisioned: Provisioned) -> None:
    program = (
        "import pathlib; from gateway.process.configuration.config import GatewaySettings, load; "
        "s = load(pathlib.Path('/etc/hedgerow/hedgerow.toml'), GatewaySettings); "
        "from gateway.process.access import files; tls = files.read(s).links is not None; "
        "print(s.gateway.id, s.gateway.place.domain, s.tree.key().hex(), s.sensors[0]['type'], tls)"
    )
    done = run("chroot", provisioned.root, "/opt/hedgerow/venv/bin/python", "-c", program)
    assert done.stdout.split() == ["gw-north", "campus", TREE_KEY, "host", "True"], done.stderr


@pytest.mark.deploy
@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_what_a_power_cut_emptied_behind_a_mark_is_found_and_made_whole_by_the_next_run(
    controller: Controller, provisioned: Provisioned
) -> None:
    release = (provisioned.root / "opt/hedgerow/venv").readlink().relative_to("/")
    command = provisioned.root / release / "bin/hedgerow"
    unit = provisioned.root / "etc/systemd/system/hedgerow.service"
    for path in (command, unit):
        path.write_bytes(b"")
    ssh = IN_CHROOT.format(root=provisioned.root)
    play = controller.play(ssh, {"north": NORTH})
    assert play.returncode == 0, play.output[-5000:]
    assert (
        "hedgerow "
        in run("chroot", provisioned.root, "/opt/hedgerow/venv/bin/hedgerow", "--version").stdout
    )
    assert "ExecStart" in unit.read_text()
    again = controller.play(ssh, {"north": NORTH})
    assert again.recap("north")["changed"] == 0, again.output[-5000:]


@pytest.fixture
def enrolment(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """An authority's folder, and where its enrolment service listens."""
    authority = tmp_path / "authority"
    fleet_keys.keys("init-ca", "--ca", authority)
    command = (*fleet_keys.HEDGEROW, "keys", "serve", "--ca", str(authority))
    with subprocess.Popen(
        (*command, "--listen", "127.0.0.1:0"), stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        yield authority, service.stdout.readline().split()[-1]
        service.terminate()


@pytest.mark.deploy
@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_a_gateway_is_enrolled_with_its_token_and_keeps_what_it_has(
    controller: Controller,
    provisioned: Provisioned,
    enrolment: tuple[Path, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    authority, service = enrolment
    fleet_keys.keys("token", "--ca", authority, "gw-north", "--service", service)
    token = capsys.readouterr().out.splitlines()[0]
    root = tmp_path / "root"
    run("cp", "--archive", "--reflink=auto", provisioned.root, root)
    shutil.rmtree(root / "etc/hedgerow")  # as it is before the first configuration
    served = {**NORTH, "gateway_keys_service": service, "gateway_tls_dir": ""}
    ssh, tag = IN_CHROOT.format(root=root), ("--tags", "configure")

    first = {**served, "gateway_keys_token": token, "gateway_keys_interval_s": 60}
    play = controller.play(ssh, {"north": first}, *tag, "--diff", "-vvv")
    assert play.returncode == 0, play.output[-5000:]
    assert token not in play.output
    config = (root / "etc/hedgerow/hedgerow.toml").read_text()
    assert f'[keys]\nservice = "{service}"\ninterval_s = 60.0\n' in config
    unit = (root / "etc/systemd/system/hedgerow.service").read_text()
    assert "\nReadWritePaths=/etc/hedgerow/tls\n" in unit
    renewing = Provisioned(root, play, play)
    assert renewing.owner_group_mode("/etc/hedgerow/tls") == ("root", "hedgerow", "770")
    key = renewing.owner_group_mode("/etc/hedgerow/tls/gateway.key.pem")
    assert key == ("hedgerow", "hedgerow", "600")
    own = root / "etc/hedgerow/tls/gateway.pem"
    enrolled = own.read_bytes()

    again = controller.play(ssh, {"north": {**served, "gateway_keys_interval_s": 60}}, *tag)
    assert again.returncode == 0, again.output[-5000:]
    assert again.recap("north")["changed"] == 0
    assert own.read_bytes() == enrolled


@pytest.mark.deploy
@pytest.mark.peer("mmdebstrap", "mmdebstrap")
def test_the_controller_has_wheels_for_a_pi(controller: Controller, debian: Path) -> None:
    pi = {**NORTH, "gateway_python": "/usr/local/bin/python-aarch64-3.13-64"}
    play = controller.play(IN_CHROOT.format(root=debian), {"pi": pi}, "--tags", "wheelhouse")
    assert play.returncode == 0, play.output[-5000:]
    (archive,) = controller.wheelhouse.glob("*-cp313-aarch64.tar")
    with tarfile.open(archive) as wheels:
        names = wheels.getnames()
    assert any(name.startswith("hedgerow-") for name in names)
    assert any(re.match(r"msgpack-.*-cp313-.*aarch64\.whl$", name) for name in names)
    assert all("aarch64" in name or name.endswith("-none-any.whl") for name in names)


@pytest.mark.peer("systemd-nspawn", "systemd-container")
@pytest.mark.peer("mmdebstrap", "mmdebstrap")
@pytest.mark.soak("boots a system; its unit is tested above")
def test_the_service_runs_confined_after_boot_and_restarts_for_a_new_release(
    controller: Controller, provisioned: Provisioned, booted: Container
) -> None:
    assert booted.state() == "active"
    # Systemd hands the keys to the service, whose user may not read them.
    no_key = booted.run("runuser", "--user", "hedgerow", "--", "cat", "/etc/hedgerow/psk")
    assert "Permission denied" in no_key
    bounds = booted.run("systemctl", "show", "--property=TasksMax,MemoryMax", "hedgerow")
    assert "TasksMax=256" in bounds
    assert "MemoryMax=infinity" not in bounds
    # Who is let in by no name may do nothing.
    command = "/opt/hedgerow/venv/bin/hedgerow"
    config = ("--config", "/etc/hedgerow/hedgerow.toml")
    read = ("user:sensors", "subscribe", "campus/#")
    assert "denied" in booted.run(command, "policy", "explain", *read, *config)
    get = (command, "get", "--psk-file", "/etc/hedgerow/psk")
    assert '"host/load1"' in booted.run(*get, "coaps://127.0.0.1/sensors/host/load1")
    link = provisioned.root / "opt/hedgerow/venv"
    old, old_pid = link.readlink(), booted.main_pid()
    with (controller.source / "gateway/__init__.py").open("a") as module:
        module.write("# a new release\n")

    play = controller.play(
        IN_CONTAINER.format(leader=booted.leader),
        {"north": {**NORTH, "gateway_tree_hello_s": 0.25}},
    )

    assert play.returncode == 0, play.output[-5000:]
    assert booted.state() == "active"
    assert booted.main_pid() != old_pid
    assert link.readlink() != old
    assert {path.name for path in (provisioned.root / "opt/hedgerow/releases").iterdir()} == {
        old.name,
        link.readlink().name,
    }
    assert "hello_s = 0.25" in (provisioned.root / "etc/hedgerow/hedgerow.toml").read_text()


@pytest.mark.peer("systemd-nspawn", "systemd-container")
@pytest.mark.peer("mmdebstrap", "mmdebstrap")
@pytest.mark.soak("boots a system; what unpacks a backup is tested in tests/unit/deploy")
def test_only_a_whole_backup_of_its_own_takes_the_place_of_what_a_gateway_has(
    controller: Controller, booted: Container, tmp_path: Path
) -> None:
    ssh = IN_CONTAINER.format(leader=booted.leader)
    backups = tmp_path / "backups"

    def play(playbook: str, **more: Any) -> Play:
        said = json.dumps({"hedgerow_backups": str(backups), **more})
        hosts = {"north": NORTH}
        return controller.play(
            ssh, hosts, "--limit", "north", "--extra-vars", said, playbook=playbook
        )

    assert booted.state() == "active"
    pid = booted.main_pid()
    missing = play("restore.yml")
    assert "is not there: name the folder of backup.yml" in missing.failure("north")
    made = play("backup.yml")
    assert made.returncode == 0, made.output[-5000:]
    archive = backups / "gw-north.tar.gz"
    whole, pid = archive.read_bytes(), booted.main_pid()

    archive.write_bytes(whole[: len(whole) * 9 // 10])
    assert "is cut off or damaged" in play("restore.yml").output
    with tarfile.open(archive, "w:gz") as tar:
        for path, text in (
            ("etc/hedgerow/hedgerow.toml", b'[gateway]\nid = "gw-other"\n'),
            ("var/lib/hedgerow/boot_epoch", b"1"),
        ):
            member = tarfile.TarInfo(path)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    assert "is a backup of 'gw-other'" in play("restore.yml").output
    assert booted.main_pid() == pid, "it went on all the while"

    archive.write_bytes(whole)
    booted.run("touch", "/var/lib/hedgerow/newer-than-the-backup")
    good = play("restore.yml")
    assert good.returncode == 0, good.output[-5000:]
    assert booted.state() == "active"
    left = booted.run("ls", "-A", "/var/lib", "/var/lib/hedgerow", "/etc", "/root")
    assert "newer-than" not in left
    assert "restore" not in left

    # With this one it does not come up.
    broken = tmp_path / "broken"
    with tarfile.open(archive) as tar:
        # Not an argument: Python 3.11.2, which Debian 12 has, knows none (PEP 706).
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        tar.extractall(broken)
    with (broken / "etc/hedgerow/hedgerow.toml").open("a") as config:
        config.write("[nonsense]\nx = 1\n")
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("etc/hedgerow", "var/lib/hedgerow"):
            tar.add(broken / name, name)
    booted.run("touch", "/var/lib/hedgerow/newer-than-the-backup")
    back = play("restore.yml", gateway_healthy_s=30)
    assert "What it had before is back" in back.output
    assert booted.state() == "active"
    assert booted.run("ls", "/var/lib/hedgerow/newer-than-the-backup").startswith("/var")
