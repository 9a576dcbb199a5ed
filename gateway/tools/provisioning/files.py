"""The files of a new gateway, and of a new fleet."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gateway.process.configuration import place as config_place
from gateway.tools.provisioning import texts
from gateway.tools.provisioning.new_folder import write
from gateway.tools.provisioning.plan import GatewayPlan
from gateway.tools.provisioning.secret import MODE, Secrets
from gateway.tools.provisioning.unit import Environment, ServicePlan, unit
from gateway.tools.provisioning.welcome import SHARED, Welcome
from gateway.trust.certificates import founding
from gateway.trust.tls.peer_certificate import GATEWAY_ROLE
from light_dataclasses import dataclass

AUTHORITY = "authority"
CONFIGURATION = "hedgerow.toml"
OPEN_MODE = 0o644
SYSTEM_USER = "hedgerow"
"""The user that a gateway of the system runs as; deploy/ansible's name for it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The program and the user that run gateways on this machine.

    Attributes:
        command: the program, with arguments that come before ``run``.
        user: who runs them, but for those of the system.
        environment: what the program is of; None: of the system, or nobody knows.

    """

    command: tuple[str, ...]
    user: str
    environment: Environment | None = None


ELSEWHERE = Machine(("/opt/hedgerow/bin/hedgerow",), SYSTEM_USER)
"""Another machine: `next_steps` says how the program comes to stand there."""


def write_one(
    fresh: Path, folder: Path, plan: GatewayPlan, secrets: Secrets, machine: Machine
) -> None:
    """Write all files of one gateway.

    Args:
        fresh: where they are written.
        folder: where they will be.
        plan: of the gateway.
        secrets: of its user.
        machine: what runs it.

    Raises:
        OSError: a file can't be written.

    """
    secrets.write_password(fresh)
    authority = _authority(fresh / AUTHORITY, [plan]) if plan.has_tls else None
    _write_gateway(fresh, folder, plan, secrets, machine)
    if authority is not None:
        write_certificates(fresh, authority, plan.id)


def write_fleet(
    fresh: Path, folder: Path, plans: Sequence[GatewayPlan], secrets: Secrets, machine: Machine
) -> None:
    """Write a folder for each gateway of a fleet, and what they have in common.

    Those that other machines reach are to be copied to /etc/hedgerow there.

    Args:
        fresh: where the files are written.
        folder: where they will be.
        plans: of the gateways.
        secrets: that they share.
        machine: what runs them, if they are on this one.

    Raises:
        OSError: a file can't be written.

    """
    secrets.write_password(fresh)
    authority = _authority(fresh / AUTHORITY, plans)
    for plan in plans:
        own = fresh / plan.id
        own.mkdir()
        own.chmod(0o755)
        runs = machine if plan.is_local else ELSEWHERE
        _write_gateway(own, _home(folder, plan), plan, secrets, runs)
        write_certificates(own, authority, plan.id)


def names_of_one(plan: GatewayPlan, secrets: Secrets) -> list[str]:
    """Return what `write_one` writes into a folder, the telling ones first."""
    names = [CONFIGURATION, "access.toml", "passwords", "psk", "tree.key", secrets.password_name]
    return [*names, "hedgerow.service", "state", *(("tls", AUTHORITY) if plan.has_tls else ())]


def names_of_fleet(plans: Sequence[GatewayPlan], secrets: Secrets) -> list[str]:
    """Return what `write_fleet` writes into a folder."""
    return [*(plan.id for plan in plans), AUTHORITY, secrets.password_name]


def write_member(
    fresh: Path,
    folder: Path,
    plan: GatewayPlan,
    user: str,
    write_shared: Callable[[Path], None],
    machine: Machine,
) -> None:
    """Write one gateway of a fleet that is there, but for its certificates.

    Args:
        fresh: where it is written.
        folder: the fleet's.
        plan: of the gateway.
        user: who may write.
        write_shared: writes policy, passwords and keys into a folder.
        machine: what runs it, if it is on this one.

    Raises:
        OSError: a file can't be written.

    """
    runs = machine if plan.is_local else ELSEWHERE
    _write_own(fresh, _home(folder, plan), plan, user, runs)
    write_shared(fresh)


def write_joined(
    fresh: Path, folder: Path, welcome: Welcome, tls: Mapping[str, str], machine: Machine
) -> None:
    """Write a gateway of a fleet that is elsewhere.

    Args:
        fresh: where it is written.
        folder: where it will be.
        welcome: what the fleet hands it.
        tls: the text of each of its certificates and keys, by the file's name.
        machine: what runs it.

    Raises:
        OSError: a file can't be written.

    """
    _write_own(fresh, folder, welcome.plan, welcome.user, machine)
    for name in SHARED:
        write(fresh / name, welcome.shared[name], OPEN_MODE if name == "access.toml" else MODE)
    (fresh / "tls").mkdir(mode=0o755)
    for name, text in tls.items():
        write(fresh / "tls" / name, text, MODE if ".key" in name else OPEN_MODE)


def _home(folder: Path, plan: GatewayPlan) -> Path:
    return folder / plan.id if plan.is_local else config_place.SYSTEM.parent


def _write_gateway(
    fresh: Path, home: Path, plan: GatewayPlan, secrets: Secrets, machine: Machine
) -> None:
    _write_own(fresh, home, plan, secrets.user, machine)
    policy = texts.policy(secrets.user, has_page=plan.has_page, device=secrets.device)
    write(fresh / "access.toml", policy, OPEN_MODE)
    secrets.write_hidden(fresh)


def _write_own(
    fresh: Path, home: Path, plan: GatewayPlan, gateway_user: str, machine: Machine
) -> None:
    is_systems = home == config_place.SYSTEM.parent
    text = texts.configuration(plan, gateway_user, is_systems=is_systems)
    write(fresh / CONFIGURATION, text, OPEN_MODE)
    state_dir = texts.SYSTEM_STATE_DIR if is_systems else home / "state"
    if not is_systems:  # what the unit lets the service write to has to be there
        (fresh / "state").mkdir(mode=0o700)
    user = SYSTEM_USER if is_systems else machine.user
    service = ServicePlan(plan.id, machine.command, user, home, state_dir, machine.environment)
    write(fresh / unit_name(plan), unit(service), OPEN_MODE)


def unit_name(plan: GatewayPlan) -> str:
    """Return the name of a gateway's unit; several on one machine have several."""
    alone, beside_others = unit_names(plan.id)
    return beside_others if plan.has_neighbours_here else alone


def unit_names(name: str) -> tuple[str, str]:
    """Return the names that a gateway's unit may have: alone on its machine, and beside others."""
    return "hedgerow.service", f"hedgerow-{name}.service"


def _authority(folder: Path, plans: Sequence[GatewayPlan]) -> Path:
    authority = founding.found(folder)
    for plan in plans:
        authority.issue(plan.id, [plan.address])
    authority.revoke()
    return folder


def write_certificates(fresh: Path, authority: Path, name: str, kind: str = GATEWAY_ROLE) -> None:
    """Copy what the authority has for a gateway or collector into its folder.

    Args:
        fresh: the folder.
        authority: the authority's.
        name: whose certificate it is.
        kind: begins the names of its own files.

    Raises:
        OSError: a file can't be read or written.

    """
    folder = fresh / "tls"
    folder.mkdir()
    folder.chmod(0o755)
    for source, target in (
        ("ca.pem", "ca.pem"),
        ("revoked.pem", "revoked.pem"),
        (f"{name}.pem", f"{kind}.pem"),
        (f"{name}.key.pem", f"{kind}.key.pem"),
    ):
        shutil.copyfile(authority / source, folder / target)
        (folder / target).chmod(MODE if ".key" in target else OPEN_MODE)
