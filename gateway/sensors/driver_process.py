"""Calls drivers in a process of its own, which is killed where one of them does not come back.

A thread that hangs in a driver can't be ended; a process can, and all that the driver has opened is
closed with it. What it does is `gateway.sensors.driver_child`. Few such processes are there at a
time, and each costs about as much as a Python with the drivers loaded.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgpack

from gateway.sensors.options import DriverHangsError, SensorConfigError
from light_dataclasses import dataclass

START_S: Final = 60.0
"""A busy Pi takes seconds to start a Python; that is no fault of a driver."""
KILLED_S: Final = 1.0
"""So long a killed process is waited for; one that the kernel holds keeps its room."""
LOOK_S: Final = 0.01
MAX_ANSWER_BYTES: Final = 4 << 20
ALARM_AFTER_S: Final = 30.0
"""So much later than its limit a process ends by itself, where nobody is left to kill it."""
_READ_BYTES: Final = 65_536
_NO_SENSE: Final = "its process says what makes no sense"

DriverWork = Literal["read", "build", "describe"]


class NoRoomError(Exception):
    """Too many drivers are called in processes already, or none can be started; says which."""


class ChildFailedError(Exception):
    """A process ended, or answered, otherwise than it should.

    Args:
        where: the table that it was at; empty before the first.
        why: how.

    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.where = where


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """An order for the process of a driver.

    Attributes:
        work: ``read`` each sensor once, ``build`` them alone, or ``describe`` a driver.
        folder: where a developer's own classes are looked for first.
        tables: of sensors, by what to call each in an error; of a driver its ``type`` alone.
        is_afar: the tables were sent here, and may not name files or code of this machine.
        limit_s: for each of them.

    """

    work: DriverWork
    folder: Path | None
    tables: Sequence[tuple[str, Mapping[str, Any]]]
    is_afar: bool
    limit_s: float


class DriverProcesses:
    """Calls drivers in processes, a few at a time; for threads, and not for the event loop.

    Args:
        most: processes at a time.

    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way = 0
        self._killed: set[subprocess.Popen[bytes]] = set()
        """Processes that the kernel still holds."""
        self._lock = threading.Lock()

    def come_of(self, request: DriverRequest) -> Any:
        """Return what a process has found; see `gateway.sensors.driver_child`.

        Raises:
            SensorConfigError: a table is wrong.
            DriverHangsError: a driver does not come back in time.
            NoRoomError: other processes are under way, or hang.
            ChildFailedError: the driver has ended its process, or that failed.

        """
        try:
            packed = pickle.dumps(request)
        except RecursionError as error:
            raise SensorConfigError(request.tables[0][0], "it is nested too deep") from error
        process = self._started()
        try:
            return _told(process, packed, request.limit_s)
        finally:
            self._ended(process)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            self._killed = {one for one in self._killed if one.poll() is None}
            if self._under_way + len(self._killed) >= self._most:
                raise NoRoomError("others are tried, or hang: repeat this later")
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "gateway.sensors.driver_child"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # it is killed with all that it has started
                )
            except OSError as error:
                raise NoRoomError(f"no process can be started: {error.strerror}") from error
            self._under_way += 1
        return process

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(
            ProcessLookupError
        ):  # its number is its own until it is waited for
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what it did not read is not flushed
                if pipe is not None:
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)
        with self._lock:
            self._under_way -= 1
            if process.returncode is None:
                self._killed.add(process)


def _told(process: subprocess.Popen[bytes], request: bytes, driver_limit_s: float) -> Any:
    """Send a request, and follow what is said of it until that is over."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # what it has ended by is told below
        process.stdin.write(request)
        process.stdin.close()
    answers = _Answers(process)
    where, limit_s = "", START_S
    while True:
        match answers.next(limit_s):
            case ["begins", str(where)]:
                limit_s = driver_limit_s
            case ["found", found]:
                return found
            case ["wrong", str(key), str(why)]:
                raise SensorConfigError(key, why)
            case ["failed", str(why)]:
                raise ChildFailedError(where, why)
            case ["ended", str(why)]:
                raise ChildFailedError(where, why)
            case None if where:
                why = f"the driver has not come back within {limit_s:g} s"
                raise DriverHangsError(where, why)
            case None:
                raise ChildFailedError("", f"no Python has come up within {limit_s:g} s")
            case _:
                raise ChildFailedError(where, _NO_SENSE)


class _Answers:
    """The answers of a process, message by message."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe = process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._unpacker = msgpack.Unpacker(max_buffer_size=MAX_ANSWER_BYTES)

    def next(self, limit_s: float) -> Any:
        """Return the next message, or that the process has ended; None if there is none in time."""
        deadline_s = time.monotonic() + limit_s
        try:
            while True:
                with contextlib.suppress(msgpack.OutOfData):
                    return self._unpacker.unpack()
                left_s = max(0.0, deadline_s - time.monotonic())
                if not self._poll.poll(left_s * 1e3):
                    return None
                data = os.read(self._pipe, _READ_BYTES)
                if not data:
                    return ["ended", self._why_ended()]
                self._unpacker.feed(data)
        except (ValueError, msgpack.UnpackException):
            return ["ended", _NO_SENSE]

    def _why_ended(self) -> str:
        deadline_s = time.monotonic() + KILLED_S
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG  # whoever kills its group waits for it
        while (ended := os.waitid(os.P_PID, self._process.pid, look)) is None:
            if time.monotonic() > deadline_s:
                return "the driver has closed what its process answers by"
            time.sleep(LOOK_S)
        kind = "code" if ended.si_code == os.CLD_EXITED else "signal"
        return f"the driver has ended its process, with {kind} {ended.si_status}"
