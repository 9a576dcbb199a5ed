"""The process in which a backup's gateway starts: reads what to do, and prints what came of it.

    python -m gateway.tools.rehearsal < REQUEST > RESULT

Both are JSON: `gateway.tools.rehearsal.running` writes the one and reads the other. Exits with 0
whatever came of it, as long as it can be told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

from gateway.base.toml.toml_file import read
from gateway.mqtt import Connect, Version, encode
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.running import state
from gateway.process.running.gateway_process import GatewayProcess
from gateway.process.state_folder import state_format
from gateway.sensors.stock import NAME as ADDED_SENSORS
from gateway.tools.rehearsal.alone import RestoredFolders, alone, strays

_CONFIG_FILE = "hedgerow.toml"
_ASIDE = "*.damaged-*"
_CONNACK = 2
_ANSWER_S = 30.0


def main() -> int:
    """Start the gateway of the request, end it, and return the exit code."""
    logging.disable(logging.CRITICAL)
    request = json.load(sys.stdin)
    folders = RestoredFolders(
        PurePosixPath(request["config"]),
        PurePosixPath(request["state"]),
        Path(request["config_here"]),
        Path(request["state_here"]),
    )
    try:
        result = rehearse(folders, request["encrypted"])
    except (ConfigError, OSError, ValueError) as error:
        result = {"problems": [str(error)]}
    json.dump(result, sys.stdout)
    return 0


def rehearse(folders: RestoredFolders, encrypted: Collection[str]) -> dict[str, Any]:
    """Read all of a backup that was unpacked, start its gateway, and return what came of it.

    Args:
        folders: where it is.
        encrypted: names of its keys that this machine can't open.

    Raises:
        ConfigError: the gateway does not start.
        OSError: a file can't be read or written.
        ValueError: the configuration is no TOML.

    """
    file = folders.config_here / _CONFIG_FILE
    reading = read(
        alone(tomllib.loads(file.read_text()), folders, encrypted), file, GatewaySettings
    )
    if (settings := reading.settings) is None:
        return {"problems": [f"{_CONFIG_FILE}: {one.where}: {one.why}" for one in reading.faults]}
    if found := strays(settings, folders):
        return {"problems": [f"{one}: no backup has that file" for one in found]}
    (folders.state_here / ADDED_SENSORS).unlink(missing_ok=True)
    before = set(folders.state_here.rglob(_ASIDE))
    state_format.claim(settings.gateway.state_dir)
    told, remarks = _read_log(settings)
    told |= asyncio.run(_start(settings))
    aside = sorted(set(folders.state_here.rglob(_ASIDE)) - before)
    problems = [
        f"{one.relative_to(folders.state_here)}: this release can't read it" for one in aside
    ]
    return {"problems": problems, "remarks": remarks, "holds": told}


def _read_log(settings: GatewaySettings) -> tuple[dict[str, int], list[str]]:
    """Return how much its log holds, read to its end, and what of it is damaged."""
    log = state.open_log(settings)
    try:
        batches = sum(1 for _ in log.read_from(0))
        told = {"batches": batches, "log_bytes": log.length}
        remarks = [f"{log.damaged_bytes} bytes of its log are damaged"] if log.damaged_bytes else []
    finally:
        log.close()
    return told, remarks


async def _start(settings: GatewaySettings) -> dict[str, int]:
    """Start the gateway, ask its broker and itself, and end it; return what it has."""
    process = GatewayProcess(settings)
    await process.start()
    try:
        limits = process.status()["broker"]["limits"]  # before there is a client from here
        await _ask_broker(process.mqtt_port)
        status = process.status()
    finally:
        await process.stop()
    if failure := status["disk"]["failure"]:
        raise ConfigError("gateway.state_dir", failure)
    for part, why in status["failing"].items():
        raise ConfigError(part, why)
    return {
        "sessions": int(limits["sessions"]["used"]),
        "retained": int(limits["retained_messages"]["used"]),
        "members": len(status["members"]),
    }


async def _ask_broker(port: int) -> None:
    """Check that the broker answers a client, even if it lets nobody in.

    Raises:
        ConfigError: it does not.

    """
    connect = Connect(Version.V5, "", True, 0, None, None, None, {}, bridge=False)
    async with asyncio.timeout(_ANSWER_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode(connect, Version.V5))
        answer = await reader.read(1)
        writer.close()
    if not answer or answer[0] >> 4 != _CONNACK:
        raise ConfigError("mqtt", f"its broker answers {answer.hex() or 'nothing'}")


if __name__ == "__main__":
    sys.exit(main())
