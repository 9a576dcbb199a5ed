"""An operator changes a fleet that runs: keys, backups, new hardware, and a gateway that leaves.

It comes behind the other modules, which stand on three gateways.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import fleet_keys
import pytest
from bed import Pi
from commands import until
from fleet import PASSWORD, DeployedFleet
from upgrade_load import Load

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

SOUTH = "gw-south"
CERTIFICATE = "etc/hedgerow/tls/gateway.pem"


def certificates(fleet: DeployedFleet) -> dict[str, bytes]:
    return {name: (pi.root / CERTIFICATE).read_bytes() for name, pi in fleet.bed.pis.items()}


def state(pi: Pi) -> str:
    return pi.says("systemctl", "is-active", "hedgerow")


def test_all_keys_are_renewed_and_no_gateway_starts_again(deployed: DeployedFleet) -> None:
    before = certificates(deployed)
    epochs = {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts}
    deployed.play("rotate_keys.yml").worked()
    after = certificates(deployed)
    assert all(after[name] != before[name] for name in before)
    deployed.one_tree()
    assert {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts} == epochs


def test_a_gateway_that_does_not_serve_with_its_new_certificate_has_the_one_of_before_again(
    deployed: DeployedFleet, tmp_path: Path
) -> None:
    """The pair that reaches it is of an authority that nobody trusts."""
    south = deployed.bed.pis[SOUTH]
    epochs = {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts}
    fleet_keys.issue(tmp_path / "foreign", f"{SOUTH}={south.address}")
    wrong = " ".join(str(tmp_path / "foreign" / f"{SOUTH}{end}") for end in (".pem", ".key.pem"))
    keys = tmp_path / "python"
    keys.write_text(
        f'#!/bin/sh\n{sys.executable} "$@" || exit\n'
        f'case "$*" in *"keys renew"*) cp {wrong} {deployed.certificates} ;; esac\n'
    )
    keys.chmod(0o755)
    before = certificates(deployed)
    played = deployed.play("rotate_keys.yml", gateway_controller_python=str(keys))
    assert played.returncode != 0
    why = "\n".join(played.failures())
    assert f"{SOUTH} did not serve with its new certificate: " in why, played.output[-4000:]
    assert "It has the one of before again" in why
    assert certificates(deployed)[SOUTH] == before[SOUTH]
    deployed.one_tree()
    assert {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts} == epochs
    kept = deployed.certificates / "before" / SOUTH
    assert (kept / f"{SOUTH}.pem").read_bytes() == before[SOUTH]
    # Mended, the same play gives it one that is good, and forgets the one of before.
    deployed.play("rotate_keys.yml").worked()
    assert certificates(deployed)[SOUTH] != before[SOUTH]
    assert not kept.exists()
    deployed.one_tree()


def test_the_authority_is_rolled_over_and_no_gateway_starts_again(deployed: DeployedFleet) -> None:
    epochs = {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts}
    before = (deployed.bed.pis[SOUTH].root / "etc/hedgerow/tls/ca.pem").read_bytes()
    deployed.play("rotate_keys.yml", hedgerow_roll_over=True).worked()
    after = (deployed.bed.pis[SOUTH].root / "etc/hedgerow/tls/ca.pem").read_bytes()
    assert after.count(b"BEGIN CERTIFICATE") == 1
    assert after not in before
    deployed.one_tree()
    assert {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts} == epochs


def test_a_restored_card_uses_no_number_twice(deployed: DeployedFleet) -> None:
    south = deployed.bed.pis[SOUTH]
    backups = deployed.folder / "backups"
    deployed.play("backup.yml", "--limit", SOUTH, hedgerow_backups=str(backups)).worked()
    archive = backups / f"{SOUTH}.tar.gz"
    assert archive.stat().st_mode & 0o077 == 0
    used = {deployed.status(SOUTH)["boot_epoch"]}
    for _ in range(2):
        deployed.play("restore.yml", "--limit", SOUTH, hedgerow_backups=str(backups)).worked()
        deployed.one_tree()
        # It draws a life behind that of the backup, and begins another one when it hears of later.
        until("a life behind all", lambda: deployed.status(SOUTH)["boot_epoch"] > max(used))
        used.add(deployed.status(SOUTH)["boot_epoch"])
        # Nobody takes what it accepts now for a copy of what it sent before.
        north = deployed.bed.pis["gw-north"]
        with Load(deployed.bed.switch, south.address, north.address, PASSWORD) as load:
            until("fifty messages", lambda: len(load.received) >= 50)
        assert not load.lost


def test_one_that_is_drained_stays_out_and_what_it_acknowledged_is_with_the_others(
    deployed: DeployedFleet,
) -> None:
    south, north = deployed.bed.pis[SOUTH], deployed.bed.pis["gw-north"]
    assert deployed.play("drain.yml").returncode != 0, "nobody said which one"
    assert deployed.status(SOUTH)
    # The load ends, and is complete, while the gateway that acknowledged it is out.
    with Load(deployed.bed.switch, south.address, north.address, PASSWORD) as load:
        until("fifty messages", lambda: len(load.received) >= 50)
        deployed.play("drain.yml", "--limit", SOUTH).worked()
        until("its service has ended", lambda: state(south) == "inactive")
    assert not load.lost
    assert state(south) == "inactive"
    assert south.says("systemctl", "show", "--property=NRestarts", "--value", "hedgerow") == "0"
    south.run("systemctl", "start", "hedgerow")
    deployed.one_tree()


def test_new_hardware_takes_the_place_of_the_old_under_its_id(deployed: DeployedFleet) -> None:
    south = deployed.bed.pis[SOUTH]
    old = certificates(deployed)[SOUTH]
    epoch = deployed.status(SOUTH)["boot_epoch"]
    backups = str(deployed.folder / "backups")
    deployed.play("backup.yml", "--limit", SOUTH, hedgerow_backups=backups).worked()
    south.cut_power()
    deployed.bed.new_card(south)
    south.boot()
    played = deployed.play("replace.yml", "--limit", SOUTH, hedgerow_backups=backups)
    played.worked()
    deployed.one_tree()
    assert certificates(deployed)[SOUTH] != old
    assert deployed.status(SOUTH)["boot_epoch"] != epoch
    assert not (south.root / "root/hedgerow-replacing").exists()


def test_one_that_is_retired_is_drained_forgotten_and_refused(deployed: DeployedFleet) -> None:
    deployed.play("retire.yml", "--limit", SOUTH).worked()
    rest = [name for name in deployed.hosts if name != SOUTH]

    def members(name: str) -> list[str]:
        address = deployed.bed.pis[name].address
        code, told = deployed.hedgerow("members", address, "--json")
        return [] if code else [one["id"] for one in json.loads(told)]

    until("both have forgotten it", lambda: all(sorted(members(n)) == sorted(rest) for n in rest))
    south = deployed.bed.pis[SOUTH]
    south.run("systemctl", "start", "hedgerow")
    until("it says how it is", lambda: deployed.status(SOUTH).get("boot_epoch"))
    end_s = time.monotonic() + 15
    while time.monotonic() < end_s:
        assert not deployed.status(SOUTH)["neighbours"]
        assert all(sorted(members(name)) == sorted(rest) for name in rest)
