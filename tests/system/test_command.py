"""The `hedgerow` command against a running gateway, as a script or a person uses it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import policies

KEY = "ab" * 16


@dataclass(frozen=True)
class Running:
    config: Path
    psk_file: Path
    listeners: dict[str, str]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    for name, text in (("tree.key", KEY), ("psk", f"operator:{KEY}")):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    config = folder / "gateway.toml"
    policies.write(folder / "policy.toml", operator="operator")
    config.write_text(
        f"""
[gateway]
id = "gw-north"
domain = "campus"
group = "north"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "{folder}/psk"
[tree]
key_file = "{folder}/tree.key"
discovery = false
[access]
policy_file = "{folder}/policy.toml"
[[sensors]]
type = "replay"
series = "module-temperature"
speed = 900.0
interval_s = 0.5
[[sensors]]
type = "switch"
name = "valve"
interval_s = 0.2
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if " is up" in line:
            break
    listeners = json.loads((folder / "state" / "listeners.json").read_text())
    yield Running(config, folder / "psk", listeners)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert not (folder / "state" / "listeners.json").exists()


WITHOUT_PRIVILEGES = (
    () if os.geteuid() else ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
)
"""Has root kept out by the modes of files, as others are."""


def hedgerow(*arguments: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", "gateway.tools.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_status_shows_who_the_gateway_is_and_its_neighbours(gateway: Running) -> None:
    done = hedgerow("status", "--config", str(gateway.config))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gw-north (campus/north)  root of the tree\n")
    assert "neighbour  role  forwards  rtt ms" in done.stdout


def test_status_as_json_is_for_scripts(gateway: Running) -> None:
    done = hedgerow("status", gateway.listeners["coap"], "--json")
    status = json.loads(done.stdout)
    assert (status["id"], status["root"], status["neighbours"]) == ("gw-north", "gw-north", [])


def test_status_and_version_tell_the_same_build(gateway: Running) -> None:
    status = json.loads(hedgerow("status", gateway.listeners["coap"], "--json").stdout)
    assert status["build"] in ("compiled", "interpreted")
    assert hedgerow("--version").stdout.endswith(f" ({status['build']})\n")


@pytest.mark.parametrize(
    "path",
    ["sensors/module-temperature", "q/campus/north/gw-north/sensors/module-temperature"],
)
def test_get_reads_a_sensor_by_its_own_path_and_by_its_place(gateway: Running, path: str) -> None:
    done = hedgerow("get", f"coap://{gateway.listeners['coap']}/{path}")
    assert done.returncode == 0, done.stderr
    (reading,) = json.loads(done.stdout)
    assert (reading["n"], reading["u"]) == ("module-temperature", "Cel")


def test_get_over_dtls_takes_its_key_from_a_file(gateway: Running) -> None:
    uri = f"coaps://{gateway.listeners['coaps']}/sensors/module-temperature"
    done = hedgerow("get", "--json", "--psk-file", str(gateway.psk_file), uri)
    answer = json.loads(done.stdout)
    assert (answer["code"], answer["content_format"]) == ("2.05", 110)


@pytest.mark.parametrize("value", ["1", '[{"v": 1}]'])
def test_put_sets_an_actuator(gateway: Running, value: str) -> None:
    uri = f"coaps://{gateway.listeners['coaps']}/sensors/valve"
    keys = ("--psk-file", str(gateway.psk_file))
    assert hedgerow("put", uri, "0", *keys).returncode == 0
    done = hedgerow("put", uri, value, *keys)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (reading,) = json.loads(hedgerow("get", uri, *keys).stdout)
    assert reading["v"] == 1


@pytest.mark.parametrize(
    ("scheme", "value", "why"),
    [("coap", "1", "4.01 writing needs coaps:// with --psk-file"), ("coaps", "open", "4.00 ")],
)
def test_put_says_why_an_actuator_is_not_set(
    gateway: Running, scheme: str, value: str, why: str
) -> None:
    uri = f"{scheme}://{gateway.listeners[scheme]}/sensors/valve"
    keys = ("--psk-file", str(gateway.psk_file)) if scheme == "coaps" else ()
    done = hedgerow("put", uri, value, *keys)
    assert (done.returncode, done.stdout) == (22, "")
    assert done.stderr.startswith(f"hedgerow: {uri}: {why}")
    assert done.stderr.count("\n") == 1


def test_what_is_not_there_is_one_line_and_the_exit_code_of_curl(gateway: Running) -> None:
    uri = f"coap://{gateway.listeners['coap']}/sensors/none"
    done = hedgerow("get", uri)
    assert (done.returncode, done.stdout) == (22, "")
    assert done.stderr.splitlines()[0].startswith(f"hedgerow: {uri}: 4.04")


def test_where_nobody_listens_the_exit_code_is_curl_s_too(gateway: Running) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    done = hedgerow("get", f"coap://127.0.0.1:{port}/x", "--timeout", "5")
    assert done.returncode == 7, done.stderr


def test_a_sensor_is_set_and_read_by_its_name(gateway: Running) -> None:
    near, name = ("--config", str(gateway.config)), "gw-north/valve"
    near = (*near, "--psk-file", str(gateway.psk_file))
    assert hedgerow("put", name, "1", *near).returncode == 0
    done = hedgerow("get", name, *near)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:3] == ["gw-north/valve", "1", "/"]


