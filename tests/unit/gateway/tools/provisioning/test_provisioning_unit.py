"""Goal: the unit of `hedgerow init` runs what was installed, and writes its state alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.base import exit_codes
from gateway.tools.provisioning import new_folder
from gateway.tools.provisioning.unit import Environment, ServicePlan, first_start_unit, unit


def lines(
    folder: str, state_dir: str, program: str = "/opt/hedgerow/venv/bin/hedgerow"
) -> list[str]:
    made = unit(ServicePlan("gw", (program,), "hedgerow", Path(folder), Path(state_dir)))
    return made.splitlines()


def test_the_system_s_has_its_state_made_by_systemd() -> None:
    made = lines("/etc/hedgerow", "/var/lib/hedgerow")
    program = "/opt/hedgerow/venv/bin/hedgerow"
    assert f"ExecStart={program} run --config /etc/hedgerow/hedgerow.toml" in made
    assert "StateDirectory=hedgerow" in made
    assert {"RuntimeDirectory=%N", "RuntimeDirectoryPreserve=yes"} <= set(made)
    assert "User=hedgerow" in made
    assert "ProtectHome=read-only" not in made


def test_each_of_two_gateways_on_a_machine_keeps_its_alerts_in_a_folder_of_its_own() -> None:
    made = lines("/srv/gw", "/srv/gw/state")
    # systemd.unit(5): the unit's name without ".service", as `files.unit_name` gives it.
    assert {"RuntimeDirectory=%N", "RuntimeDirectoryPreserve=yes"} <= set(made)


def test_a_user_s_own_may_write_its_state_and_read_its_home() -> None:
    made = lines("/home/pi/.config/hedgerow", "/home/pi/.config/hedgerow/state")
    assert "ReadWritePaths=/home/pi/.config/hedgerow/state" in made
    # The last one holds.
    assert [line for line in made if line.startswith("ProtectHome")] == [
        "ProtectHome=yes",
        "ProtectHome=read-only",
    ]


def test_a_python_in_a_home_is_not_hidden_from_a_service_that_stands_elsewhere() -> None:
    """Tools such as uv and pyenv keep it there."""
    starter = Path("/srv/hedgerow/interpreter.sh")
    python = Path("/home/pi/.local/share/uv/python/cpython-3.12")
    environment = Environment(Path("/srv/hedgerow/venv"), starter, python=python)
    folders = Path("/etc/hedgerow"), Path("/var/lib/hedgerow")
    made = unit(
        ServicePlan("gw", ("/srv/hedgerow/venv/bin/hedgerow",), "hedgerow", *folders, environment)
    )
    assert made.count("ProtectHome=") == 2
    assert made.index("ProtectHome=yes") < made.index("ProtectHome=read-only")


@pytest.mark.parametrize(
    ("folder", "written"),
    [
        ("/srv/a b", '"/srv/a b/hedgerow.toml"'),
        ("/srv/100%", "/srv/100%%/hedgerow.toml"),
        ("/srv/$a", "/srv/$$a/hedgerow.toml"),
        ('/srv/"a"', '"/srv/\\"a\\"/hedgerow.toml"'),
    ],
)
def test_paths_are_written_as_systemd_reads_them(folder: str, written: str) -> None:
    made = lines(folder, "/var/lib/hedgerow")
    assert f"ExecStart=/opt/hedgerow/venv/bin/hedgerow run --config {written}" in made


def test_neither_unit_starts_a_wrong_configuration_again_and_again() -> None:
    told = f"RestartPreventExitStatus={exit_codes.WRONG_USE}"
    assert told in lines("/etc/hedgerow", "/var/lib/hedgerow")
    roles = Path(__file__).parents[5] / "deploy/ansible/roles"
    for role in ("gateway", "cloud"):
        assert told in (roles / role / "templates/hedgerow.service.j2").read_text().splitlines()


def test_it_is_confined_as_deploy_ansible_confines_it() -> None:
    made = lines("/etc/hedgerow", "/var/lib/hedgerow")
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert line in made
    template = Path(__file__).parents[5] / "deploy/ansible/roles/gateway/templates"
    assert (
        "/gateway/tools/provisioning/confinement.service"
        in (template / "hedgerow.service.j2").read_text()
    )


def test_while_it_is_written_a_folder_of_secrets_is_its_owners_alone(tmp_path: Path) -> None:
    def fill(fresh: Path) -> None:
        assert stat.S_IMODE(fresh.stat().st_mode) == 0o700
        (fresh / "key.pem").write_text("secret")

    new_folder.make(tmp_path / "gw", fill)
    assert stat.S_IMODE((tmp_path / "gw").stat().st_mode) == 0o755


def test_a_first_start_writes_the_gateways_folders_alone_and_root_follows_an_owner() -> None:
    folder, state = Path("/etc/hedgerow"), Path("/var/lib/hedgerow")
    plan = ServicePlan("gw", ("/opt/hedgerow/venv/bin/hedgerow",), "hedgerow", folder, state)
    made = first_start_unit(plan).splitlines()
    assert "ExecStart=/opt/hedgerow/venv/bin/hedgerow first-start /etc/hedgerow" in made
    assert [line for line in made if line.startswith("ReadWritePaths")] == [
        "ReadWritePaths=-/etc/hedgerow"
    ]
    for line in ("CapabilityBoundingSet=", "ProtectSystem=strict", "NoNewPrivileges=yes"):
        assert line in made
    [after] = [line for line in made if line.startswith("ExecStopPost")]
    assert after.startswith("ExecStopPost=+/bin/sh -c 'test -e /etc/hedgerow/hedgerow.toml || exit")
