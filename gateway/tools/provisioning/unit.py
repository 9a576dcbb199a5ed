"""The systemd unit of a gateway (systemd.service(5), systemd.exec(5)).

How the service is confined stands in ``confinement.service``, of which deploy/ansible makes its
unit too.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from gateway.base import exit_codes
from gateway.tools.provisioning.texts import SYSTEM_STATE_DIR
from light_dataclasses import dataclass

_RELOAD = "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'\n"
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""The folders that ProtectHome= hides."""
STARTER = "interpreter.sh"
"""In this package: what starts a program whose interpreter may be gone, as after an upgrade of
Debian, and says so in one line then."""
STARTER_FILES = (STARTER, "whole_release.sh")
"""It, and what it needs beside it."""
INSTALLED = Path("/opt/hedgerow")
"""The folder in which cards, images and Ansible install releases."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment whose program is started by `STARTER`.

    Attributes:
        folder: it, or a folder of releases, whose link ``venv`` leads to one.
        starter: where `STARTER` stands on the machine.
        is_carried: whether copies of interpreters are kept beside the releases: a start whose
            interpreter is gone goes over to one.
        python: the Python of which it is made, which tools such as uv and pyenv keep in a home;
            None for the system's.

    """

    folder: Path
    starter: Path
    is_carried: bool = False
    python: Path | None = None


OF_RELEASES = Environment(INSTALLED, INSTALLED / "interpreter" / STARTER, is_carried=True)
"""That of the release that runs."""


def environment_here() -> Environment | None:
    """Return the environment that this program is of; None if it is of none."""
    if sys.prefix == sys.base_prefix:
        return None
    starter = Path(str(resources.files(__package__))) / STARTER
    return Environment(Path(sys.prefix), starter, python=Path(sys.base_prefix))


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The service of a gateway that systemd runs.

    Attributes:
        gateway_id: whose service it is.
        command: the program, with arguments that come before ``run``.
        user: whom it runs as.
        folder: the gateway's files.
        state_dir: where it writes; the system's is made by systemd.
        environment: what the program is of; None: of the system, or nobody knows.

    """

    gateway_id: str
    command: tuple[str, ...]
    user: str
    folder: Path
    state_dir: Path
    environment: Environment | None = None


_IN_MEMORY = """\
# In memory: here alerts stand while the disk takes nothing, so that a new process tells their end.
# By the unit's name: several gateways on one machine have one each.
RuntimeDirectory=%N
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
"""


def unit(service: ServicePlan) -> str:
    """Return the unit's text."""
    arguments = ("run", "--config", str(service.folder / "hedgerow.toml"))
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
{_start(service, arguments)}SyslogIdentifier=hedgerow
{_RELOAD}Restart=on-failure
RestartSec=2
# A wrong configuration stays wrong; a full disk or an address in use ends with another code.
RestartPreventExitStatus={exit_codes.WRONG_USE}
WatchdogSec=30
User={_escaped(service.user)}
{_state(service)}{_IN_MEMORY}{confinement}\
# For a device of a sensor: PrivateDevices=no, DeviceAllow=/dev/i2c-1 rw
PrivateDevices=yes
{_home(service)}
[Install]
WantedBy=multi-user.target
"""


FIRST_START_FILE = Path("/boot/firmware/hedgerow-first-start.txt")
"""Opens the first start: who has the card in his hand puts it there."""
FIRST_START_CREDENTIAL = "hedgerow-first-start"
"""The name by which systemd hands that file over (LoadCredential=)."""
FIRST_START_UNIT = "hedgerow-first-start.service"


def first_start_unit(service: ServicePlan) -> str:
    """Return the text of the unit that has a browser set up a gateway without an owner.

    Args:
        service: of the gateway that there will be.

    """
    confinement = resources.files(__package__).joinpath("confinement.service").read_text()
    folder, user = _quoted(str(service.folder)), _escaped(service.user)
    return f"""\
[Unit]
Description=First start of a Hedgerow gateway without an owner
ConditionPathExists={FIRST_START_FILE}
# A log-in on the screen begins by taking it away from who writes there.
After=network.target getty.target
StartLimitIntervalSec=0

