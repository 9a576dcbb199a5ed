"""Starts of `python -m gateway.tools.cli` by a fork of a process that has imported it.

A test that starts a gateway waited most of its time for Python's imports, several hundred times in
a run of all tests. What is started here is a process like any other: of its own number, a child of
the test's process, with its own memory, files and signals, so that a kill is a kill.

Only what is started in just this way is meant: by `subprocess` or `asyncio`, with this Python, in
the namespaces of whoever starts it, and with an environment in which Python itself would behave no
differently. All else, such as what a command brings into another namespace or a container, or what
runs from an installed wheel, starts as ever. HEDGEROW_COLD_STARTS=1 has everything start as ever.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import warm_template

COMMAND: Final = (sys.executable, "-m", "gateway.tools.cli")
VARIABLE: Final = "HEDGEROW_COLD_STARTS"
TEMPLATES_MAX: Final = 2
"""Of one worker at a time, some 60 MiB each; the first one stays."""
_SEEN_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "HEDGEROW_", "MALLOC_", "OPENSSL_", "SSL_")
"""Beginnings of the names of variables that are looked at while Python starts or imports."""
_NAMESPACES: Final = Path("/proc/thread-self/ns")
_PIPES: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_cold_popen = subprocess.Popen
_cold_exec = asyncio.create_subprocess_exec


def _looked_at(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(_SEEN_AT_START)}


def _namespaces() -> dict[str, str]:
    """Tell what this thread sees of the machine: mounts, networks, processes."""
    return {one.name: str(one.readlink()) for one in sorted(_NAMESPACES.iterdir())}


class Template:
    """A process that forks: one that was forked goes into the mounts and network of who asks."""

    def __init__(self, asked: socket.socket, namespaces: Mapping[str, str]) -> None:
        self.asked = asked
        self._joined = {name: namespaces[name] for name in warm_template.JOINED}

    def start(
        self, request: dict[str, Any], streams: list[int], namespaces: Mapping[str, str]
    ) -> int:
        """Start a process in these namespaces, and return its number."""
        with contextlib.ExitStack() as stack:
            others: list[int] = []
            for name, own in self._joined.items():
                if namespaces[name] != own:
                    others.append(os.open(_NAMESPACES / name, os.O_RDONLY | os.O_CLOEXEC))
                    stack.callback(os.close, others[-1])
            socket.send_fds(self.asked, [json.dumps(request).encode()], [*streams, *others])
            return int(self.asked.recv(64))


class Templates:
    """The processes that fork: each is begun with the first start in what it can't leave."""

    def __init__(self) -> None:
        self._environment = _looked_at(os.environ)
        self._one_call = threading.Lock()
        self._templates: dict[tuple[str, ...], Template] = {}
        self._owner = 0

    def would_do(self, environment: Mapping[str, str]) -> bool:
        """Return whether a start with this environment would import the same."""
        return _looked_at(environment) == self._environment

    def start(self, request: dict[str, Any], streams: list[int]) -> int:
        """Start a process that sees the same machine as this one, and return its number."""
        here = _namespaces()
        kept = tuple(one for name, one in here.items() if name not in warm_template.JOINED)
        with self._one_call:
            if self._owner != os.getpid():
                self._templates, self._owner = {}, os.getpid()
            if kept not in self._templates:
                if len(self._templates) >= TEMPLATES_MAX:
                    self._templates.popitem()[1].asked.close()
                self._templates[kept] = Template(self._begin(), here)
            return self._templates[kept].start(request, streams, here)

    def _begin(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (ours, its):  # an environment is long
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, warm_template.REQUEST_BYTES)
        process = _cold_popen(
            [sys.executable, warm_template.__file__, str(its.fileno())],
            pass_fds=(its.fileno(),),
            stdin=subprocess.DEVNULL,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONPATH": _import_path()},
        )
        its.close()
        atexit.register(_ended, process, ours)
        return ours


def _import_path() -> str:
    """Return the path on which the template finds what `-m` finds in the folder of a checkout."""
    if "PYTHONSAFEPATH" in os.environ:
        return os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH", ""))))


