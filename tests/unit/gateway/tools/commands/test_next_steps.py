"""The next steps that `hedgerow init` shows fit the way in which the program was installed."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import sys
from pathlib import Path

import pytest

from gateway.tools.commands import new_files, next_steps
from gateway.tools.provisioning.plan import GatewayPlan, Ports, fleet
from gateway.tools.provisioning.secret import Secrets

FOLDER = Path("/etc/hedgerow")
UNIT = FOLDER / "hedgerow.service"


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    next_steps.of_joined(FOLDER, UNIT)
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_who_has_the_debian_package_starts_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(new_files.PACKAGED))
    assert "systemctl enable --now hedgerow.service" in said(capsys)
    monkeypatch.setattr(sys, "prefix", "/opt/hedgerow")
    assert f"systemctl enable --now {UNIT}" in said(capsys)


def test_who_came_by_sudo_is_told_commands_that_a_user_may_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "pi")
    assert f"sudo chown -R hedgerow: {FOLDER}" in said(capsys)
    monkeypatch.delenv("SUDO_USER")
    assert f"chown -R hedgerow: {FOLDER}" in said(capsys)


def test_a_user_that_is_there_is_not_to_be_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _: there)
    assert not any(line.startswith("useradd") for line in said(capsys))

    def is_missing(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", is_missing)
    assert any(line.startswith("useradd --system") for line in said(capsys))
    assert f"chown -R hedgerow: {FOLDER}" in said(capsys)


# -- the whole text --------------------------------------------------------------------------------

OF_ONE = """gw-a is written to /etc/hedgerow; the password of ines is in /etc/hedgerow/ines.password

Let systemd run it, as a user of its own:
  chown -R hedgerow: /etc/hedgerow
  systemctl enable --now /etc/hedgerow/hedgerow.service
Subscribe:
  hedgerow sub -t '#' --user ines --password-file /etc/hedgerow/ines.password
Read a sensor:
  hedgerow get coap://127.0.0.1/sensors/host/load1
"""
OF_ONE_ELSEWHERE = """gw-a is written to /srv/a b; the password of ines is in /srv/a b/ines.password
Clients trust /srv/a b/tls/ca.pem (--cafile)

Run it (or: sudo systemctl enable --now '/srv/a b/hedgerow.service'):
  hedgerow run --config '/srv/a b/hedgerow.toml'
Subscribe:
  hedgerow sub --config '/srv/a b/hedgerow.toml' -t '#' --user ines \
--password-file '/srv/a b/ines.password'
Read a sensor:
  hedgerow get 'coap://[fd00::1]:5700/sensors/host/load1'
"""
OF_FLEET_HERE = """2 gateways are written to /srv/f; the password of ines is in /srv/f/ines.password
/srv/f/authority/ca.key.pem makes gateways: keep it where none is

Run each:
  hedgerow run --config /srv/f/gw-a/hedgerow.toml
  hedgerow run --config /srv/f/gw-b/hedgerow.toml
Subscribe:
  hedgerow sub --config /srv/f/gw-a/hedgerow.toml -t '#' --user ines \
--password-file /srv/f/ines.password
Read a sensor:
  hedgerow get coap://127.0.0.1/sensors/host/load1
See the tree:
  hedgerow tree --config /srv/f/gw-a/hedgerow.toml
"""
OF_FLEET_FAR = """2 gateways are written to /srv/f; the password of ines is in /srv/f/ines.password
/srv/f/authority/ca.key.pem makes gateways: keep it where none is

Give out tokens here; the first line goes on:
  hedgerow keys serve --ca /srv/f/authority --listen {here}:8890
  hedgerow keys token --fleet /srv/f gw-a --service {here}:8890
  hedgerow keys token --fleet /srv/f gw-b --service {here}:8890
And on each machine that has the package, with its own token:
  sudo hedgerow join TOKEN
Subscribe:
  hedgerow sub --host {first} --port 8883 --cafile /srv/f/authority/ca.pem -t '#' --user ines \
--password-file /srv/f/ines.password
Read a sensor:
  hedgerow get {uri}
See the tree:
  hedgerow tree --psk-file /srv/f/gw-a/psk {tree}:5684
"""
OF_ADDED = """gw-c is written to /srv/f/gw-c

Run it:
  hedgerow run --config /srv/f/gw-c/hedgerow.toml
It dials the others, which need no change for that. To have them dial it too, add to \
tree.neighbours of each, and reload:
  "127.0.0.1:8883"
