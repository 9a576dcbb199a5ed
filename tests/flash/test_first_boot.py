"""A card that `flash.yml` made is booted, and its gateway joins the tree without another hand.

The system is Debian 13 with its cloud-init, set as Raspberry Pi OS sets it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flash_images
import pytest
from booted import BootedPi, PiOnDesk, until
from flash_images import MIB

from gateway.tools import cli

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.peer("mmdebstrap", "mmdebstrap"),
    pytest.mark.peer("systemd-nspawn", "systemd-container"),
    pytest.mark.peer("mcopy", "mtools"),
    pytest.mark.peer("mkfs.vfat", "dosfstools"),
]
PROJECT = Path(__file__).resolve().parents[2]
ROOT_BYTES = 1100 * MIB
PACKAGES = (
    "python3,python3-venv,systemd,systemd-sysv,dbus,cloud-init,openssh-server,sudo,iproute2,"
    "netplan.io,tzdata"
)
CLOUD_INIT = """datasource_list: [NoCloud, None]
datasource: {NoCloud: {seedfrom: "file:///boot/firmware"}}
ssh_deletekeys: false
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKz1 anna"
PHRASE = "a passphrase of the house"
WORD, PIN = "a word of the campus", "40817263"
HERE, PI = "10.77.0.1", "10.77.0.2"
HEDGEROW = (sys.executable, "-m", "gateway.tools.cli")


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@dataclass
class Fleet:
    """A root gateway and the enrolment service in a namespace, and a Pi's namespace beside it."""

    folder: Path
    here: str
    pi: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: str | Path) -> None:
        log = (self.folder / f"{arguments[0]}.log").open("wb")
        with log:
            self.processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", self.here, *HEDGEROW, *map(str, arguments)],
                    stdout=log,
                    stderr=log,
                    cwd=PROJECT,
                )
            )

    def ask(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", self.here, *HEDGEROW, *map(str, arguments)],
            capture_output=True, text=True, check=False, cwd=PROJECT,
        )  # fmt: skip
        return done.stdout + done.stderr

    @property
    def root_psk(self) -> Path:
        return self.folder / "fleet/gw-root/psk"

    def tree(self) -> str:
        return self.ask("tree", "--psk-file", self.root_psk, HERE)


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    if not request.config.getoption("--soak"):
        pytest.skip("boots a system for minutes: --soak")
    if os.geteuid() != 0:
        pytest.skip("only root can make and boot a root file system")
    folder = tmp_path_factory.mktemp("fleet")
    number = os.getpid()
    fleet = Fleet(folder, f"hr-here-{number}", f"hr-pi-{number}")
    own = folder / "fleet"
    members = (f"gw-root={HERE}", f"gw-north={PI}")
    assert cli.main(["init", str(own), "--fleet", *members]) == 0
    configuration = own / "gw-root/hedgerow.toml"
    text = configuration.read_text()
    configuration.write_text(text.replace('"/var/lib/hedgerow"', json.dumps(str(folder / "state"))))
    with contextlib.ExitStack() as undo:
        for name in (fleet.here, fleet.pi):
            run("ip", "netns", "add", name)
            undo.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
        peer = ("peer", "name", "eth0", "netns", fleet.pi)
        run("ip", "-n", fleet.here, "link", "add", "to-pi", "type", "veth", *peer)
        run("ip", "-n", fleet.here, "address", "add", f"{HERE}/24", "dev", "to-pi")
        for link in ("lo", "to-pi"):
            run("ip", "-n", fleet.here, "link", "set", link, "up")
        fleet.start("run", "--config", configuration)
        yield fleet
        for process in fleet.processes:
            process.terminate()
        for process in fleet.processes:
            process.wait(30)


@pytest.fixture(scope="module")
def image(fleet: Fleet) -> Iterator[Path]:
    """A base image: what `mmdebstrap` makes of Debian, and a Pi's boot partition."""
    root = fleet.folder / "debian"
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "trixie", root)
    (root / "etc/cloud/cloud.cfg.d/99_raspberry-pi.cfg").write_text(CLOUD_INIT)
    (root / "etc/machine-id").write_text("")
    (root / "boot/firmware").mkdir()
    image = fleet.folder / "debian.img"
    flash_images.make(
        image,
        root,
        boot_files=flash_images.CLOUD_INIT,
        boot_bytes=128 * MIB,
        root_bytes=ROOT_BYTES,
    )
    shutil.rmtree(root)
    yield image
    image.unlink()


