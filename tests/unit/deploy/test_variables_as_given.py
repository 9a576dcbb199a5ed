"""Variables as operators give them: as text on the command line, or with a slip of the finger."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from loaded_file import loaded

ANSIBLE = Path(__file__).parents[3] / "deploy/ansible"
NAMES = loaded(ANSIBLE / "filter_plugins/hedgerow_names.py")
NUMBERS = ("int", "float")


def types() -> dict[str, str]:
    """The type of each variable of the roles."""
    found: dict[str, str] = {}
    for file in ANSIBLE.glob("roles/*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(file.read_text())["argument_specs"].values():
            options: dict[str, dict[str, Any]] = spec.get("options", {})
            found |= {name: option.get("type", "str") for name, option in options.items()}
    return found


TYPES = types()
FILES = [
    path
    for path in sorted(ANSIBLE.rglob("*"))
    if path.suffix in (".yml", ".j2") and path.name not in ("argument_specs.yml", "VARIABLES.md")
]
CALCULATES = re.compile(r"\s*(//|/ |\*|\+|- |<|>|==|!=|is integer)")
EXPRESSION = re.compile(r"\s*(- |when:|that:|until:|not |and |or )")
DECIDES = re.compile(r"\bwhen:|\{%-? (if|elif)|\bif\b|\bnot\b|\band\b|\bor\b|\bthat:")


def uncast(line: str) -> list[str]:
    """Names of variables that a line takes for numbers or truths without making them so."""
    if not (EXPRESSION.match(line) or "{{" in line or "{%" in line):
        return []  # a sentence
    found = []
    for use in re.finditer(r"\b[a-z_]+\w*\b", line):
        kind, rest = TYPES.get(use[0]), line[use.end() :]
        if re.match(r"\s*(\||is (not )?defined|in\b|:)", rest):
            continue
        if (kind in NUMBERS and CALCULATES.match(rest)) or (
            kind == "bool" and DECIDES.search(line)
        ):
            found.append(use[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ANSIBLE)))
def test_what_comes_from_the_command_line_as_text_is_a_number_or_a_truth_where_it_counts(
    path: Path,
) -> None:
    whole = re.sub(r"\n\s+\|", " |", path.read_text())
    lines = (line.partition(" # ")[0] for line in whole.splitlines())
    code = (line for line in lines if "variable:" not in line and not line.lstrip().startswith("#"))
    assert [(line.strip(), names) for line in code if (names := uncast(line))] == []


def test_the_check_sees_what_has_no_cast() -> None:
    assert uncast('  retries: "{{ gateway_healthy_s // 3 }}"') == ["gateway_healthy_s"]
    assert uncast("  when: not gateway_on_trial") == ["gateway_on_trial"]
    assert uncast('  retries: "{{ gateway_healthy_s | int // 3 }}"') == []
    assert uncast("  when: not gateway_on_trial | bool") == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("gatway_mqtt_port", "gateway_mqtt_port"),
        ("gatewy_psks", "gateway_psks"),
        ("firewal_confirm_s", "firewall_confirm_s"),
        ("site_role", "site_roles"),
        ("hedgrow_backups", "hedgerow_backups"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_one_that_is_meant(given: str, meant: str) -> None:
    assert NAMES.misspelt([given]) == [f"{given} (is {meant} meant?)"]
    assert NAMES.misspelt([given], own=[given]) == []


def test_names_of_ours_and_words_of_others_pass() -> None:
    own = ["ansible_host", "inventory_hostname", "groups", "gateway_tls_dir_of_the_lab", "rack"]
    assert NAMES.misspelt([*TYPES, *own]) == []


CHECKED_ELSEWHERE = {
    "card": "`hedgerow flash` reads them as JSON, and says by name what is no list",
    "gateway": "`hedgerow check` does, for what is a key of the configuration",
}


def lists() -> list[tuple[str, str]]:
    """Role and name of each variable that is a list."""
    found = []
    for file in sorted(ANSIBLE.glob("roles/*/meta/argument_specs.yml")):
        options = yaml.safe_load(file.read_text())["argument_specs"]["main"].get("options", {})
        role = file.parts[-3]
        found += [(role, name) for name, option in options.items() if option.get("type") == "list"]
    return found


def test_each_role_refuses_text_where_a_list_is_wanted() -> None:
    """Ansible's own check takes it for a list of one, and Jinja for a list of letters."""
    unasserted = [
        f"{role}: {name}"
        for role, name in lists()
        if role not in CHECKED_ELSEWHERE
        and f"{name} is not string" not in (ANSIBLE / f"roles/{role}/tasks/main.yml").read_text()
    ]
    assert unasserted == []
    preflight = (ANSIBLE / "roles/gateway/tasks/preflight.yml").read_text()
    for name in ("gateway_devices", "gateway_device_groups", "gateway_backup_recipients"):
        assert f"{name} is not string" in preflight