"""
OF_ADDED_FAR = """gw-c is written to /srv/f/gw-c

Carry it to its machine:
  scp -rp /srv/f/gw-c [fd00::2]:
And there:
  sudo mv -T gw-c /etc/hedgerow
  sudo chown -R hedgerow: /etc/hedgerow
  sudo systemctl enable --now hedgerow
It dials the others, which need no change for that. To have them dial it too, add to \
tree.neighbours of each, and reload:
  "[fd00::2]:8883"
"""


class Route:
    """A socket of a machine with a way to all others, or with none.

    Args:
        own: its address there; empty for no way.

    """

    def __init__(self, own: str) -> None:
        self._own = own
        self.family = 0

    def __call__(self, family: int, kind: int) -> Route:
        assert kind == socket.SOCK_DGRAM, "nothing is sent"
        self.family = family
        return self

    def __enter__(self) -> Route:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, _: object) -> None:
        if not self._own:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    def getsockname(self) -> tuple[str, int]:
        return self._own, 9


@pytest.fixture
def as_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the service is there, and nobody came by sudo."""
    there = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _: there)
    monkeypatch.setattr(sys, "prefix", "/opt/hedgerow")
    monkeypatch.delenv("SUDO_USER", raising=False)


SECRETS = Secrets("ines", password="not shown")


@pytest.mark.usefixtures("as_who_is_there")
def test_one_gateway_of_the_machine_is_run_by_systemd_and_one_elsewhere_by_its_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    next_steps.of_one(FOLDER, GatewayPlan("gw-a"), SECRETS)
    assert capsys.readouterr().out == OF_ONE
    far = GatewayPlan("gw-a", address="fd00::1", ports=Ports(coap=5700))
    next_steps.of_one(Path("/srv/a b"), far, SECRETS)
    assert capsys.readouterr().out == OF_ONE_ELSEWHERE


@pytest.mark.usefixtures("as_who_is_there")
def test_a_gateway_where_every_command_looks_needs_no_option_that_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    next_steps.of_joined((tmp_path / "hedgerow").resolve(), UNIT)
    assert capsys.readouterr().out == "\nRun it:\n  hedgerow run\n"
    next_steps.of_joined(tmp_path / "other", UNIT)
    expected = f"\nRun it:\n  hedgerow run --config {tmp_path}/other/hedgerow.toml\n"
    assert capsys.readouterr().out == expected


@pytest.mark.usefixtures("as_who_is_there")
@pytest.mark.parametrize(
    ("address", "own", "here", "uri", "tree"),
    [
        ("192.0.2.1", "192.0.2.9", "192.0.2.9", "coap://192.0.2.1/sensors/host/load1", "192.0.2.1"),
        (
            "fd00::1",
            "fd00::9",
            "[fd00::9]",
            "'coap://[fd00::1]/sensors/host/load1'",
            "[fd00::1]",
        ),
        ("192.0.2.1", "", "ADDRESS", "coap://192.0.2.1/sensors/host/load1", "192.0.2.1"),
    ],
    ids=["IPv4", "IPv6", "no way there yet"],
)
def test_a_fleet_of_other_machines_gets_tokens_from_where_they_reach_this_one(
    address: str,
    own: str,
    here: str,
    uri: str,
    tree: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    route = Route(own)
    monkeypatch.setattr(socket, "socket", route)
    plans = fleet([("gw-a", address), ("gw-b", "192.0.2.2")])
    next_steps.of_fleet(Path("/srv/f"), plans, SECRETS)
    said = OF_FLEET_FAR.format(here=here, first=address, uri=uri, tree=tree)
    assert capsys.readouterr().out == said
    assert route.family == (socket.AF_INET6 if ":" in address else socket.AF_INET)


def test_a_fleet_on_this_machine_is_run_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    plans = fleet([("gw-a", "127.0.0.1"), ("gw-b", "127.0.0.1")])
    next_steps.of_fleet(Path("/srv/f"), plans, SECRETS)
    assert capsys.readouterr().out == OF_FLEET_HERE


def test_one_more_gateway_is_run_here_or_carried_to_its_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    next_steps.of_added(Path("/srv/f"), GatewayPlan("gw-c"))
    assert capsys.readouterr().out == OF_ADDED
    next_steps.of_added(Path("/srv/f"), GatewayPlan("gw-c", address="fd00::2"))
    assert capsys.readouterr().out == OF_ADDED_FAR
