"""The roles beside the gateway's, on a Debian that is installed and booted (with `-m deploy`)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from provisioning_bed import (
    IN_CHROOT,
    IN_CONTAINER,
    NORTH,
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
    pytest.mark.timeout(1800),
    pytest.mark.deploy,
    pytest.mark.peer("mmdebstrap", "mmdebstrap"),
    pytest.mark.peer("systemd-nspawn", "systemd-container"),
]

PACKAGES = ("systemd-sysv", "nftables", "chrony", "openssh-server", "sudo", "kmod", "age")
NOT_THE_GATEWAY = ("--skip-tags", "gateway")
MACHINE: dict[str, Any] = {
    **NORTH,
    "site_roles": ["base", "time", "sd_card", "watchdog", "sensors", "firewall"],
    "base_hostname": "gw-north",
    "base_users": [{"name": "anna", "keys": ["ssh-ed25519 AAAA anna"], "sudo": True}],
    "sensors_buses": ["gpio", "i2c", "onewire"],
    "sd_card_commit_s": 30,
    "firewall_networks": ["10.0.0.0/24", "fd00::/8"],
    "firewall_confirm_s": 60,
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no-role": ({"site_roles": ["basis"]}, "site_roles"),
    "bad-host": ({"base_hostname": "gw north"}, 'base_hostname "gw north"'),
    "no-keys": (
        {"base_users": [{"name": "anna", "keys": []}]},
        "or one of them has no list of keys",
    ),
    "no-servers": ({"time_servers": []}, "time_servers"),
    "bad-commit": ({"sd_card_commit_s": 1}, "sd_card_commit_s (5 to 600)"),
    "bad-journal": ({"sd_card_journal": "paper"}, "value of sd_card_journal must be one of"),
    "too-long": ({"watchdog_runtime_s": 60}, "watchdog_runtime_s 60 (5 to 15)"),
    "bad-bus": ({"sensors_buses": ["usb"]}, "value of sensors_buses must be one or more of"),
    "bad-network": ({"firewall_networks": ["lan"]}, "firewall_networks"),
    "no-confirming": ({"firewall_confirm_s": 0}, "firewall_confirm_s (5 to 3600)"),
}
"""Variables that are refused, and the words that name them."""


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    return new_controller(tmp_path_factory.mktemp("controller"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("machine") / "root"
    new_debian(root, *PACKAGES)
    (root / "boot/firmware").mkdir(parents=True)
    (root / "boot/firmware/config.txt").write_text("arm_64bit=1\n")
    (root / "etc/fstab").write_text("/dev/mmcblk0p2 / ext4 defaults,commit=5 0 1\n")
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def plays(controller: Controller, root: Path) -> dict[str, Play]:
    """The machine is provisioned: refused without a key, then dry, for real, and again."""
    ssh = IN_CHROOT.format(root=root)
    made = {"refused": controller.play(ssh, {"north": MACHINE}, *NOT_THE_GATEWAY)}
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)  # systemd-tmpfiles may have made it
    (root / "root/.ssh/authorized_keys").write_text("ssh-ed25519 AAAA operator\n")
    made["dry"] = controller.play(ssh, {"north": MACHINE}, *NOT_THE_GATEWAY, "--check", "--diff")
    made["first"] = controller.play(ssh, {"north": MACHINE})
    made["second"] = controller.play(ssh, {"north": MACHINE})
    return made


@pytest.fixture(scope="module")
def booted(
    plays: dict[str, Play], root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    assert plays["first"].returncode == 0, plays["first"].output[-5000:]
    with booted_system(root, tmp_path_factory.mktemp("console")) as container:
        yield container


def test_who_has_no_key_is_not_locked_out(plays: dict[str, Play]) -> None:
    assert "base_ssh_keys_only would lock this connection's user out" in plays["refused"].output


def test_a_dry_run_shows_what_would_change_and_changes_nothing(plays: dict[str, Play]) -> None:
    assert plays["dry"].returncode == 0, plays["dry"].output[-5000:]
    assert "+makestep 1 3" in plays["dry"].output


def test_a_second_run_changes_nothing(plays: dict[str, Play]) -> None:
    assert plays["second"].returncode == 0, plays["second"].output[-5000:]
    again = plays["second"]
    assert again.recap("north")["changed"] == 0, again.output[-20_000:]


def test_files_are_as_the_variables_say(plays: dict[str, Play], root: Path) -> None:
    assert plays["first"].returncode == 0, plays["first"].output[-5000:]
    assert (root / "etc/hostname").read_text() == "gw-north\n"
    fstab = (root / "etc/fstab").read_text()
    assert "/dev/mmcblk0p2 / ext4 defaults,commit=30,noatime 0 1\n" in fstab
    assert "tmpfs /tmp tmpfs nosuid,nodev,mode=1777,size=20% 0 0\n" in fstab
    config = (root / "boot/firmware/config.txt").read_text()
    assert config.startswith("arm_64bit=1\n")
    assert "dtparam=i2c_arm=on\n" in config
    assert "dtoverlay=w1-gpio\n" in config
    assert (root / "etc/modules-load.d/hedgerow-sensors.conf").read_text() == (
        "i2c-dev\nw1-gpio\nw1-therm\n"
    )
    assert (root / "home/anna/.ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA anna\n"
    assert (root / "etc/sudoers.d/hedgerow").read_text() == "anna ALL=(ALL) NOPASSWD: ALL\n"


def test_what_the_roles_made_and_no_longer_want_is_taken_away_and_nothing_else(
    controller: Controller, plays: dict[str, Play], root: Path, tmp_path: Path
) -> None:
    assert plays["first"].returncode == 0, plays["first"].output[-5000:]
    copy = tmp_path / "root"
    run("cp", "--archive", "--reflink=auto", root, copy)
    ssh = IN_CHROOT.format(root=copy)
    run("chroot", copy, "useradd", "--create-home", "bernd")  # by somebody else
    with (copy / "etc/fstab").open("a") as fstab:
        fstab.write("/dev/sdb1 /srv/own ext4 defaults 0 2\n")
    more = {
        **MACHINE,
        "base_users": [*MACHINE["base_users"], {"name": "bernd", "keys": ["ssh-ed25519 AAAA b"]}],
        "sd_card_mounts": [{"source": "LABEL=data", "path": "/srv/data"}],
    }
    for given in (more, more):
        made = controller.play(ssh, {"north": given}, *NOT_THE_GATEWAY)
        assert made.returncode == 0, made.output[-5000:]
    assert "LABEL=data /srv/data" in (copy / "etc/fstab").read_text()

    fewer = {**MACHINE, "site_roles": ["base", "time", "sd_card", "firewall"], "base_users": []}
    dry = controller.play(ssh, {"north": fewer}, *NOT_THE_GATEWAY, "--check", "--diff")
    assert dry.recap("north")["changed"] >= 4, dry.output[-5000:]
    assert (copy / "etc/sudoers.d/hedgerow").exists()
    gone = controller.play(ssh, {"north": fewer}, *NOT_THE_GATEWAY)
    assert gone.returncode == 0, gone.output[-5000:]
    accounts = (copy / "etc/passwd").read_text()
    assert "anna:" not in accounts
    assert "bernd:" in accounts, "the role did not make it"
    assert not (copy / "home/bernd/.ssh/authorized_keys").exists()
    assert (copy / "home/anna").is_dir(), "what somebody has written is not the role's"
    for path in (
        *("etc/sudoers.d/hedgerow", "etc/udev/rules.d/60-hedgerow-sensors.rules"),
        *("etc/modules-load.d/hedgerow-sensors.conf", "etc/sysctl.d/60-hedgerow-watchdog.conf"),
        *("var/lib/hedgerow-roles/sensors.json", "var/lib/hedgerow-roles/watchdog.json"),
    ):
        assert not (copy / path).exists(), path
    table = (copy / "etc/fstab").read_text()
    assert "/srv/data" not in table
    assert "/srv/own" in table
    assert "hedgerow sensors" not in (copy / "boot/firmware/config.txt").read_text()
    assert controller.play(ssh, {"north": fewer}, *NOT_THE_GATEWAY).recap("north")["changed"] == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_by_name(
    controller: Controller, plays: dict[str, Play], root: Path, name: str
) -> None:
    change, told = WRONG[name]
    ssh = IN_CHROOT.format(root=root)
    play = controller.play(ssh, {"north": {**MACHINE, **change}}, *NOT_THE_GATEWAY)
    assert play.returncode != 0
    assert told in play.failure("north")
    assert play.recap("north")["changed"] == 0


def test_the_machine_boots_with_them(booted: Container) -> None:
    assert booted.state() == "active"
    # A container has no clock to set, and chrony says so and ends: what it was told holds.
    assert "rtcsync" in booted.run("chronyd", "-p", "-f", "/etc/chrony/chrony.conf")
    assert booted.run("systemctl", "is-enabled", "systemd-timesyncd") == "masked"
    rules = booted.run("nft", "list", "table", "inet", "hedgerow")
    assert "policy drop" in rules
    assert "ip saddr 10.0.0.0/24 tcp dport 8883 accept" in rules
    assert "udp dport { 5683, 5684, 17883 } accept" in rules
    assert "Storage=volatile" in booted.run("cat", "/etc/systemd/journald.conf.d/hedgerow.conf")
    seconds = booted.run("systemctl", "show", "--property=RuntimeWatchdogUSec")
    assert seconds == "RuntimeWatchdogUSec=15s"


def test_rules_that_lock_ansible_out_are_taken_back_by_the_machine(
    controller: Controller, booted: Container
) -> None:
    # As a network would: nobody gets in while the rules have no port 22.
    ssh = f"""#!/bin/sh
