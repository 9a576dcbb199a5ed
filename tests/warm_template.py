"""Has imported the `hedgerow` command, and forks a process for each start that it is asked for.

Run by `warm_starts`, with one end of a socket as its only argument. What it forks is a child of
whoever runs the test (CLONE_PARENT) and not its own: signals, exit codes and waiting are the
test's.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import signal
import socket
import sys
from typing import Any, Final

CLONE_PARENT: Final = 0x00008000
CLONE: Final = {"x86_64": 56, "aarch64": 220}
"""The number of the system call, by machine."""
REQUEST_BYTES: Final = 1 << 20
STREAMS: Final = 3
"""Descriptors that come with a request: standard input, output and error."""
JOINED: Final = ("mnt", "net")
"""Namespaces that a new process goes into; their descriptors come behind, where they are others."""


def fork() -> int:
    """Fork a sibling: 0 in the new process, its id in this one."""
    libc, python = ctypes.PyDLL(None, use_errno=True), ctypes.pythonapi
    python.PyOS_BeforeFork()
    found = int(libc.syscall(CLONE[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if found == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Be the process that was asked for, as if it had just been started."""
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace in streams[STREAMS:]:
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), "setns")
    for wanted, given in enumerate(streams[:STREAMS]):
        os.dup2(given, wanted)
    os.closerange(STREAMS, 256)
    if request["new_session"]:
        os.setsid()
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", errors="backslashreplace", closefd=False
    )
    sys.stderr.reconfigure(line_buffering=True)


def serve(asked: socket.socket) -> list[str]:
    """Fork for each request; return the arguments in a process that was forked for one."""
    while True:
        data, streams, _, _ = socket.recv_fds(asked, REQUEST_BYTES, STREAMS + len(JOINED))
        if not data:
            os._exit(0)  # whoever ran the tests has gone
        request = json.loads(data)
        if fork_for(asked, streams):
            continue
        become(request, streams)
        return list(request["arguments"])


def fork_for(asked: socket.socket, streams: list[int]) -> bool:
    """Fork, and tell the number of the new process; whether this is not the new one."""
    number = fork()
    if number:
        for one in streams:
            os.close(one)
        asked.send(str(number).encode())
    return number != 0


def main() -> None:
    """Import, serve, and be what was asked for."""
    del sys.path[0]  # that of the tests
    from gateway.process.running import gateway_process, service
    from gateway.tools import cli

    assert gateway_process and service
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is at the keyboard means the tests
    arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = [str(cli.__file__), *arguments]
    sys.orig_argv = [sys.executable, "-m", "gateway.tools.cli", *arguments]  # what starts it anew
    sys.exit(cli.main())


if __name__ == "__main__":
    main()
