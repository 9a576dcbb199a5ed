"""Last words of `hedgerow init`: where everything is, and what to type next."""

from __future__ import annotations

import os
import pwd
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.process.configuration import place as config_place
from gateway.tools.commands import new_files

if TYPE_CHECKING:
    from gateway.tools.provisioning.collecting import CollectorPlan
    from gateway.tools.provisioning.plan import GatewayPlan
    from gateway.tools.provisioning.secret import Secrets

SERVICE_PORT = 8890
"""The port at which `hedgerow keys serve` is told to listen."""
_ADD_USER = "useradd --system --no-create-home --shell /usr/sbin/nologin hedgerow"


def of_one(folder: Path, plan: GatewayPlan, secrets: Secrets) -> None:
    """Say where one gateway is, and what to type next."""
    password = folder / secrets.password_name
    config = _config_option(folder)
    sys.stdout.write(
        f"{plan.id} is written to {folder}; the password of {secrets.user} is in {password}\n"
    )
    if plan.has_tls:
        sys.stdout.write(f"Clients trust {folder}/tls/ca.pem (--cafile)\n")
    if folder == config_place.SYSTEM.parent:
        sys.stdout.write("\nLet systemd run it, as a user of its own:\n")
        _say_own_service(folder, folder / "hedgerow.service")
    else:
        sys.stdout.write(
            f"\nRun it (or: sudo systemctl enable --now {_shell(folder / 'hedgerow.service')}):\n"
            f"  hedgerow run{config}\n"
        )
    _say_first_reading(config, plan, secrets, password)


def of_fleet(folder: Path, plans: Sequence[GatewayPlan], secrets: Secrets) -> None:
    """Say where a fleet is, and what to type next."""
    from gateway.tools.provisioning.files import AUTHORITY  # noqa: PLC0415

    password, first = folder / secrets.password_name, plans[0]
    sys.stdout.write(
        f"{len(plans)} gateways are written to {folder}; the password of {secrets.user} is in "
        f"{password}\n{folder / AUTHORITY}/ca.key.pem makes gateways: keep it where none is\n"
    )
    config = f" --config {_shell(folder / first.id / 'hedgerow.toml')}"
    if first.is_local:
        sys.stdout.write("\nRun each:\n")
        for one in plans:
            path = _shell(folder / one.id / "hedgerow.toml")
            sys.stdout.write(f"  hedgerow run --config {path}\n")
    else:
        _say_joins(folder, plans)
        cafile = _shell(folder / AUTHORITY / "ca.pem")
        config = f" --host {first.address} --port {first.ports.mqtts} --cafile {cafile}"
    _say_first_reading(config, first, secrets, password)
    if first.is_local:
        sys.stdout.write(f"See the tree:\n  hedgerow tree{config}\n")
    else:
        key, where = _shell(folder / first.id / "psk"), first.at(first.ports.coaps)
        sys.stdout.write(f"See the tree:\n  hedgerow tree --psk-file {key} {where}\n")


def _say_joins(folder: Path, plans: Sequence[GatewayPlan]) -> None:
    """Say how each machine becomes a gateway of a fleet by a token of its own."""
    from gateway.tools.provisioning.files import AUTHORITY  # noqa: PLC0415

    service = _own_address(plans[0].address)
    sys.stdout.write(
        "\nGive out tokens here; the first line goes on:\n"
        f"  hedgerow keys serve --ca {_shell(folder / AUTHORITY)} --listen {service}\n"
    )
    for one in plans:
        fleet = f"--fleet {_shell(folder)} {one.id}"
        sys.stdout.write(f"  hedgerow keys token {fleet} --service {service}\n")
    sys.stdout.write(
        "And on each machine that has the package, with its own token:\n"
        "  sudo hedgerow join TOKEN\n"
    )


def _own_address(towards: str) -> str:
    """Return where another machine reaches the service of keys here, as ``host:port``."""
    family = socket.AF_INET6 if ":" in towards else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((towards, SERVICE_PORT))  # sends nothing
            own = str(asked.getsockname()[0])
    except OSError:  # there is no way there yet
        own = "ADDRESS"
    return f"[{own}]:{SERVICE_PORT}" if ":" in own else f"{own}:{SERVICE_PORT}"


def _say_carried(folder: Path, plan: GatewayPlan) -> None:
    """Say how a gateway's folder comes to a machine that has the Debian package."""
    target = f"[{plan.address}]" if ":" in plan.address else plan.address
    home = config_place.SYSTEM.parent
    sys.stdout.write(
        f"\nCarry it to its machine:\n  scp -rp {_shell(folder / plan.id)} {target}:\n"
        f"And there:\n  sudo mv -T {plan.id} {home}\n  sudo chown -R hedgerow: {home}\n"
        "  sudo systemctl enable --now hedgerow\n"
    )