KEY = "ssh-ed25519 AAAA ann@lab"
BASE = {"base_hostname": "gw-a", "base_timezone": "", "base_users": []}
TIME = {"time_servers": ["ntp.example.org"], "time_serves": []}
OPEN = ["0.0.0.0/0"]
FIREWALL = {
    "firewall_networks": OPEN,
    "firewall_ssh_networks": OPEN,
    "firewall_ssh_ports": [22],
    "firewall_tcp_ports": ["8883"],
    "firewall_udp_ports": ["off"],
    "firewall_confirm_s": 30,
}
RELAY = {
    "relay_address": "relay.example.org",
    "relay_port": 2222,
    "relay_connections_max": 100,
    "relay_connections_per_address": 4,
    "relay_memory_max": "512M",
    "relay_gateways": ["gw-a"],
    "relay_operators": [{"name": "ann", "keys": [KEY], "gateways": ["*"]}],
}
CARD = {
    "sd_card_commit_s": 60,
    "sd_card_tmpfs": [{"path": "/tmp", "size": "20%"}],
    "sd_card_mounts": [{"source": "UUID=1", "path": "/srv"}],
    "sd_card_journal_max": "32M",
}
CLOUD = {
    "cloud_tree_key": "ab" * 16,
    "cloud_neighbours": ["gw-a:8884"],
}
HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA"
AS_GIVEN: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("base", BASE, {"base_users": [{"name": "ann", "keys": [KEY]}]}, True),
    ("base", BASE, {"base_users": [{"name": "ann", "keys": KEY}]}, False),
    ("base", BASE, {"base_users": [{"name": "ann", "keys": ["", "# none"]}]}, False),
    ("time", TIME, {}, True),
    ("time", TIME, {"time_servers": "ntp.example.org"}, False),
    ("firewall", FIREWALL, {}, True),
    ("firewall", FIREWALL, {"firewall_tcp_ports": "8883"}, False),
    ("relay", RELAY, {}, True),
    ("relay", RELAY, {"relay_gateways": "gw1"}, False),
    ("relay", RELAY, {"relay_operators": [{"name": "a", "keys": [KEY], "gateways": "abc"}]}, False),
    ("sd_card", CARD, {}, True),
    ("sd_card", CARD, {"sd_card_mounts": [{"source": "a", "path": "/a", "type": None}]}, False),
    ("sensors", {"sensors_config_lines": []}, {"sensors_buses": ["i2c"]}, True),
    ("sensors", {"sensors_config_lines": []}, {"sensors_buses": "i2c"}, False),
    ("cloud", CLOUD, {}, True),
    ("cloud", CLOUD, {"cloud_backup_dir": "/mnt/back-up_1/ä"}, True),
    ("cloud", CLOUD, {"cloud_backup_dir": "/mnt/o'neil"}, False),
    ("cloud", CLOUD, {"cloud_backup_dir": "/mnt/$HOME"}, False),
    ("cloud", CLOUD, {"cloud_tables": "/srv/a;b"}, False),
    ("cloud", CLOUD, {"cloud_tables": "s3://bucket/a%20b"}, True),
    ("cloud", CLOUD, {"cloud_dashboard_arguments": "--geo x"}, False),
    ("cloud", CLOUD, {"cloud_dashboard_passwords": {True: HASH}}, False),
    ("gateway: addresses", {}, {"gateway_devices": ["/dev/i2c-1"]}, True),
    ("gateway: addresses", {}, {"gateway_device_groups": "gpio"}, False),
    ("gateway: addresses", {}, {"gateway_state_dir": "/srv/100%"}, False),
    ("gateway: addresses", {}, {"gateway_devices": ["/dev/a%b"]}, False),
    ("gateway: users", {}, {"gateway_passwords": {"ann": HASH, 1001: HASH}}, True),
    ("gateway: users", {}, {"gateway_passwords": {True: HASH}}, False),
    ("gateway: DTLS", {}, {"gateway_psks": {"ann": "ab" * 16}}, True),
    ("gateway: DTLS", {}, {"gateway_psks": {False: "ab" * 16}}, False),
]


