"""Three booted systems, provisioned over Ansible, are a fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib

import pytest
from fleet import ANSIBLE, DeployedFleet

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1200)]


def test_three_provisioned_gateways_are_one_tree_over_mutual_tls(deployed: DeployedFleet) -> None:
    told = {name: deployed.status(name) for name in deployed.hosts}
    assert len({one["root"] for one in told.values()}) == 1
    dialled = [
        each["address"]
        for one in told.values()
        for each in one["dialling"]["addresses"]
        if each["linked"]
    ]
    assert dialled
    assert all(address.endswith(":8883") for address in dialled)
    for name in told:
        # Without certificates of both a link is refused, unless this says otherwise.
        config = (deployed.bed.pis[name].root / "etc/hedgerow/hedgerow.toml").read_text()
        assert tomllib.loads(config)["tree"].get("tls", "required") == "required"


def test_an_operator_reads_a_sensor_and_writes_with_a_right_and_not_without(
    deployed: DeployedFleet,
) -> None:
    valve = f"coaps://{deployed.bed.pis['gw-south'].address}/sensors/valve"
    code, told = deployed.hedgerow("get", valve, who="reader")
    assert code == 0, told
    assert deployed.hedgerow("put", valve, "1", who="operator")[0] == 0
    code, told = deployed.hedgerow("put", valve, "0", who="reader")
    assert code != 0
    assert "4.03" in told
    # Through another gateway, over the tree.
    far = f"coaps://{deployed.bed.pis['gw-north'].address}/q/campus/south/gw-south/sensors/valve"
    assert deployed.hedgerow("get", far)[0] == 0


def test_a_second_run_changes_nothing(deployed: DeployedFleet) -> None:
    again = deployed.play("site.yml").worked()
    assert all(again.recap(name)["changed"] == 0 for name in deployed.hosts), again.output[-4000:]


def test_the_doctor_finds_a_healthy_fleet_well_and_names_one_that_is_stopped(
    deployed: DeployedFleet,
) -> None:
    deployed.play("doctor.yml").worked()
    south = deployed.bed.pis["gw-south"]
    south.run("systemctl", "stop", "hedgerow")
    try:
        ill = deployed.play("doctor.yml")
        assert ill.returncode != 0
        assert ill.recap("gw-south")["failed"] == 1
        assert ill.recap("gw-root")["failed"] == 0 or "gw-south" in ill.output
        assert "gw-south is not running" in ill.output
    finally:
        south.run("systemctl", "start", "hedgerow")
        deployed.one_tree()


def test_the_inventory_asks_one_gateway_for_the_fleet(deployed: DeployedFleet) -> None:
    hedgerow = deployed.bed.operator(sys.executable, "-m", "gateway.tools.cli")
    asked = {
        "plugin": "hedgerow",
        "gateway": deployed.bed.pis["gw-root"].address,
        "psk_file": str(deployed.psk_file("operator")),
        "command": hedgerow,
    }
    file = deployed.folder / "fleet.hedgerow.yml"
    file.write_text(json.dumps(asked))
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", str(file), "--list"],
        cwd=ANSIBLE,
        env={
            **os.environ,
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(deployed.source),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["gateways"]["hosts"]) == set(deployed.hosts), done.stderr
    assert told["group_campus_north"]["hosts"] == ["gw-north"]
    assert "10.77." in str(told["_meta"]["hostvars"]["gw-south"]["ansible_host"])
