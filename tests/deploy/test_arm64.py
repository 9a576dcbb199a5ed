"""Goal: what the operator's machine builds for a 64-bit Pi installs there, runs and answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arm64_root
import fleet_keys
import pytest
from arm64_root import KIND, SLOW_S, Arm64Root
from commands import run
from fleet import ANSIBLE, PROJECT, not_shipped
from missing_peer import skip_or_fail_in_ci

from tests.ports import free_port

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(7200)]

VENV = "/opt/hedgerow/venv"
HEDGEROW = f"{VENV}/bin/hedgerow"
CONFIG = "/etc/hedgerow/hedgerow.toml"
KEY = "sixteen-byte-key"
TOML = """
[gateway]
id = "gw-arm"
state_dir = "/var/lib/hedgerow"
[mqtt]
port = {mqtt}
[coap]
port = {coap}
dtls_port = {coaps}
psk_file = "psk"
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
[access]
anonymous = true
[console]
enabled = false
[[sensors]]
type = "switch"
name = "valve"
"""
SLICE = (
    "tests/unit/tree_handler/test_batch.py",
    "tests/unit/coap_engine/test_coap_codec.py",
    "tests/unit/coap_engine/test_coap_engine.py",
    "tests/unit/gateway/mqtt/test_packets_scanner.py",
    "tests/unit/gateway/mqtt/test_packets_table.py",
)
"""The formats on wires and cards, where another machine could differ in bytes, sizes and signs."""
EXAMPLES = 5
"""Of a property: this machine has had them all."""
OF_TESTS = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")
PLATFORMS = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 37)]


def took(what: str, began_s: float, more: str = "") -> None:
    """Tell how long something took."""
    sys.stderr.write(f"\narm64: {what}: {time.monotonic() - began_s:.0f} s{more}\n")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arm64Root]:
    if (why := arm64_root.why_not()) is not None:
        skip_or_fail_in_ci(why)
    began_s = time.monotonic()
    made = Arm64Root.made_in(tmp_path_factory.mktemp("root"))
    took("a root file system of arm64", began_s)
    yield made
    shutil.rmtree(made.path)


@pytest.fixture(scope="module")
def wheelhouse(root: Arm64Root, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of wheels that site.yml makes for a machine that says what it is itself."""
    folder = tmp_path_factory.mktemp("operator")
    shutil.copytree(PROJECT, folder / "source", ignore=not_shipped)
    fleet_keys.issue(folder / "certificates", "gw-arm=127.0.0.1")
    ssh = folder / "ssh"
    ssh.write_text(root.ssh)
    ssh.chmod(0o755)
    host = {
        "ansible_ssh_executable": str(ssh),
        "ansible_ssh_transfer_method": "piped",
        "ansible_become": False,
        "gateway_source_dir": str(folder / "source"),
        "gateway_wheelhouse_dir": str(folder / "wheelhouse"),
        "gateway_tls_dir": str(folder / "certificates"),
        "gateway_id": "gw-arm",
        "gateway_domain": "",
        "gateway_group": "",
        "gateway_tree_key": "ab" * 16,
        "gateway_psks": {"operator": KEY.encode().hex()},
        "gateway_compiled": True,
    }
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"gateways": {"hosts": {"gw-arm": host}}}))
    began_s = time.monotonic()
    # What is compiled without optimising is compiled from the same C, in a third of the time.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "playbook", "-i", inventory, "site.yml"),
            *("--tags", "wheelhouse"),
        ],
        cwd=ANSIBLE,
        env={
            **os.environ,
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
            "HEDGEROW_OPTIMISATION": os.environ.get("HEDGEROW_OPTIMISATION", "0"),
        },
        capture_output=True,
        text=True,
        timeout=SLOW_S * 2,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    (archive,) = (folder / "wheelhouse").glob("*.tar")
    took("the wheelhouse", began_s, f", {archive.stat().st_size / 1e6:.1f} MB: {archive.name}")
    return archive


@pytest.fixture(scope="module")
def installed(root: Arm64Root, wheelhouse: Path) -> Arm64Root:
    """The same root, with the wheels in an environment of its own: from nowhere else."""
    wheels = root.path / "opt/wheels"
    wheels.mkdir(parents=True)
    run("tar", "--extract", "--file", wheelhouse, "--directory", wheels)
    began_s = time.monotonic()
    root.run("/usr/bin/python3", "-m", "venv", "--without-pip", VENV)
    # Debian's own pip, from its wheel: to install it first takes qemu longer than all the others.
    (pip,) = (root.path / "usr/share/python-wheels").glob("pip-*.whl")
    root.run(
        *(f"{VENV}/bin/python", f"/{pip.relative_to(root.path)}/pip", "install", "--quiet"),
        *("--no-cache-dir", "--no-compile", "--no-index", "--find-links", "/opt/wheels"),
        "hedgerow",
    )
    took("installed", began_s)
    return root


