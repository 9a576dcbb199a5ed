"""Goal: a Debian with the package alone is a gateway, and is as it was before without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bed import Pi
from commands import run, until
from empty_bed import empty_bed
from fleet import PROJECT
from server_wheels import MACHINE

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

SUITES = {"bookworm": "cp311", "trixie": "cp313"}
NAMES = ("*hedgerow*", "__pycache__")
"""Patterns of names: all that the package makes has one of these."""
PASSING = ("/var/log", "/run", "/proc", "/sys", "/dev", "/tmp", "/opt/debs", "/var/lib/dpkg")


@dataclass
class Packaged:
    """A booted Debian beside a package of two versions."""

    pi: Pi
    first: str
    second: str

    def dpkg(self, *words: str) -> str:
        return self.pi.run("dpkg", "--force-confold", *words, timeout_s=900)

    def has(self, path: str) -> bool:
        return self.pi.says("sh", "-c", f"test -e {path} && echo yes") == "yes"

    def is_active(self) -> bool:
        return self.pi.says("systemctl", "is-active", "hedgerow") == "active"

    def left(self) -> set[str]:
        """Files and folders that the package or its gateway made."""
        pruned = " -o ".join(f"-path {path}" for path in PASSING)
        named = " -o ".join(f"-name '{name}'" for name in NAMES)
        find = f"find / \\( {pruned} \\) -prune -o \\( {named} \\) -print"
        return set(self.pi.run("sh", "-c", find).splitlines())


@pytest.fixture(scope="module", params=SUITES)
def packaged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Packaged]:
    made = tmp_path_factory.mktemp("debs")
    kind = f"{SUITES[request.param]}-{MACHINE}"
    wheels = made / "wheels"
    build = ("env", f"WHEELHOUSE={wheels}", PROJECT / "deploy/deb")
    run(*build, "--outdir", made, kind, timeout_s=1800)
    (first,) = made.glob("*.deb")
    second = next_version(first, made)
    with empty_bed(tmp_path_factory) as bed:
        pi = bed.pi("gw-alone", request.param)
        (pi.root / "opt/debs").mkdir()
        for package in (first, second):
            run("cp", package, pi.root / "opt/debs")
        run("cp", "-r", wheels / kind, pi.root / "opt/debs/wheels")
        pi.boot()
        yield Packaged(pi, f"/opt/debs/{first.name}", f"/opt/debs/{second.name}")


def next_version(package: Path, folder: Path) -> Path:
    """The same package as the next version, with another text in its file of options."""
    opened, made = folder / "opened", folder / "second.deb"
    run("dpkg-deb", "--raw-extract", package, opened)
    control = opened / "DEBIAN/control"
    control.write_text(control.read_text().replace("Version: ", "Version: 9+", 1))
    (opened / "etc/default/hedgerow").write_text('# another text\nHEDGEROW_OPTIONS=""\n')
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", opened, made)
    run("rm", "-r", opened)
    return made


def test_a_debian_becomes_a_gateway_is_upgraded_and_has_nothing_left_after_a_purge(
    packaged: Packaged,
) -> None:
    pi = packaged.pi
    before = packaged.left()
    packaged.dpkg("--install", packaged.first)
    assert pi.run("dpkg", "--verify", "hedgerow") == ""
    assert pi.run("hedgerow", "--version").startswith("hedgerow ")
    assert pi.run("stat", "-c", "%U %a", "/var/lib/hedgerow").strip() == "hedgerow 700"
    assert not packaged.is_active()

    # Debian's own modules are found, behind those that the package brings.
    for module in ("smbus2", "yaml"):
        pi.run("sh", "-c", f": >/usr/lib/python3/dist-packages/{module}.py")
    asked = "import smbus2, yaml; print(smbus2.__file__, yaml.__file__)"
    debians, own = pi.run("/usr/lib/hedgerow/bin/python3", "-B", "-c", asked).split()
    assert debians.startswith("/usr/lib/python3/")
    assert own.startswith("/usr/lib/hedgerow/lib/")

    # As a user types it: what `init` says comes next.
    said = pi.run("hedgerow", "init", "--yes")
    lines = [line.strip() for line in said.splitlines()]
    assert "systemctl enable --now hedgerow.service" in lines, said
    assert not any(line.startswith("useradd") for line in lines), said
    for line in lines:
        if line.startswith(("chown ", "systemctl ")):
            pi.run(*line.split())
    until("it serves", lambda: "gw-alone" in pi.says("hedgerow", "status"))
    names = pi.run("hedgerow", "completion", "resources").split()
    assert any(name.endswith("host/load1") for name in names), names
    assert pi.run("hedgerow", "completion", "gateways").split() == ["gw-alone"]
    user = ("--user", "operator", "--password-file", "/etc/hedgerow/operator.password")
    pi.run("hedgerow", "pub", *user, "-t", "kept", "-m", "open", "--retain")

    # An upgrade: it runs again, keeps what it had, and what the operator wrote.
    pi.run("sh", "-c", "echo 'HEDGEROW_OPTIONS=\"--log-level debug\"' >/etc/default/hedgerow")
    was = pi.run("systemctl", "show", "--property=MainPID", "hedgerow")
    packaged.dpkg("--install", packaged.second)
    assert packaged.is_active(), pi.journal()
    assert pi.run("systemctl", "show", "--property=MainPID", "hedgerow") != was
    until("it serves", lambda: "gw-alone" in pi.says("hedgerow", "status"))
    assert "open" in pi.run("hedgerow", "sub", *user, "-t", "kept", "--count", "1")
    assert "--log-level debug" in pi.run("cat", "/etc/default/hedgerow")
    assert "--log-level\x00debug" in pi.run(
        "sh", "-c", "cat /proc/$(systemctl show --property=MainPID --value hedgerow)/cmdline"
    )
    pi.reboot()
    until("it serves after a boot", lambda: "gw-alone" in pi.says("hedgerow", "status"))

    # Who stopped it before an upgrade finds it stopped.
    pi.run("systemctl", "stop", "hedgerow")
    packaged.dpkg("--install", packaged.second)
    assert not packaged.is_active()

    packaged.dpkg("--remove", "hedgerow")
    assert not packaged.has("/usr/bin/hedgerow")
    assert not packaged.has("/usr/lib/hedgerow")
    assert packaged.has("/var/lib/hedgerow/log")
    assert packaged.has("/etc/hedgerow/hedgerow.toml")
    packaged.dpkg("--purge", "hedgerow")
    assert packaged.left() - before == set()
    assert pi.says("getent", "passwd", "hedgerow") == pi.says("getent", "group", "hedgerow") == ""


def test_one_command_joins_a_fleet_and_starts_the_packages_own_unit(packaged: Packaged) -> None:
    pi, fleet, service = packaged.pi, "/opt/debs/fleet", f"{packaged.pi.address}:8890"
    before = packaged.left()
    pi.run("apt-get", "install", "--yes", packaged.first, timeout_s=900)
    pi.run("hedgerow", "init", fleet, "--fleet", f"gw-alone={pi.address}", "gw-far=10.77.0.99")
    serve = ("hedgerow", "keys", "serve", "--ca", f"{fleet}/authority", "--listen", service)
    pi.run("systemd-run", "--unit=authority", *serve)
    until("it serves", lambda: "enrolment at " in pi.journal("authority"))
    token = ("hedgerow", "keys", "token", "--fleet", fleet, "gw-alone", "--service", service)
    said = pi.run("hedgerow", "join", str(json.loads(pi.run(*token, "--json"))["token"]))
    assert "hedgerow.service is started, and starts with the machine" in said
    assert packaged.is_active(), pi.journal()
    shown = ("systemctl", "show", "--value", "--property=FragmentPath,UnitFileState", "hedgerow")
    unit, state = sorted(pi.run(*shown).split())
    assert unit.endswith("/lib/systemd/system/hedgerow.service")
    assert state == "enabled"
    pi.run("systemctl", "stop", "authority")
    packaged.dpkg("--purge", "hedgerow")
    assert packaged.left() - before == set()


def test_a_fleets_authority_outlives_a_purge(packaged: Packaged) -> None:
    pi = packaged.pi
    packaged.dpkg("--install", packaged.first)
    pi.run("hedgerow", "init", "--yes", "--address", pi.address)
    pi.run("chown", "-R", "hedgerow:", "/etc/hedgerow")
    packaged.dpkg("--purge", "hedgerow")
    assert pi.run("ls", "/etc/hedgerow").split() == ["authority"]
    key = "/etc/hedgerow/authority/ca.key.pem"
    assert pi.run("stat", "-c", "%U", key, "/etc/hedgerow").split() == ["root", "root"]
    pi.run("rm", "-r", "/etc/hedgerow")


def test_the_gateway_of_ansible_is_not_taken_over(packaged: Packaged) -> None:
    pi = packaged.pi
    pi.run("mkdir", "-p", "/opt/hedgerow/venv")
    said = pi.says("dpkg", "--install", packaged.first)
    assert "this machine's gateway is Ansible's" in said
    assert not packaged.has("/usr/bin/hedgerow")
    pi.run("rmdir", "/opt/hedgerow/venv", "/opt/hedgerow")

    # Nor is one that Ansible makes later taken away with the package.
    packaged.dpkg("--install", packaged.first)
    pi.run("mkdir", "-p", "/opt/hedgerow/venv", "/etc/hedgerow")
    packaged.dpkg("--purge", "hedgerow")
    assert packaged.has("/etc/hedgerow")
    assert packaged.has("/var/lib/hedgerow")
    assert pi.says("getent", "passwd", "hedgerow")
    pi.run("rm", "-r", "/opt/hedgerow", "/etc/hedgerow", "/var/lib/hedgerow")


def test_pip_installs_it_from_the_folder_of_wheels_alone(packaged: Packaged) -> None:
    pi = packaged.pi
    pi.run("python3", "-m", "venv", "/opt/debs/venv", timeout_s=900)
    pip = ("/opt/debs/venv/bin/pip", "install", "--quiet", "--no-index")
    pi.run(*pip, "--find-links", "/opt/debs/wheels", "hedgerow", timeout_s=900)
    assert pi.run("/opt/debs/venv/bin/hedgerow", "--version").startswith("hedgerow ")