def _ended(process: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    process.wait()


_templates = Templates()


class WarmPopen(subprocess.Popen):  # type: ignore[type-arg]  # as generic as its base
    """A `subprocess.Popen` that forks where that comes to the same."""

    def _execute_child(self, *given: Any) -> None:
        names = (
            *("args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env"),
            *("startupinfo", "creationflags", "shell", "p2cread", "p2cwrite", "c2pread"),
            *("c2pwrite", "errread", "errwrite", "restore_signals", "gid", "gids", "uid"),
            *("umask", "start_new_session", "process_group"),
        )
        said = dict(zip(names, given, strict=True))
        environment = os.environ if said["env"] is None else said["env"]
        if not _is_plain(said) or not _templates.would_do(environment):
            super()._execute_child(*given)  # type: ignore[misc]  # subprocess's own
            return
        umask = os.umask(0)
        os.umask(umask)
        streams = [said["p2cread"], said["c2pwrite"], said["errwrite"]]
        request = {
            "arguments": [os.fspath(one) for one in said["args"][len(COMMAND) :]],
            "cwd": os.fspath(said["cwd"] or Path.cwd()),
            "environment": dict(environment),
            "umask": umask,
            "new_session": said["start_new_session"],
        }
        self.pid = _templates.start(
            request, [at if given < 0 else given for at, given in enumerate(streams)]
        )
        self._child_created = True
        self._close_pipe_fds(*(said[name] for name in names if name in _PIPES))  # type: ignore[attr-defined]


def _is_plain(said: Mapping[str, Any]) -> bool:
    arguments = said["args"]
    return (
        isinstance(arguments, list | tuple)
        and tuple(arguments[: len(COMMAND)]) == COMMAND
        and not said["shell"]
        and not said["pass_fds"]
        and said["executable"] is None
        and said["preexec_fn"] is None
        and said["umask"] < 0
        and said["process_group"] < 0
        and [said["gid"], said["gids"], said["uid"]] == [None, None, None]
    )


class WarmProcess:
    """A process as `asyncio.create_subprocess_exec` returns it, around a `WarmPopen`."""

    def __init__(self, popen: subprocess.Popen[bytes], limit: int) -> None:
        self._popen = popen
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self.pid = popen.pid
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._watched = os.pidfd_open(self.pid)
        self._loop.add_reader(self._watched, self._has_ended)

    async def connect(self) -> None:
        """Wrap its pipes."""
        if self._popen.stdin is not None:
            transport, protocol = await self._loop.connect_write_pipe(
                asyncio.streams.FlowControlMixin, self._popen.stdin
            )
            self.stdin = asyncio.StreamWriter(transport, protocol, None, self._loop)
        self.stdout = await self._reading(self._popen.stdout)
        self.stderr = await self._reading(self._popen.stderr)

    async def _reading(self, pipe: Any) -> asyncio.StreamReader | None:
        if pipe is None:
            return None
        reader = asyncio.StreamReader(self._limit, self._loop)
        await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return reader

    def _has_ended(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        code = self._popen.wait()
        if not self._ended.done():
            self._ended.set_result(code)

    @property
    def returncode(self) -> int | None:
        """The exit code, once it has ended."""
        return self._popen.returncode

    async def wait(self) -> int:
        """Wait until it has ended."""
        return await asyncio.shield(self._ended)

    async def communicate(self, data: bytes | None = None) -> tuple[Any, Any]:
        """Give it its input, and read all until it has ended."""

        async def fed() -> None:
            if self.stdin is not None:
                if data:
                    self.stdin.write(data)
                    await self.stdin.drain()
                self.stdin.close()

        async def read(stream: asyncio.StreamReader | None) -> bytes | None:
            return None if stream is None else await stream.read()

        _, out, err = await asyncio.gather(fed(), read(self.stdout), read(self.stderr))
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal; ProcessLookupError if it has ended."""
        if self._popen.returncode is not None:
            raise ProcessLookupError
        self._popen.send_signal(number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


async def _exec(
    program: Any, *arguments: Any, limit: int = 1 << 16, **options: Any
) -> WarmProcess | asyncio.subprocess.Process:
    """As `asyncio.create_subprocess_exec`."""
    command = [program, *arguments]
    environment = options.get("env")
    if tuple(command[: len(COMMAND)]) != COMMAND or not _templates.would_do(
        os.environ if environment is None else environment
    ):
        return await _cold_exec(program, *arguments, limit=limit, **options)
    made = WarmProcess(WarmPopen(command, bufsize=0, **options), limit)
    await made.connect()
    return made


def install() -> None:
    """Have starts of the command be forks from now on, where that is possible."""
    if os.environ.get(VARIABLE) or platform.machine() not in warm_template.CLONE:
        return
    subprocess.Popen = WarmPopen  # type: ignore[misc]  # this is the point
    asyncio.create_subprocess_exec = _exec
    asyncio.subprocess.create_subprocess_exec = _exec
