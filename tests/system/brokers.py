"""Brokers as processes of their own: started, killed by process id, and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Protocol

from disks import Ext4
from ports import free_port

from gateway.log.damage import Damage
from gateway.log.inner_starts import InnerStarts
from tree_handler import batch

START_S = 60.0
"""A start may take so long on a busy machine."""


class BrokerProcess(Protocol):
    """A broker that a test starts, kills and stops."""

    port: int
    state: Path

    async def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it listens."""

    def kill(self) -> None:
        """SIGKILL."""

    async def ended(self) -> int:
        """Wait until the process is gone; its exit code."""

    async def stop(self) -> int:
        """SIGTERM, and wait until the process is gone."""


class _Process:
    """A process whose standard error says when it is up."""

    def __init__(self, port: int, state: Path, up: str) -> None:
        self.port = port
        self.state = state
        self.lines: deque[str] = deque(maxlen=400)
        """The last of what it said, over all its lives."""
        self._up = up
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_up = asyncio.Event()

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether there is a process."""
        return self._process is not None and self._process.returncode is None

    def command(self) -> list[str]:
        raise NotImplementedError

    async def start(self, *, wait: bool = True) -> None:
        self._is_up = asyncio.Event()
        self._process = await asyncio.create_subprocess_exec(
            *self.command(), stderr=asyncio.subprocess.PIPE
        )
        self._reading = asyncio.create_task(self._read(self._process))
        if wait:
            await self.up()

    async def up(self) -> None:
        """Wait until it listens."""
        async with asyncio.timeout(START_S):
            await self._is_up.wait()
        assert self.is_running, "\n".join(self.lines)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode(errors="replace").rstrip()
            self.lines.append(text)
            if self._up in text:
                self._is_up.set()
        await process.wait()
        self._is_up.set()  # whoever waits sees that it is gone

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)  # Popen's own would take its exit code away

    async def ended(self) -> int:
        assert self._process is not None and self._reading is not None
        async with asyncio.timeout(START_S):
            await self._reading
        assert self._process.returncode is not None
        return self._process.returncode

    async def stop(self) -> int:
        self.send_signal(signal.SIGTERM)
        return await self.ended()


class Gateway(_Process):
    """A bare gateway: no neighbours, no sensors, anonymous clients.

    Args:
        folder: for its configuration and key.
        durability: "write" or "sync".
        segment_bytes: of the log; small, so that segments are sealed under load.
        state: its state folder; in ``folder`` if not given.

    """

    def __init__(
        self,
        folder: Path,
        durability: str,
        *,
        segment_bytes: int = 256 << 10,
        state: Path | None = None,
    ) -> None:
        super().__init__(free_port(), state or folder / "state", " is up: mqtt")
        self.config = folder / "gateway.toml"
        (folder / "tree.key").write_text("ab" * 32)
        self.config.write_text(
            f"""
[gateway]
id = "gw"
state_dir = "{self.state}"
status_interval_s = 0
[mqtt]
port = {self.port}
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
dial_back = false
[log]
durability = "{durability}"
segment_bytes = {segment_bytes}
max_bytes = {1 << 30}
[access]
anonymous = true
"""
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(self.config)]


class PoweredGateway(Gateway):
    """A gateway on a file system of its own, which loses power when the gateway is killed.

    See `disks.Ext4` for what that means.
    """

    def __init__(
        self, folder: Path, durability: str, disk: Ext4, *, segment_bytes: int = 32 << 10
    ) -> None:
        state = disk.folder / "state"
        super().__init__(folder, durability, segment_bytes=segment_bytes, state=state)
        self._disk = disk

    async def start(self, *, wait: bool = True) -> None:
        self._disk.mount()
        await super().start(wait=wait)

    def kill(self) -> None:
        if self._disk.is_mounted:
            self._freeze()
            self._disk.cut_power()
        super().kill()

    def _freeze(self) -> None:
        """Have the processor stop before the disk does.

        A call of `fdatasync` in which the disk goes may return as if it had succeeded (the journal
        drops the transaction, and then there is none to wait for): measured with a loop of nothing
        but appends, 1 time in 100. No power cut lets a process live to say so.
        """
        self.send_signal(signal.SIGSTOP)
        tasks = Path("/proc", str(self.pid), "task")
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError
        ):  # it ended by itself, and somebody saw it
            while self.is_running and not all(map(_stands, tasks.glob("*/stat"))):
                time.sleep(0)

    async def ended(self) -> int:
        code = await super().ended()
        self._disk.unmount()
        return code


class Mosquitto(_Process):
    """Mosquitto with persistence, which it writes when it is told to stop and not before."""

    def __init__(self, folder: Path) -> None:
        state = folder / "mosquitto"
        state.mkdir()
        super().__init__(free_port(), state, " running")
        self.config = folder / "mosquitto.conf"
        self.config.write_text(
            f"""
listener {self.port} 127.0.0.1
allow_anonymous true
allow_duplicate_messages false
persistence true
persistence_location {state}/
autosave_interval 0
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
log_dest stderr
log_type all
user root
"""
        )

    def command(self) -> list[str]:
        program = shutil.which("mosquitto")
        assert program is not None
        return [program, "-c", str(self.config)]


def _stands(stat: Path) -> bool:
    """Return whether a thread stands still: stopped, in an uninterruptible disk call, or gone."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in "TDZX"
    except OSError:
        return True


def logged(state: Path) -> set[bytes]:
    """The payloads of all messages in a gateway's log, as any reader of batches finds them.

    A power cut may leave zeros at the end of each segment that was not synced, also of one behind
    which the next was begun: ext4's journal may tell its length before the disk has its data.
    Nothing that was acknowledged stood there, which is what this is read for.
    """
    found = set()
    inner = InnerStarts(state / "log")
    inner.load(is_new=False)
    for segment in (state / "log").glob("*.log"):
        data = segment.read_bytes()
        for at, header in Damage(inner).readable(segment, data):
            found |= {e.payload for e in batch.decode(data[at : at + header.end], header)}
    return found


class CutOff:
    """A broker that lives, and whose network fails where others are killed.

    Args:
        broker: the broker behind it.

    """

    def __init__(self, broker: _Process) -> None:
        self.port = free_port()
        self.state = broker.state
        self._broker = broker
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self, *, wait: bool = True) -> None:
        if not self._broker.is_running:
            await self._broker.start(wait=wait)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_broker = await asyncio.open_connection("127.0.0.1", self._broker.port)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, to_broker[1]}
        self._open |= both
        try:
            await asyncio.gather(_copy(reader, to_broker[1]), _copy(to_broker[0], writer))
        finally:
            for one in both:
                one.transport.abort()
            self._open -= both

    def kill(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()

    async def ended(self) -> int:
        return 0

    async def stop(self) -> int:
        self.kill()
        return await self._broker.stop()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
