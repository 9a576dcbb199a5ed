"""The gateway that is measured: a process on this machine alone, in a folder of its own.

It has nothing in common with the gateway that serves: no port, no file, no neighbour. Both it and
what loads it give way to whatever else runs (nice).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from gateway.process.state_folder import listeners_file
from gateway.tools.bench.errors import BenchError

NICE: Final = 10
START_S: Final = 60.0
STOP_S: Final = 30.0
SENSOR: Final = "bench"
_LOOK_S: Final = 0.02
_FOLDER: Final = "bench-"
_TOLD: Final = 2000


class MeasuredGateway:
    """The process.

    Args:
        folder: on the disk that is measured; it gets a folder of its own there.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=folder))
        self._process: asyncio.subprocess.Process | None = None
        self._told: dict[str, Any] = {}

    @property
    def folder(self) -> Path:
        """Return the folder that `remove` takes away."""
        return self._folder

    async def start(self) -> float:
        """Start it; return how long that took, in seconds.

        Raises:
            BenchError: it does not start.

        """
        loop = asyncio.get_running_loop()
        log = self._folder / "log"
        with log.open("wb") as output:
            began_s = loop.time()
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gateway.tools.cli",
                "run",
                "--config",
                str(self._configure()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        while not self._is_up():
            if process.returncode is not None or loop.time() > began_s + START_S:
                said = log.read_text(errors="replace")[-_TOLD:].strip()
                raise BenchError(f"the gateway to be measured does not start: {said or 'no word'}")
            await asyncio.sleep(_LOOK_S)
        return loop.time() - began_s

    async def stop(self) -> None:
        """End it, if it runs."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def remove(self) -> None:
        """Take all away that it wrote."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def port(self, scheme: str) -> int:
        """Return the port of ``mqtt`` or ``coap``."""
        return int(str(self._told[scheme]).rpartition(":")[2])

    @property
    def memory_bytes(self) -> int:
        """Return the process's memory, files that are mapped among it."""
        fields = self._proc("statm").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_s(self) -> float:
        """Processor time since its start."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _proc(self, name: str) -> str:
        assert self._process is not None
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        except OSError as error:
            raise BenchError("the gateway that was measured has ended") from error

    def _is_up(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            self._told = listeners_file.read(self._folder / "state")
        return bool(self._told)

    def _configure(self) -> Path:
        key, file = self._folder / "tree.key", self._folder / "gateway.toml"
        key.touch(0o600)
        key.write_text(os.urandom(32).hex())
        file.write_text(
            f"""
[gateway]
id = "bench"
state_dir = "{self._folder}/state"
[mqtt]
host = "127.0.0.1"
port = 0
[coap]
host = "127.0.0.1"
port = 0
[tree]
key_file = "{key}"
discovery = false
[console]
enabled = false
[access]
anonymous = true
[[sensors]]
type = "replay"
name = "{SENSOR}"
series = "irradiance"
interval_s = 3600
"""
        )
        return file


def remove_left(folder: Path) -> None:
    """End the gateways of runs that were killed, and take away what they left."""
    for left in folder.glob(f"{_FOLDER}[0-9]*-*"):
        number = left.name.removeprefix(_FOLDER).partition("-")[0]
        if number.isdigit() and not Path(f"/proc/{number}").exists():
            _end(left)
            shutil.rmtree(left, ignore_errors=True)


def _end(left: Path) -> None:
    """End the gateway of a folder: only what names that folder is it, whatever has its number."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        process_id = int(listeners_file.read(left / "state")["pid"])
        arguments = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
        if f"{left}/gateway.toml".encode() in arguments:
            os.kill(process_id, signal.SIGTERM)
