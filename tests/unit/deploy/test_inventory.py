"""The inventory that asks a gateway for the fleet (deploy/ansible/inventory_plugins)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ANSIBLE = Path(__file__).resolve().parents[3] / "deploy/ansible"
MEMBERS = [
    {"id": "gw-root", "domain": "-", "group": "-", "address": "10.0.0.1", "is_present": True},
    {"id": "gw-a", "domain": "campus", "group": "n-1", "address": "10.0.0.2", "is_present": False},
]


def listed(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """What Ansible makes of a fleet whose gateway is asked by this program."""
    (folder / "psk").write_text("operator:00\n")
    file = folder / "fleet.hedgerow.yml"
    options: dict[str, Any] = {"plugin": "hedgerow", "gateway": "10.0.0.1"}
    options |= {"psk_file": str(folder / "psk"), "command": [sys.executable, "-c", program]}
    file.write_text(json.dumps(options))
    return subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", str(file), "--list"],
        cwd=ANSIBLE,
        env={**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(folder / "ansible")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_members_are_hosts_in_groups_of_their_places(tmp_path: Path) -> None:
    done = listed(tmp_path, f"print({json.dumps(json.dumps(MEMBERS))})")
    told = json.loads(done.stdout)
    assert set(told["gateways"]["hosts"]) == {"gw-root", "gw-a"}, done.stderr
    assert told["group_campus_n_1"]["hosts"] == told["away"]["hosts"] == ["gw-a"]
    # What came from elsewhere is data, and never a template.
    root = told["_meta"]["hostvars"]["gw-root"]
    assert root["ansible_host"] == {"__ansible_unsafe": "10.0.0.1"}
    assert root["gateway_domain"] == {"__ansible_unsafe": ""}


def test_a_gateway_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = listed(tmp_path, "import sys; sys.exit('no answer within 10 s')")
    assert "no answer within 10 s" in done.stderr