def inventory(fleet: Fleet, image: Path, cards: Path) -> dict[str, Any]:
    own = fleet.folder / "fleet/gw-north"
    identity, key = (own / "psk").read_text().strip().split(":")
    user, _, password_hash = (own / "passwords").read_text().strip().partition(":")
    north = {
        "gateway_id": "gw-north",
        "gateway_domain": "campus",
        "gateway_group": "north",
        "gateway_tree_key": (own / "tree.key").read_text().strip(),
        "gateway_psks": {identity: key},
        "gateway_passwords": {user: password_hash},
        "gateway_principals": {f"psk:{identity}": ["admin"]},
        "gateway_mqtt_host": PI,
        "gateway_coap_host": PI,
        "gateway_tree_discovery": False,
        "gateway_tree_neighbours": [f"{HERE}:8883"],
        "gateway_keys_service": f"{HERE}:8890",
        "gateway_source_dir": str(fleet.folder / "source"),
        "gateway_wheelhouse_dir": str(fleet.folder / "wheelhouse"),
        "gateway_controller_python": sys.executable,
        "card_image": str(image),
        "card_to": str(cards),
        "card_unverified": True,
        "card_kind": "cp313-x86_64",
        "card_user": "anna",
        "card_ssh_key_files": [str(fleet.folder / "anna.pub")],
        "card_timezone": "Europe/Berlin",
        "card_country": "DE",
        "card_wifi": {"ssid": "house", "passphrase": PHRASE},
        "card_more_wifi": [
            {
                "ssid": "campus",
                "security": "eap",
                "eap": {
                    "method": "peap",
                    "identity": "gw-north",
                    "ca_certificate": str(fleet.folder / "fleet/authority/ca.pem"),
                    "server_name": "radius.example.org",
                    "password": WORD,
                },
            }
        ],
        "card_modem": {"apn": "internet", "pin": PIN},
        "card_network": {"address": f"{PI}/24", "gateway": HERE, "interface": "eth0"},
        "card_authority": str(fleet.folder / "fleet/authority"),
    }
    return {"gateways": {"hosts": {"north": north}}}


