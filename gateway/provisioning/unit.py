"""The systemd unit of a gateway (systemd.service(5), systemd.exec(5)).

How the service is confined stands in ``confinement.service``, of which deploy/ansible makes its
unit too.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gateway.provisioning.texts import SYSTEM_STATE_DIR

EXIT_WRONG_USE = 2
"""What `hedgerow run` ends with where the configuration is wrong (docs/commands.md)."""
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""What ProtectHome= hides."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What systemd runs.

    Attributes:
        gateway_id: whose service it is.
        command: the program, with arguments that come before ``run``.
        user: whom it runs as.
        folder: the gateway's files.
        state_dir: where it writes; the system's is made by systemd.

    """

    gateway_id: str
    command: tuple[str, ...]
    user: str
    folder: Path
    state_dir: Path


def unit(service: ServicePlan) -> str:
    """The unit's text."""
    arguments = (*service.command, "run", "--config", str(service.folder / "hedgerow.toml"))
    confinement = resources.files(__package__).joinpath("confinement.service").read_text()
    return f"""\
[Unit]
Description=Hedgerow gateway {service.gateway_id}
# Not network-online: a gateway without a network still reads and keeps its sensors.
After=network.target
# An appliance never gives up.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={" ".join(_quoted(each).replace("$", "$$") for each in arguments)}
ExecReload=/bin/sh -c 'kill -HUP $MAINPID'
Restart=on-failure
RestartSec=2
# A wrong configuration stays wrong; a full disk or an address in use ends with another code.
RestartPreventExitStatus={EXIT_WRONG_USE}
WatchdogSec=30
User={_escaped(service.user)}
{_state(service)}{confinement}\
# For a device of a sensor: PrivateDevices=no, DeviceAllow=/dev/i2c-1 rw
PrivateDevices=yes
{_home(service)}
[Install]
WantedBy=multi-user.target
"""


def _state(service: ServicePlan) -> str:
    if service.state_dir == SYSTEM_STATE_DIR:
        return f"StateDirectory={SYSTEM_STATE_DIR.name}\nStateDirectoryMode=0700\n"
    return f"ReadWritePaths={_quoted(str(service.state_dir))}\n"


def _home(service: ServicePlan) -> str:
    used = (service.folder, service.state_dir, Path(service.command[0]))
    if not any(path.is_relative_to(home) for path in used for home in HOMES):
        return ""
    why = "# The program or its files are in a home: the last of two such lines holds."
    return f"{why}\nProtectHome=read-only\n"


def _quoted(text: str) -> str:
    escaped = _escaped(text).replace("\\", "\\\\").replace('"', '\\"')
    return escaped if escaped.isascii() and not set(escaped) & set(" \t'\"\\;") else f'"{escaped}"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