def _say_server(folder: Path, units: str) -> None:
    """Say how a collector comes to a server, and the program to where its units have it."""
    from gateway.tools.provisioning import collecting, files  # noqa: PLC0415

    environment, home = Path(files.ELSEWHERE.command[0]).parents[1], collecting.SYSTEM
    sys.stdout.write(
        "\nCarry it to its server, and this project's folder:\n"
        f"  scp -rp {_shell(folder)} SERVER:\n"
        "And there, in the project's folder:\n"
        f"  sudo python3 -m venv {environment}\n"
        f"  sudo {environment}/bin/pip install '.[cloud,java]'\n"
        f"  sudo mv -T ~/{_shell(folder.name)} {home}\n"
        f"  sudo {_ADD_USER}\n"
        f"  sudo chown -R hedgerow: {home}\n"
        f"  sudo systemctl enable --now {units}\n"
    )


def _say_own_service(folder: Path, unit: Path) -> None:
    """Say it of this machine, where the user may be there already and the unit a package's."""
    try:
        pwd.getpwnam("hedgerow")
    except KeyError:
        _say_service(folder, new_files.service(unit))
    else:
        _say_start(folder, new_files.service(unit))


def _say_service(folder: Path, unit: Path | str) -> None:
    sys.stdout.write(f"  {_sudo()}{_ADD_USER}\n")
    _say_start(folder, unit)


def _say_start(folder: Path, unit: Path | str) -> None:
    sudo = _sudo()
    sys.stdout.write(
        f"  {sudo}chown -R hedgerow: {folder}\n  {sudo}systemctl enable --now {unit}\n"
    )


def _sudo() -> str:
    """Return ``sudo`` for commands of root, if this user became root by it."""
    return "sudo " if os.geteuid() == 0 and "SUDO_USER" in os.environ else ""


def of_added(folder: Path, plan: GatewayPlan) -> None:
    """Say where one more gateway of a fleet is, and what to type next."""
    sys.stdout.write(f"{plan.id} is written to {folder / plan.id}\n")
    if plan.is_local:
        path = _shell(folder / plan.id / "hedgerow.toml")
        sys.stdout.write(f"\nRun it:\n  hedgerow run --config {path}\n")
    else:
        _say_carried(folder, plan)
    sys.stdout.write(
        "It dials the others, which need no change for that. To have them dial it too, add to "
        f'tree.neighbours of each, and reload:\n  "{plan.at(plan.ports.mqtts)}"\n'
    )


def of_joined(folder: Path, unit: Path) -> None:
    """Say how a gateway that has joined a fleet is started."""
    if folder == config_place.SYSTEM.parent:
        sys.stdout.write("\nLet systemd run it, as a user of its own:\n")
        _say_own_service(folder, unit)
    else:
        sys.stdout.write(f"\nRun it:\n  hedgerow run{_config_option(folder)}\n")


def of_collector(folder: Path, plan: CollectorPlan) -> None:
    """Say where a collector is, and what to type next."""
    from gateway.tools.provisioning import collecting  # noqa: PLC0415

    sys.stdout.write(f"{plan.id} is written to {folder}\n")
    runs = collecting.commands(plan)
    if plan.is_local:
        sys.stdout.write("\nRun each (ingest needs: pip install 'hedgerow[cloud,java]'):\n")
        for arguments in runs.values():
            sys.stdout.write(f"  hedgerow {shlex.join(arguments)}\n")
    else:
        units = [str(collecting.SYSTEM / collecting.unit_name(name)) for name in runs]
        _say_server(folder, " ".join(units))
    rows = "select count(*) from telemetry"
    sys.stdout.write(
        f"See the first rows:\n  hedgerow query --tables {_shell(plan.tables)} {_shell(rows)}\n"
        f"and the fleet at http://{collecting.DASHBOARD}/\n"
    )


def _say_first_reading(config: str, plan: GatewayPlan, secrets: Secrets, password: Path) -> None:
    uri = f"coap://{plan.at(plan.ports.coap)}/sensors/host/load1"
    if plan.ports.coap == 5683:
        uri = uri.replace(":5683/", "/")
    sys.stdout.write(
        f"Subscribe:\n  {_sudo()}hedgerow sub{config} -t '#' --user {secrets.user} "
        f"--password-file {_shell(password)}\n"
        f"Read a sensor:\n  hedgerow get {_shell(uri) if '[' in uri else uri}\n"
    )


def _config_option(folder: Path) -> str:
    is_default = folder in (config_place.SYSTEM.parent, config_place.own().parent.resolve())
    return "" if is_default else f" --config {_shell(folder / 'hedgerow.toml')}"


def _shell(path: Path | str) -> str:
    return shlex.quote(str(path))
