"""The inventory that asks a gateway for the fleet (deploy/ansible/inventory_plugins)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleParserError
from loaded_file import loaded

ANSIBLE = Path(__file__).resolve().parents[3] / "deploy/ansible"
MEMBERS = [
    {"id": "gw-root", "domain": "-", "group": "-", "address": "10.0.0.1", "is_present": True},
    {"id": "gw-a", "domain": "campus", "group": "n-1", "address": "10.0.0.2", "is_present": False},
]


def listed(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run `ansible-inventory --list` over a fleet whose gateway this program asks."""
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


def test_a_member_that_is_none_is_told_of_left_out_and_never_carried_out(tmp_path: Path) -> None:
    mark = tmp_path / "carried_out"
    template = f"{{{{lookup('pipe','touch {mark}')}}}}"
    bad: list[Any] = [
        {**MEMBERS[0], "address": template},
        {**MEMBERS[0], "address": f"-oProxyCommand=touch {mark}"},
        {**MEMBERS[0], "id": template},
        {**MEMBERS[1], "group": template},
        {**MEMBERS[1], "domain": "x" * 300},
        {**MEMBERS[0], "address": "127.0.0.1"},
        {**MEMBERS[0], "address": {"__ansible_unsafe": "10.0.0.1"}},
        *({**MEMBERS[0], "id": name} for name in ("localhost", "all", "ungrouped", "gateways")),
        *("gw", None, 7, {}, []),
    ]
    done = listed(tmp_path, f"print({json.dumps(json.dumps([*bad, MEMBERS[1]]))})")
    told = json.loads(done.stdout)
    assert set(told["_meta"]["hostvars"]) == {"gw-a"}, done.stderr
    assert set(told["gateways"]["hosts"]) == {"gw-a"}
    assert done.stderr.count("left out") == len(bad), done.stderr
    assert not mark.exists()


@pytest.mark.parametrize("answer", ["{}", "[" * 100_000])
def test_an_answer_that_is_no_list_is_an_error(tmp_path: Path, answer: str) -> None:
    done = listed(tmp_path, f"print({answer!r})")
    assert "no list of members" in done.stderr


def plugin() -> Any:
    """The plug-in, as Ansible loads it."""
    return loaded(ANSIBLE / "inventory_plugins/hedgerow.py")


@pytest.mark.parametrize("version", ["2.9.27", "2.18.12", "2.18.0rc1", "1.9"])
def test_an_ansible_that_makes_templates_of_what_members_say_is_refused_in_one_line(
    version: str,
) -> None:
    with pytest.raises(AnsibleParserError) as refused:
        plugin().refuse_older(version)
    assert f"needs ansible-core 2.19 or later: this is {version}" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"),
        *("localhost", "LocalHost.", "gw.localhost", "localhost.localdomain"),
    ],
)
def test_a_member_on_this_machine_is_reached_only_where_the_operator_says_so(address: str) -> None:
    assert not plugin().may_be_reached(address, allow_loopback=False)
    assert plugin().may_be_reached(address, allow_loopback=True)


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1", "::ffff:224.0.0.1"]
)
def test_what_is_the_address_of_no_machine_is_never_reached(address: str) -> None:
    assert not plugin().may_be_reached(address, allow_loopback=True)


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1", "gw-a.local", "localhost.example"])
def test_a_member_elsewhere_is_reached(address: str) -> None:
    assert plugin().may_be_reached(address, allow_loopback=False)


@pytest.mark.parametrize("version", ["2.19.0", "2.19.0b1", "2.20.1", "3.0"])
def test_a_later_one_is_taken(version: str) -> None:
    plugin().refuse_older(version)
