"""Lines of the log of this machine's gateway as they come, wherever the log is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from gateway.base.event_log.lines import FILE_NAME
from gateway.process.configuration import place as config_place
from gateway.tools.commands.errors import FailedError, WrongUseError
from light_dataclasses import dataclass

UNIT: Final = "hedgerow.service"
LINE_BYTES_MAX: Final = 64 << 10
"""A line that is longer is told in parts."""
LOOK_S: Final = 0.25
"""A file is looked at so often for what has come."""
_WRITING: Final = "`hedgerow run --log-file` writes one that `hedgerow logs` finds"
_JOURNAL: Final = Path("/run/systemd/journal/socket")
"""It is there where systemd's journal takes lines (systemd-journald.service(8))."""


class LogSource(Protocol):
    """A log that can be read."""

    def lines(self, *, last: int | None, follows: bool) -> AsyncIterator[str]:
        """Give its lines.

        Args:
            last: so many at the end of what is there; None for all.
            follows: go on with those that come, for ever.

        Raises:
            FailedError: it can't be read.

        """


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """A file that a gateway writes, and that it begins anew when it is full."""

    path: Path

    async def lines(self, *, last: int | None, follows: bool) -> AsyncIterator[str]:
        """Give the lines of the piece before, and of the file over its rotations."""
        try:
            file: BinaryIO = self.path.open("rb")
        except OSError as error:
            raise FailedError(f"{self.path}: {error.strerror}") from error
        try:
            held = deque(self._piece_before(file), last)
            held.extend(_whole(file))
            for line in held:
                yield line
            while follows:
                is_another = self._is_another(file)  # first: what is written until then is read
                for line in _whole(file):
                    yield line
                anew = self._opened() if is_another else None
                if anew is None:
                    await asyncio.sleep(LOOK_S)
                    continue
                for line in _without_end(file):
                    yield line
                file.close()
                file = anew
        finally:
            file.close()

    def _piece_before(self, file: BinaryIO) -> Iterator[str]:
        """Yield the lines of the file that was there before this one, if it was kept."""
        try:
            before = self.path.with_name(f"{self.path.name}.1").open("rb")
        except OSError:
            return
        with before:
            if not os.path.sameopenfile(before.fileno(), file.fileno()):  # begun anew meanwhile
                yield from _whole(before)
                yield from _without_end(before)

    def _opened(self) -> BinaryIO | None:
        try:
            return self.path.open("rb")
        except OSError:  # as in `_is_another`
            return None

    def _is_another(self, file: BinaryIO) -> bool:
        """Return whether the path is another file's by now, or that file is shorter than it was."""
        try:
            now = self.path.stat()
        except OSError:  # between the old one and the new one
            return False
        open_file = os.fstat(file.fileno())
        if (now.st_ino, now.st_dev) != (open_file.st_ino, open_file.st_dev):
            return True
        return open_file.st_size < file.tell()


@dataclass(frozen=True, slots=True)
class UnitJournal:
    """Systemd's journal of one unit, read by journalctl(1)."""

    unit: str

    async def lines(self, *, last: int | None, follows: bool) -> AsyncIterator[str]:
        """Give the lines that journalctl prints of the unit."""
        command = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--unit={self.unit}"]
        command += [f"--lines={'all' if last is None else last}", *(["--follow"] * follows)]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
            )
        except OSError as error:
            raise FailedError(f"journalctl: {error.strerror}") from error
        try:
            assert process.stdout is not None
            async for line in _lines_of(process.stdout):
                yield line
            await self._check(process)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _check(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        said = (await process.stderr.read(LINE_BYTES_MAX)).decode(errors="replace").strip()
        if await process.wait():
            why = said.rpartition("\n")[2] or f"it ended with {process.returncode}"
            raise FailedError(f"journalctl: {why} (the group systemd-journal may read it)")


def find_source(config: Path | None, file: Path | None, unit: str | None = None) -> LogSource:
    """Return where the log is: the file or unit that is named, or else where the gateway writes.

    Args:
        config: of the gateway; None for this machine's.
        file: that a gateway writes.
        unit: of systemd.

    Raises:
        WrongUseError: the configuration is wrong, or the file can't be opened.
        FailedError: there is no log that can be read.

    """
    if file is not None:
        try:
            file.open("rb").close()
        except OSError as error:
            raise WrongUseError(f"--file: {file}: {error.strerror}") from error
        return WrittenLog(file)
    if unit is None:
        found = config if config is not None else config_place.find_readable()
        state_dir = None if found is None else _state_dir(found)
        if state_dir is not None and (state_dir / FILE_NAME).exists():
            return WrittenLog(state_dir / FILE_NAME)
        unit = UNIT if state_dir is None else _unit_of(state_dir)
    if not _JOURNAL.exists() or shutil.which("journalctl") is None:
        raise FailedError(f"this machine has no journal, and there is no {FILE_NAME}; {_WRITING}")
    return UnitJournal(unit)


def _state_dir(config: Path) -> Path:
    from gateway.process.configuration import config as configuration  # noqa: PLC0415  # takes a while

    try:
        settings = configuration.load(config, configuration.GatewaySettings)
    except configuration.ConfigError as error:
        raise WrongUseError(str(error)) from error
    return settings.gateway.state_dir


def _unit_of(state_dir: Path) -> str:
    """Return the unit that a running gateway belongs to; that of an installed one if it does not
    run.

    Raises:
        FailedError: it runs, and is no unit.

    """
    from gateway.process.state_folder import listeners_file  # noqa: PLC0415  # as above

    try:
        told = listeners_file.read(state_dir)
        groups = Path(f"/proc/{int(told['pid'])}/cgroup").read_text()
    except (OSError, ValueError, KeyError, TypeError):
        return UNIT
    unit = unit_in(groups)
    if unit is None:
        raise FailedError(f"{told.get('id')} logs to where it was started; {_WRITING}")
    return unit


def unit_in(groups: str) -> str | None:
    """Return the service of the system that a process belongs to; None if it is none's.

    Args:
        groups: its control groups, as ``/proc/PID/cgroup`` has them (cgroups(7)).

    """
    for line in groups.splitlines():
        path = line.rpartition(":")[2].split("/")
        if path[1:2] == ["system.slice"] and path[-1].endswith(".service"):
            return path[-1]
    return None


def _whole(file: BinaryIO) -> Iterator[str]:
    """Yield the lines that are whole; what is behind the last is read again later."""
    while line := file.readline(LINE_BYTES_MAX):
        if not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode(errors="replace").rstrip("\r\n")


def _without_end(file: BinaryIO) -> Iterator[str]:
    """Yield what is behind the last whole line of a file that nobody goes on with."""
    if rest := file.readline(LINE_BYTES_MAX):
        yield rest.decode(errors="replace")


async def _lines_of(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            line = await stream.readexactly(error.consumed)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                yield error.partial.decode(errors="replace")
            return
        yield line.decode(errors="replace").rstrip("\r\n")