[Service]
Type=exec
LoadCredential={FIRST_START_CREDENTIAL}:{FIRST_START_FILE}
# What root does, all of it: a folder before, and where there is an owner, the gateway after it.
ExecStartPre=+/usr/bin/install -d -m 0750 -o {user} -g {user} {folder}
{_start(service, ("first-start", str(service.folder)))}\
ExecStopPost=+/bin/sh -c 'test -e {service.folder}/hedgerow.toml || exit 0; \
rm -f {FIRST_START_FILE}; sync; systemctl --no-block start hedgerow.service; \
systemctl --no-reload enable hedgerow.service || true'
# A code that is made here is for the screen, and in no journal.
StandardOutput=file:/dev/console
SyslogIdentifier=hedgerow-first-start
Restart=on-failure
RestartSec=2
# A wrong file of the card stays wrong; an address in use ends with another code.
RestartPreventExitStatus={exit_codes.WRONG_USE}
User={user}
{_state(service)}# It is not there before the first of these steps.
ReadWritePaths=-{folder}
{confinement}\
PrivateDevices=yes

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class CloudService:
    """A service that systemd runs on a collector's server.

    Attributes:
        name: of the command.
        command: the program.
        arguments: those of it.
        user: whom it runs as.
        folder: its files.
        state_dir: where it writes; one below /var/lib is made by systemd.
        written: folders in it, which are there before anything is written.
        reloads: it reads files again at SIGHUP.
        environment: what the program is of; None: of the system, or nobody knows.

    """

    name: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    user: str
    folder: Path
    state_dir: Path
    written: tuple[str, ...] = ()
    reloads: bool = True
    environment: Environment | None = None


def cloud_unit(service: CloudService) -> str:
    """Return the text of the unit of a collector, of the job, or of the dashboard."""
    confinement = resources.files(__package__).joinpath("confinement.service").read_text()
    return f"""\
[Unit]
Description=Hedgerow {service.name}
After=network.target
StartLimitIntervalSec=0

[Service]
{_start(service, service.arguments)}SyslogIdentifier=hedgerow-{_escaped(service.name)}
{_RELOAD if service.reloads else ""}Restart=on-failure
RestartSec=5
# A wrong configuration stays wrong; a full disk or an address in use ends with another code.
RestartPreventExitStatus={exit_codes.WRONG_USE}
User={_escaped(service.user)}
Environment={_quoted(f"HOME={service.state_dir}")}
{_state(service, service.written)}{confinement}\
PrivateDevices=yes
{_home(service)}
[Install]
WantedBy=multi-user.target
"""


def _start(service: ServicePlan | CloudService, arguments: tuple[str, ...]) -> str:
    """Return the lines that start the program."""
    environment = service.environment
    if environment is None:
        return f"ExecStart={_line((*service.command, *arguments))}\n"
    starter, folder = str(environment.starter), str(environment.folder)
    carry = (
        f"ExecStartPre=-+{_line((starter, 'carry', folder))}\n" if environment.is_carried else ""
    )
    return f"{carry}ExecStart={_line((starter, 'run', folder, *arguments))}\n"


def _line(command: tuple[str, ...]) -> str:
    return " ".join(_quoted(each).replace("$", "$$") for each in command)


def _state(service: ServicePlan | CloudService, inside: tuple[str, ...] = ()) -> str:
    name = service.state_dir.name
    if service.state_dir.parent == SYSTEM_STATE_DIR.parent:
        names = " ".join((name, *(f"{name}/{folder}" for folder in inside)))
        return f"StateDirectory={names}\nStateDirectoryMode=0700\n"
    return f"ReadWritePaths={_quoted(str(service.state_dir))}\n"


def _home(service: ServicePlan | CloudService) -> str:
    used = [service.folder, service.state_dir, Path(service.command[0])]
    if service.environment is not None:
        used.append(service.environment.starter)
        if service.environment.python is not None:
            used.append(service.environment.python)
    if not any(path.is_relative_to(home) for path in used for home in HOMES):
        return ""
    why = "# The program or its files are in a home: the last of two such lines holds."
    return f"{why}\nProtectHome=read-only\n"


def _quoted(text: str) -> str:
    escaped = _escaped(text).replace("\\", "\\\\").replace('"', '\\"')
    return escaped if escaped.isascii() and not set(escaped) & set(" \t'\"\\;") else f'"{escaped}"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
