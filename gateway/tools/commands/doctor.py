"""`hedgerow doctor`: looks at a gateway and its machine, and says what is wrong and what to do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.base import exit_codes, firmware, remedies
from gateway.tools.commands.errors import FailedError, WrongUseError, reading_an_answer
from gateway.tools.commands.output import print_json

REBOOT = Path("/run/reboot-required")
"""Debian's packages leave it where what they have brought runs from the next boot on."""
RELEASES = Path("/opt/hedgerow")
"""The folder in which deploy/ansible keeps releases."""


def add(commands: Any, add_config: Callable[[argparse.ArgumentParser], None], command: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_config: adds the arguments that name the configuration and a key.
        command: what runs it.

    """
    doctor = commands.add_parser(
        "doctor",
        help="look at this machine's gateway, and say what is wrong and what to do",
        description="Look at the configuration, the running gateway and its links, its broker, "
        "disk, clock, power and certificates, and at the release on trial, on its own machine. "
        "Exits with 1 if anything is wrong; what is worth a look alone is no error.",
    )
    add_config(doctor)
    doctor.set_defaults(command=command, goes_on="looking at the gateway")


def run(options: argparse.Namespace, file: Path) -> int:
    """Look, and print what was found; returns the exit code.

    Args:
        options: of the command line.
        file: the configuration.

    Raises:
        WrongUseError: the file of keys is wrong, or the configuration can't be read.

    """
    from gateway.process.status.doctor import Weight, findings  # noqa: PLC0415  # of use here alone

    seen = _examined(options, file)
    with reading_an_answer():
        found = findings(seen)
    is_wrong = any(one.weight is Weight.WRONG for one in found)
    if options.json:
        print_json({"is_well": not is_wrong, "findings": [asdict(one) for one in found]})
    elif not found:
        sys.stdout.write("nothing is wrong\n")
    for one in () if options.json else found:
        sys.stdout.write(f"{one.weight}  {one.about}: {one.what}\n       {one.advice}\n")
    return exit_codes.FAILED if is_wrong else 0


def _examined(options: argparse.Namespace, file: Path) -> Any:
    from gateway.backups.backup_state import BackupFiles  # noqa: PLC0415
    from gateway.base.lasting_clock import KernelClocks  # noqa: PLC0415
    from gateway.process.fleet_status.machine import processor_temperature_cel  # noqa: PLC0415
    from gateway.process.running import configuration_faults  # noqa: PLC0415
    from gateway.process.status.doctor import DoctorObservations  # noqa: PLC0415

    try:
        faults = configuration_faults.faults_of(file.read_bytes(), file)
    except OSError as error:
        raise WrongUseError(f"{file}: {error.strerror}") from error
    options.config, options.gateway = file, None
    status, silence = _status(options)
    return DoctorObservations(
        faults={fault.told(file): fault.remedy for fault in faults},
        silence="" if silence is None else str(silence),
        silence_remedy=remedies.remedy(silence) if remedies.is_denied(silence) else "",
        status=status,
        broker=None if faults else _broker(file, options.timeout),
        reboot_for=_reboot_for(),
        clock_is_set=KernelClocks().is_synchronised(),
        free_bytes=_free_bytes(file),
        throttled=firmware.bits(Path("/")),
        temperature_c=processor_temperature_cel(),
        releases=_releases(),
        backup=BackupFiles().read(),
    )


def _status(options: argparse.Namespace) -> tuple[dict[str, Any] | None, Exception | None]:
    from gateway.tools.commands import asking  # noqa: PLC0415

    async def ask() -> dict[str, Any]:
        uri = asking.gateway_uri(options) + "/status"
        async with asking.client_for(options, uri) as asker:
            answer = await asker.request("GET", uri, timeout_s=options.timeout)
        return asking.told_in(answer)

    try:
        return asking.run(ask(), options), None
    except FailedError as error:
        return None, error
    except WrongUseError as error:
        if options.psk_file is not None:
            raise
        return None, error


def _broker(file: Path, timeout_s: float) -> str:
    """Return why the broker gives no answer; empty if it does, even if it lets nobody in."""
    import asyncio  # noqa: PLC0415

    from gateway.tools.commands import broker_address  # noqa: PLC0415
    from gateway.tools.commands.mqtt_client import Login, MqttClient, MqttClientError  # noqa: PLC0415

    nobody = argparse.Namespace(config=file, host=None, port=None, cafile=None, cert=None, key=None)

    async def ask() -> str:
        reader, writer = await broker_address.connect(broker_address.find(nobody), timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await MqttClient(reader, writer).connect(Login(), 0)
        except MqttClientError as error:
            return "" if "connection refused:" in str(error) else f"MQTT: {error}"
        except TimeoutError:
            return f"MQTT: no answer within {timeout_s:g} s"
        finally:
            writer.close()
        return ""

    try:
        return asyncio.run(ask())
    except (FailedError, WrongUseError) as error:
        return f"MQTT: {error}"


def _free_bytes(file: Path) -> int | None:
    from gateway.process.configuration import config  # noqa: PLC0415

    try:
        state_dir = config.load(file, config.GatewaySettings).gateway.state_dir
        disk = os.statvfs(state_dir)
    except (OSError, config.ConfigError):
        return None
    return disk.f_bavail * disk.f_frsize


def _reboot_for() -> list[str] | None:
    """Return the packages that want a reboot; None if none does."""
    if not REBOOT.exists():
        return None
    try:
        return sorted(set(REBOOT.with_suffix(".pkgs").read_text(errors="replace").split()))
    except OSError:
        return []


def _releases() -> dict[str, Any] | None:
    from gateway.releases.folder import ReleaseFolder  # noqa: PLC0415
    from gateway.releases.trial import TrialError  # noqa: PLC0415

    folder = ReleaseFolder(RELEASES)
    try:
        trial = folder.trial()
    except PermissionError:  # root's alone, and this user is another
        return None
    except (OSError, TrialError) as error:
        return {"unread": str(error), "last": folder.last()}
    return {"trial": None if trial is None else asdict(trial), "last": folder.last()}