@pytest.fixture(scope="module")
def flashed(fleet: Fleet, image: Path) -> tuple[Path, str]:
    """The card, as an image's file, and what Ansible said."""
    fleet.start(
        "keys", "serve", "--ca", fleet.folder / "fleet/authority", "--listen", f"{HERE}:8890"
    )
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(PROJECT, fleet.folder / "source", ignore=ignored)
    (fleet.folder / "anna.pub").write_text(f"{KEY}\n")
    cards = fleet.folder / "cards"
    cards.mkdir()
    hosts = fleet.folder / "inventory.json"
    hosts.write_text(json.dumps(inventory(fleet, image, cards)))
    said = run(
        *(sys.executable, "-m", "ansible", "playbook", "-i", hosts, "flash.yml", "-vv", "--diff"),
        cwd=PROJECT / "deploy/ansible",
        env={**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(fleet.folder / "ansible"),
             "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    return cards / "gw-north.img", said


@pytest.fixture(scope="module")
def pi(fleet: Fleet, flashed: tuple[Path, str]) -> Iterator[PiOnDesk]:
    card, _ = flashed
    folder = fleet.folder / "pi"
    root, boot = folder / "root", folder / "boot"
    root.mkdir(parents=True)
    flash_images.boot_files(card, boot)
    start = flash_images.BOOT_START_BYTES + 128 * MIB
    loop = run("losetup", "--find", "--show", "--offset", str(start), card).strip()
    try:
        run("mount", loop, root)
        yield PiOnDesk(root, boot, fleet.pi, folder)
    finally:
        subprocess.run(["umount", root], check=False)
        run("losetup", "--detach", loop)


def state_of(pi: PiOnDesk, booted: BootedPi) -> str:
    journal = booted.run("journalctl", "--no-pager", "--lines=60")
    return f"{pi.log()}\n{booted.run('cloud-init', 'status', '--long')}\n{journal}"


def test_no_secret_is_shown_while_a_card_is_made(
    fleet: Fleet, flashed: tuple[Path, str], pi: PiOnDesk
) -> None:
    _, said = flashed
    token = (pi.boot / "hedgerow/token").read_text().strip()
    own = fleet.folder / "fleet/gw-north"
    secrets = [token, PHRASE, WORD, PIN, (own / "tree.key").read_text().strip()]
    assert not [secret for secret in secrets if secret in said]
    assert "image_bytes" in said
    assert not (pi.boot / "hedgerow/etc/tls/gateway.key.pem").exists()


def test_the_files_of_cloud_init_are_valid_by_the_schema_of_the_pis_own(pi: PiOnDesk) -> None:
    for name, kind in (("user-data", "cloud-config"), ("network-config", "network-config")):
        shutil.copy(pi.boot / name, pi.root / "tmp")
        schema = ("cloud-init", "schema", "--config-file", f"/tmp/{name}", "--schema-type", kind)
        assert "Valid schema" in run("chroot", pi.root, *schema)


def test_netplan_hands_networks_that_ask_who_a_pi_is_and_its_modem_to_network_manager(
    pi: PiOnDesk,
) -> None:
    netplan = pi.root / "tmp/told/etc/netplan"
    netplan.mkdir(parents=True)
    shutil.copy(pi.boot / "network-config", netplan / "50-cloud-init.yaml")
    (netplan / "50-cloud-init.yaml").chmod(0o600)
    run("chroot", pi.root, "netplan", "generate", "--root-dir", "/tmp/told")
    made = netplan.parents[1] / "run/NetworkManager/system-connections"
    campus = (made / "netplan-wlan0-campus.nmconnection").read_text()
    for line in (
        "key-mgmt=wpa-eap",
        "eap=peap",
        "phase2-auth=mschapv2",
        "ca-cert=/etc/hedgerow-network/wifi-2.ca.pem",
        "domain-suffix-match=radius.example.org",
    ):
        assert line in campus.splitlines()
    modem = (made / "netplan-hedgerow-modem.nmconnection").read_text()
    assert {"type=gsm", "apn=internet", "route-metric=700"} <= set(modem.splitlines())
    shutil.rmtree(pi.root / "tmp/told")


def test_a_pi_whose_power_is_cut_in_its_first_boot_comes_up_as_a_member_by_itself(
    fleet: Fleet, pi: PiOnDesk
) -> None:
    begun_s = time.monotonic()
    token = (pi.boot / "hedgerow/token").read_text().strip()
    for step in ("install the release", "get a certificate"):
        with pi.on() as booted:
            until(lambda: step in pi.log(), 300, lambda: state_of(pi, booted))  # noqa: B023
            booted.cut_power()
    with pi.on() as booted:
        until(lambda: "done: the gateway runs" in pi.log(), 300, lambda: state_of(pi, booted))
        sys.stderr.write(
            f"three boots, two cut off: {time.monotonic() - begun_s:.0f} s\n{pi.log()}"
        )
        assert booted.run("systemctl", "is-active", "hedgerow") == "active"
        # What an upgrade of Debian would take away is kept, whole.
        (kept,) = booted.run("find", "/opt/hedgerow/interpreters", "-name", "installed").split()
        check = f"/opt/hedgerow/interpreter/whole_release.sh check {Path(kept).parent}"
        assert booted.run("sh", "-c", f"{check} && echo whole") == "whole"
        assert booted.run("hostname") == "gw-north"
        assert booted.run("readlink", "/etc/localtime").endswith("Europe/Berlin")
        assert booted.run("cat", "/home/anna/.ssh/authorized_keys").endswith(KEY)
        assert booted.run("passwd", "--status", "anna").split()[1] == "L"
        assert PI in booted.run("ip", "-brief", "address", "show", "eth0")

        until(lambda: "gw-north" in fleet.tree(), 60, lambda: fleet.tree() + state_of(pi, booted))
        reading = fleet.ask(
            *("get", "--psk-file", fleet.root_psk),
            f"coaps://{HERE}/q/campus/north/gw-north/sensors/host/load1",
        )
        assert '"n":"host/load1"' in reading
        modes = booted.run("stat", "--format=%U %G %a", "/etc/hedgerow/tls/gateway.key.pem")
        assert modes == "hedgerow hedgerow 600"
        radius = "/etc/hedgerow-network/wifi-2.ca.pem"
        assert booted.run("stat", "--format=%U %G %a", radius) == "root root 600"
        assert "LTE stays off, for this image has no ModemManager" in pi.log()
    left = "".join(
        path.read_text(errors="replace") for path in sorted(pi.boot.rglob("*")) if path.is_file()
    )
    assert not [secret for secret in (token, '"password"', PHRASE, WORD, PIN) if secret in left]
    assert not (pi.boot / "hedgerow").exists()


def test_a_pi_that_has_been_flashed_starts_its_gateway_at_each_boot_and_no_first_boot(
    fleet: Fleet, pi: PiOnDesk
) -> None:
    log = pi.log()
    with pi.on() as booted:
        is_up = lambda: booted.run("systemctl", "is-active", "hedgerow") == "active"  # noqa: E731
        until(is_up, 120, lambda: state_of(pi, booted))
        assert "disabled" in booted.run("cloud-init", "status")
        assert booted.run("systemctl", "is-enabled", "hedgerow-first-boot.service") != "enabled"
        assert PI in booted.run("ip", "-brief", "address", "show", "eth0")
        until(lambda: "gw-north" in fleet.tree(), 60, lambda: state_of(pi, booted))
    assert pi.log() == log