@pytest.fixture(scope="module")
def ports(installed: Arm64Root) -> dict[str, int]:
    """Those of the gateway, whose files are written with them."""
    chosen = {scheme: free_port() for scheme in ("mqtt", "coap", "coaps")}
    folder = installed.path / "etc/hedgerow"
    folder.mkdir(parents=True)
    (installed.path / "var/lib/hedgerow").mkdir(parents=True)
    keys = {"psk": f"operator:{KEY.encode().hex()}\n", "tree.key": "ab" * 16 + "\n"}
    for name, text in keys.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    (folder / "hedgerow.toml").write_text(TOML.format(**chosen))
    return chosen


@pytest.fixture(scope="module")
def running(installed: Arm64Root, ports: dict[str, int]) -> Iterator[dict[str, int]]:
    """The gateway, which is stopped in the end as systemd stops it."""
    log = installed.path / "var/log-of-the-gateway"
    began_s = time.monotonic()
    with log.open("wb") as output:
        command = installed.command(HEDGEROW, "run", "--config", CONFIG)
        process = subprocess.Popen(command, stdout=output, stderr=output)
    while " is up: " not in log.read_text():
        assert process.poll() is None and time.monotonic() - began_s < SLOW_S, log.read_text()
        time.sleep(1)
    took("the gateway is up", began_s)
    yield ports
    process.terminate()
    assert process.wait(SLOW_S) == 0, log.read_text()
    told = log.read_text()
    assert "Traceback" not in told
    assert "ERROR" not in told
    assert "WARNING" not in told


def test_the_wheelhouse_is_for_arm64_and_its_hot_packages_are_compiled(wheelhouse: Path) -> None:
    assert wheelhouse.stem.endswith(f"-compiled-{KIND}")
    names = run("tar", "--list", "--file", wheelhouse).split()
    assert all(name.endswith(("-any.whl", "aarch64.whl")) for name in names)
    (own,) = (name for name in names if name.startswith("hedgerow-"))
    assert own.endswith("-cp313-cp313-linux_aarch64.whl")
    assert any(name.startswith("uvloop-") for name in names)


def test_the_build_that_runs_there_is_the_compiled_one(installed: Arm64Root) -> None:
    assert installed.run(HEDGEROW, "--version").strip().endswith("(compiled)")


def test_it_finds_nothing_wrong_with_its_configuration(
    installed: Arm64Root, ports: dict[str, int]
) -> None:
    assert "nothing is wrong" in installed.run(HEDGEROW, "check", "--config", CONFIG)


def test_a_message_passes_its_broker(running: dict[str, int]) -> None:
    port = str(running["mqtt"])
    subscriber = subprocess.Popen(
        ["mosquitto_sub", "-p", port, "-t", "arm/#", "-q", "1", "-C", "1", "-W", "600", "-v"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        publish = ("mosquitto_pub", "-p", port, "-q", "1", "-r", "-t", "arm/door", "-m", "open")
        run(*publish, timeout_s=SLOW_S)  # retained: it comes to one that subscribes later, too
        assert subscriber.communicate(timeout=SLOW_S)[0] == "arm/door open\n"
    finally:
        subscriber.kill()


def test_an_actuator_is_set_and_read_over_dtls(running: dict[str, int]) -> None:
    client = ("coap-client-openssl", "-B", "600", "-u", "operator", "-k", KEY)
    valve = f"coaps://127.0.0.1:{running['coaps']}/sensors/valve"
    run(*client, "-m", "put", "-e", "1", valve, timeout_s=SLOW_S)
    told: list[dict[str, Any]] = json.loads(run(*client, valve, timeout_s=SLOW_S))
    assert (told[0]["n"], told[0]["v"]) == ("valve", 1)


def test_the_doctor_finds_nothing_wrong(installed: Arm64Root, running: dict[str, int]) -> None:
    psk = f"{CONFIG.rpartition('/')[0]}/psk"
    told = installed.run(HEDGEROW, "doctor", "--config", CONFIG, "--psk-file", psk, "--json")
    assert json.loads(told)["is_well"]


def test_formats_are_the_same_there(installed: Arm64Root) -> None:
    of_tests = installed.path / "opt/tests"
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", of_tests),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", "313"),
        *("--abi", "cp313", "--abi", "abi3", "--abi", "none", *PLATFORMS, *OF_TESTS),
    )
    project = installed.path / "opt/project"
    project.mkdir()
    shutil.copy(PROJECT / "pyproject.toml", project)
    shutil.copytree(PROJECT / "tests", project / "tests", ignore=not_shipped)
    conftest = project / "tests/conftest.py"
    few = conftest.read_text().replace("deadline=None)", f"deadline=None, max_examples={EXAMPLES})")
    assert f"max_examples={EXAMPLES}" in few
    conftest.write_text(few)
    began_s = time.monotonic()
    told = installed.run(
        *("/usr/bin/env", "--chdir=/opt/project", f"{VENV}/bin/python", "-m", "pytest", "-q"),
        *("--override-ini", "pythonpath=", "--timeout", "0", "-p", "no:cacheprovider", *SLICE),
        PYTHONPATH="/opt/tests",
        PYTHONSAFEPATH="1",
        HEDGEROW_BUILD="compiled",
    )
    last = told.strip().splitlines()[-1]
    took("a slice of the unit tests", began_s, f": {last}")
    assert " passed" in last
    assert not {"failed", "error", "errors"} & set(last.replace(",", "").split())