for command do :; done
nsenter --target {booted.leader} --all nft list table inet hedgerow \\
    | grep -qE 'dport (22|[{{] 22,)' || exit 255
exec nsenter --target {booted.leader} --all /bin/sh -c "$command"
"""
    only, rules = ("--tags", "firewall"), ("nft", "list", "table", "inet", "hedgerow")
    play = controller.play(ssh, {"north": {**MACHINE, "firewall_ssh_ports": [8022]}}, *only)
    assert play.returncode != 0
    deadline = time.monotonic() + 120
    while "dport 8022" in booted.run(*rules):
        assert time.monotonic() < deadline, play.output[-3000:]
        time.sleep(0.5)
    assert "dport 22 " in booted.run(*rules)
    assert "8022" not in booted.run("cat", "/etc/nftables.conf")

    both = {"north": {**MACHINE, "firewall_ssh_ports": [22, 8022]}}
    play = controller.play(ssh, both, *only)
    assert play.returncode == 0, play.output[-5000:]
    assert "8022" in booted.run(*rules)
    assert "8022" in booted.run("cat", "/etc/nftables.conf")
    assert "hedgerow-firewall-back" not in booted.run("systemctl", "list-timers", "--all")


def test_a_timer_backs_the_gateway_up_while_it_serves_and_its_key_opens_that(
    controller: Controller, booted: Container, root: Path, tmp_path: Path
) -> None:
    key = tmp_path / "age.key"
    run("age-keygen", "-o", key)
    booted.run("mkdir", "-p", "/srv/stick")
    booted.run("mount", "-t", "tmpfs", "-o", "mode=0700", "stick", "/srv/stick")
    given = {
        **NORTH,
        "gateway_backup_to": "/srv/stick",
        "gateway_backup_recipients": [run("age-keygen", "-y", key).stdout.strip()],
    }
    ssh = IN_CONTAINER.format(leader=booted.leader)
    for changes in (True, False):
        play = controller.play(ssh, {"north": given}, "--tags", "backups")
        assert play.returncode == 0, play.output[-5000:]
        assert bool(play.recap("north")["changed"]) is changes, play.output[-5000:]
    timers = booted.run("systemctl", "list-timers", "--all")
    assert "hedgerow-gateway-backup.timer" in timers, play.output[-9000:]
    serving = booted.main_pid()

    why = booted.run("systemctl", "start", "hedgerow-gateway-backup.service")
    journal = booted.run("journalctl", "--unit=hedgerow-gateway-backup", "--no-pager")

    assert why == "", journal
    (name,) = booted.run("find", "/srv/stick", "-name", "*.age").split()
    kept = Path(f"/proc/{booted.leader}/root{name}")
    names = run("sh", "-c", f"age --decrypt --identity {key} {kept} | tar -tz").stdout
    assert "etc/hedgerow/hedgerow.toml" in names
    assert "var/lib/hedgerow/log/" in names
    assert booted.main_pid() == serving
    assert booted.state() == "active"

    play = controller.play(ssh, {"north": NORTH}, "--tags", "backups")
    assert play.returncode == 0, play.output[-5000:]
    assert "hedgerow-gateway-backup" not in booted.run("systemctl", "list-timers", "--all")
    assert not (root / "etc/hedgerow-backup").exists()
    assert booted.run("find", "/srv/stick", "-name", "*.age") == name


def test_keys_are_encrypted_with_the_machines_own(
    controller: Controller, booted: Container, root: Path
) -> None:
    ssh = IN_CONTAINER.format(leader=booted.leader)
    given = {"north": {**NORTH, "gateway_encrypt_credentials": True}}
    for changes in (True, False):
        play = controller.play(ssh, given, "--tags", "configure,run")
        assert play.returncode == 0, play.output[-5000:]
        assert bool(play.recap("north")["changed"]) is changes
        assert TREE_KEY not in play.output + (root / "etc/hedgerow/tree.key").read_text()
        assert PSK not in (root / "etc/hedgerow/psk").read_text()
        assert booted.state() == "active"


def test_the_cloud_side_is_configured_and_its_units_hold(
    controller: Controller, plays: dict[str, Play], root: Path
) -> None:
    settings = {
        "cloud_tree_key": TREE_KEY,
        "cloud_neighbours": ["10.0.0.2:8883"],
        "cloud_secrets": {"AWS_SECRET_ACCESS_KEY": PSK},
        "cloud_backup_dir": "/srv/backup",
        "cloud_ingest": False,
    }
    ssh, hosts = IN_CHROOT.format(root=root), {"collector": settings}
    run("chroot", root, "useradd", "--system", "hedgerow-cloud")
    arguments = ("--tags", "configure")
    first = controller.play(ssh, hosts, *arguments, playbook="cloud.yml", group="cloud")
    assert first.returncode == 0, first.output[-5000:]
    second = controller.play(ssh, hosts, *arguments, playbook="cloud.yml", group="cloud")
    assert second.recap("collector")["changed"] == 0
    assert PSK not in first.output
    unit = "/etc/systemd/system/hedgerow-collector.service"
    analyze = ("systemd-analyze", "security", "--offline=true", "--threshold=19", unit)
    assert run("chroot", root, *analyze).returncode == 0
    done = run("chroot", root, "/bin/sh", "-c", _backup(root))
    assert done.returncode == 0, done.stderr
    (backup,) = (root / "srv/backup").glob("*.tar")
    assert "etc/hedgerow-cloud/collector.toml" in run("tar", "-tf", backup).stdout


def _backup(root: Path) -> str:
    """The command of the backup's unit, as systemd would hand it to the shell."""
    unit = (root / "etc/systemd/system/hedgerow-backup.service").read_text()
    command = unit.partition("ExecStart=/bin/sh -c '")[2].partition("'\n")[0]
    return command.replace("\\\n", " ").replace("$$", "$").replace("%%", "%")
