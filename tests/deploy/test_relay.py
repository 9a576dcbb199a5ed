"""A booted Pi that takes no connection is reached through a booted relay of relay.yml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import bed
import package_proxy
import pytest
from bed import Bed, Pi
from commands import run, until
from empty_bed import empty_bed
from fleet import ANSIBLE, PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

PLAY_S = 1200.0
BACK_S = 180.0
"""The relay notices a dead connection within a minute, and a Pi tries again within half of one."""


@dataclass
class RelayedPi:
    """A relay and a Pi behind it, which stand while the tests run."""

    bed: Bed
    folder: Path
    relay: Pi
    pi: Pi
    gateways: tuple[str, ...] = ("gw-field",)

    @property
    def shared(self) -> Path:
        """The folder that relay.yml fills."""
        return self.folder / "relay"

    def play(self, book: str = "relay.yml", *options: str) -> str:
        """Run a playbook, which must work out; what it printed."""
        reached = {
            "ansible_user": "root",
            "ansible_ssh_executable": str(self.bed.ssh),
            "ansible_ssh_transfer_method": "piped",
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        key = (self.folder / "anna.pub").read_text().strip()
        relay = {
            "ansible_host": self.relay.address,
            "relay_address": self.relay.address,
            "relay_folder": str(self.shared),
            "relay_gateways": list(self.gateways),
            "relay_operators": [{"name": "anna", "keys": [key], "gateways": ["gw-field"]}],
        }
        field = {
            "ansible_host": self.pi.address,
            "gateway_id": "gw-field",
            "site_roles": ["relayed"],
            "relayed_folder": str(self.shared),
        }
        inventory = self.folder / "inventory.json"
        groups = {"relay": relay, "gateways": field}
        hosts = {"relay": "relay-1", "gateways": "gw-field"}
        inventory.write_text(
            json.dumps(
                {one: {"vars": reached, "hosts": {hosts[one]: groups[one]}} for one in groups}
            )
        )
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), book, *options],
            cwd=ANSIBLE,
            env=os.environ | {"ANSIBLE_HOME": str(self.folder / "ansible"), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=PLAY_S,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        with (self.shared / "ssh_config").open("a") as config:
            config.write(f"Host *\n IdentityFile {self.folder}/anna\n IdentitiesOnly yes\n")
        return done.stdout

    def shell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`hedgerow shell`, on the operator's machine."""
        return subprocess.run(
            self.bed.operator(sys.executable, "-m", "gateway.tools.cli", "shell", *words),
            cwd=PROJECT,
            env=os.environ | {"HEDGEROW_RELAY": str(self.shared)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def listens(self) -> bool:
        """Return whether the way of any gateway ends at the relay now."""
        return ":17884" in self.relay.says("ss", "-Hltn")

    def answers(self) -> bool:
        """Return whether a command comes through."""
        return self.shell("root@gw-field", "true").returncode == 0


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayedPi]:
    """A relay and a Pi that takes no connection from outside, both provisioned."""
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        stack.enter_context(package_proxy.served(made))
        folder = tmp_path_factory.mktemp("operator")
        relay, pi = made.pi("relay-1"), made.pi("gw-field")
        for one in (relay, pi):
            package_proxy.tell(one)
        # As a router does that translates addresses: only answers come in.
        pi.space.nft(
            "table inet nat { chain input { type filter hook input priority 0; policy drop;"
            " iif lo accept; ct state established,related accept; }; }\n"
        )
        bed.boot_all([relay, pi])
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "anna")
        pi.run("mkdir", "-p", "/root/.ssh")
        key = (folder / "anna.pub").read_text()
        pi.run("sh", "-c", f"umask 077; echo '{key.strip()}' >/root/.ssh/authorized_keys")
        fleet = RelayedPi(made, folder, relay, pi)
        fleet.play()
        yield fleet


def test_a_command_comes_through_and_is_noted(relayed: RelayedPi) -> None:
    until("a way through the relay", relayed.answers, BACK_S)
    done = relayed.shell("root@gw-field", "--", "sh", "-c", "hostname; exit 7")
    assert (done.stdout, done.returncode) == ("gw-field\n", 7), done.stderr
    noted = relayed.relay.says("journalctl", "-t", "hedgerow-relay", "-o", "cat")
    assert '"who": "anna", "what": "way opened", "gateway": "gw-field"' in noted


def test_the_relays_sshd_has_no_rights_of_root(relayed: RelayedPi) -> None:
    until("a way through the relay", relayed.answers, BACK_S)
    users = relayed.relay.says("ps", "-eo", "user:20,args")
    assert "hedgerow-relay" in users
    assert not [line for line in users.splitlines() if "hedgerow-relay/" in line and "root" in line]


def test_a_way_comes_back_after_each_side_was_without_power(relayed: RelayedPi) -> None:
    for one in (relayed.relay, relayed.pi):
        until("a way through the relay", relayed.answers, BACK_S)
        one.cut_power()
        one.boot()
    until("a way through the relay", relayed.answers, BACK_S)


def test_one_that_is_stolen_opens_no_way_any_more_and_is_not_listed_again(
    relayed: RelayedPi,
) -> None:
    until("a way through the relay", relayed.answers, BACK_S)
    # All before it concerns the fleet's own keys, of which this fleet of one has none.
    only = ("--start-at-task", "Take it off the relay")
    relayed.play("retire.yml", "--limit", "gw-field", "-e", "hedgerow_is_lost=true", *only)
    assert not relayed.answers()
    assert "gw-field" not in (
        (relayed.relay.root / "etc/hedgerow-relay/authorized_keys")
        .read_text()
        .replace("'gw-field'", "")
    )
    assert not (relayed.shared / "gateways" / "gw-field.pub").exists()
    until("that nothing is listened for", lambda: not relayed.listens(), BACK_S)
    relayed.play()  # it is a gateway of the inventory still, and is told who it is
    until("a way through the relay", relayed.answers, BACK_S)


def test_a_second_run_changes_nothing_and_who_left_is_cut_off(relayed: RelayedPi) -> None:
    until("a way through the relay", relayed.answers, BACK_S)
    listed = (relayed.relay.root / "etc/hedgerow-relay/authorized_keys").read_text()
    relayed.play()
    assert (relayed.relay.root / "etc/hedgerow-relay/authorized_keys").read_text() == listed
    relayed.gateways = ("gw-other",)
    relayed.play()
    done = relayed.shell("root@gw-field", "true")
    assert done.returncode != 0
    assert not relayed.listens()