def assertions(role: str) -> tuple[list[str], dict[str, Any]]:
    """Return what a role asserts of what it is given, and the variables that it asserts it with."""
    name, _, about = role.partition(": ")
    file = ANSIBLE / f"roles/{name}/tasks/{'preflight' if about else 'main'}.yml"
    task = next(
        one
        for one in yaml.safe_load(file.read_text())
        if "ansible.builtin.assert" in one and about in one["name"]
    )
    own: dict[str, Any] = {}
    for kind in ("defaults", "vars"):
        for path in sorted((ANSIBLE / "roles" / name).glob(f"{kind}/**/*.yml")):
            own |= yaml.safe_load(path.read_text()) or {}
    that = task["ansible.builtin.assert"]["that"]
    return that if isinstance(that, list) else [that], own | task.get("vars", {})


def played(tasks: list[dict[str, Any]], folder: Path) -> subprocess.CompletedProcess[str]:
    """Play tasks on this machine; they change nothing."""
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    own = {
        "ANSIBLE_FILTER_PLUGINS": str(ANSIBLE / "filter_plugins"),
        "ANSIBLE_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "play.yml"],
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.slow
def test_what_would_be_taken_apart_or_turned_into_another_name_is_refused(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = []
    for number, (role, usual, given, is_taken) in enumerate(AS_GIVEN):
        that, own = assertions(role)
        found = f"case_{number}"
        tasks += [
            {
                "ansible.builtin.assert": {"that": that, "quiet": True},
                "vars": own | usual | given,
                "register": found,
                "ignore_errors": True,
            },
            {
                "name": f"{role}, {given}",
                "ansible.builtin.assert": {"that": f"{found} is {'not ' * is_taken}failed"},
            },
        ]
    done = played(tasks, tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.slow
def test_a_user_of_whom_the_text_no_says_that_he_may_not_do_everything_may_not(
    tmp_path: Path,
) -> None:
    _, own = assertions("base")
    users = [
        {"name": "ann", "keys": [KEY], "sudo": True},
        {"name": "ben", "keys": [KEY], "sudo": "no"},
        {"name": "cyd", "keys": [KEY], "sudo": "yes"},
        {"name": "dan", "keys": [KEY]},
    ]
    tasks = yaml.safe_load((ANSIBLE / "roles/base/tasks/users.yml").read_text())
    sudoers = next(one for one in tasks if one["name"] == "Say who may do everything")
    who = "_written | trim | split('\n') | map('split') | map('first')"
    task = {
        "ansible.builtin.assert": {"that": [sudoers["when"], f"{who} == ['ann', 'cyd']"]},
        "vars": own | {"base_users": users, "_written": sudoers["ansible.builtin.copy"]["content"]},
    }
    done = played([task], tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.slow
def test_arguments_of_the_clouds_services_come_whole_through_systemd(tmp_path: Path) -> None:
    _, own = assertions("cloud")
    given = [
        "--a",
        "Bad Homburg",
        "100%",
        "$HOME",
        "${HOME}",
        'say "hi"',
        "back\\slash",
        "ü\U0001f321",
    ]
    unit = (ANSIBLE / "roles/cloud/templates/hedgerow.service.j2").read_text()
    line = next(one for one in unit.splitlines() if one.startswith("ExecStart="))
    variables = CLOUD | {"cloud_ingest_arguments": given, "item": "ingest"}
    task = {
        "ansible.builtin.debug": {"msg": "{{ _line | b64encode }}"},
        "vars": own | variables | {"_line": line},
    }
    done = played([task], tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    found = re.search(r'"msg": "([^"]+)"', done.stdout)
    assert found is not None
    written = base64.b64decode(found[1]).decode()
    # As systemd reads it: quoted words with escapes of C, whose `%%` and `$$` stand for one each.
    words = [json.loads(word) for word in re.findall(r'"(?:[^"\\]|\\.)*"', written)]
    assert words[-len(given) :] == [one.replace("%", "%%").replace("$", "$$") for one in given]