def test_hierarchy_is_drawn_and_told_to_scripts(gateway: Running) -> None:
    near = ("--config", str(gateway.config))
    assert hedgerow("hierarchy", *near).stdout.splitlines() == [
        "gw-north  campus/north, heads all and campus/- and campus/north",
        "1 gateway, 0 out of reach",
    ]
    told = json.loads(hedgerow("hierarchy", "--json", *near).stdout)
    assert (told["root"], len(told["gateways"])) == ("gw-north", 1)


def test_discover_finds_the_names_that_get_takes(gateway: Running) -> None:
    near = ("--config", str(gateway.config))
    lines = hedgerow("discover", "--rt", "switch", *near).stdout.splitlines()
    assert lines[0].split() == ["name", "type", "unit", "gateway"]
    assert lines[1].split() == ["gw-north/valve", "switch", "/", "gw-north"]
    assert lines[2:] == ["1 found"]
    found = json.loads(hedgerow("discover", "--at", "gw-north", "--json", *near).stdout)
    assert "gw-north/valve" in [one["name"] for one in found["resources"]]
    assert found["missing"] == {"count": 0, "gateways": []}


@pytest.mark.parametrize(("target", "has_key"), [("module-temperature", True), ("/status", False)])
def test_observe_shows_values_as_they_come(gateway: Running, target: str, has_key: bool) -> None:
    near = ("--config", str(gateway.config), "--json", "--count", "2", "--every", "0.1")
    keys = ("--psk-file", str(gateway.psk_file)) if has_key else ()
    done = hedgerow("observe", target, *near, *keys)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line)["payload"] for line in done.stdout.splitlines())
    assert first != second


def test_a_uri_says_itself_who_is_asked(gateway: Running) -> None:
    uri = f"coap://{gateway.listeners['coap']}/status"
    done = hedgerow("get", uri, "--config", str(gateway.config))
    assert done.returncode == 2
    assert "--config" in done.stderr


def test_a_gateway_that_does_not_run_is_named(gateway: Running, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(
        gateway.config.read_text()
        .replace('id = "gw-north"', 'id = "gw-away"')
        .replace("/state", "/other-state")
    )
    done = hedgerow("status", "--config", str(config))
    assert done.returncode == 1
    assert "gw-away is not running" in done.stderr


def test_where_it_may_not_look_permission_is_what_it_says(gateway: Running) -> None:
    told = gateway.config.parent / "state" / "listeners.json"
    mode = told.stat().st_mode
    told.chmod(0)
    try:
        done = hedgerow("status", "--config", str(gateway.config), prefix=WITHOUT_PRIVILEGES)
    finally:
        told.chmod(mode)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hedgerow: {told}: permission denied to read where gw-north listens")
    assert "not running" not in line


def test_a_file_in_a_folder_that_it_may_not_look_into_is_named(
    gateway: Running, tmp_path: Path
) -> None:
    config, folder = tmp_path / "gateway.toml", tmp_path / "keys"
    folder.mkdir()
    config.write_text(
        gateway.config.read_text().replace(f"{gateway.psk_file.parent}/psk", f"{folder}/psk")
    )
    folder.chmod(0)
    try:
        done = hedgerow("status", "--config", str(config), prefix=WITHOUT_PRIVILEGES)
    finally:
        folder.chmod(0o700)
    assert done.returncode == 2
    what = f"{config}: coap.psk_file: {folder}/psk: Permission denied"
    remedy = "it is root's: repeat this as that user, or with sudo"
    assert done.stderr == f"hedgerow: {what}; {remedy}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["get", "http://127.0.0.1/"], "http"),
        (["get", "coaps://127.0.0.1/x"], "--psk-file"),
        (["get", "coap://127.0.0.1/x", "--psk-file", "/none"], "/none"),
        (["status", "--config", "/none.toml"], "/none.toml"),
        (["tree-surgery"], "tree-surgery"),
    ],
)
def test_a_wrong_argument_is_one_line_that_names_it_and_exit_code_2(
    arguments: list[str], named: str
) -> None:
    done = hedgerow(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert named in line


def test_simulate_runs_the_seeds_it_is_told() -> None:
    done = hedgerow("simulate", "--runs", "3", "--gateways", "4", "--seed", "7", "--json")
    assert done.returncode == 0, done.stdout
    result = json.loads(done.stdout)
    assert [report["seed"] for report in result["reports"]] == [7, 8, 9]
    assert result["failed"] == 0


@pytest.mark.parametrize("command", [[], ["run"], ["get"], ["status"], ["demo"], ["simulate"]])
def test_help_tells_what_a_command_does(command: list[str]) -> None:
    done = hedgerow(*command, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5
