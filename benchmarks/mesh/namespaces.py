"""Network namespaces of a run's own, which never outlive it.

Each is named after the process that made it. A run that was killed could not clean up behind
itself, so the next one does: it takes away every namespace whose process is gone, and what
still runs in it. Needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path("/run/netns")
"""The folder in which iproute2 keeps the names."""
TUN = Path("/dev/net/tun")
KILLED_S = 10.0
"""A process that was killed has ended by then, or is left to the kernel."""
PROGRAMS = (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables"))
"""Programs that are needed, and the Debian package that has each."""

_NAME = re.compile(r"hedge(\d+)-\w+")
_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET."""
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count(1)


class BedError(RuntimeError):
    """The kernel or iproute2 does not do what is asked of it; the message holds its words."""


def why_not() -> str | None:
    """Return why there can be no namespaces here, or None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root: run it with sudo"
    for program, package in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed: sudo apt-get install {package}"
    if not TUN.exists():
        return f"{TUN} does not exist: modprobe tun"
    return None


def run(*command: str, script: str | None = None) -> str:
    """Run a command and return what it says.

    Raises:
        BedError: it failed.

    """
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BedError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Namespace:
    """One network namespace, with loopback up and a firewall that lets everything pass.

    Args:
        what: the last part of its name: letters and digits.

    """

    def __init__(self, what: str) -> None:
        self.name = f"hedge{os.getpid()}-{next(_numbers)}{what}"
        run("ip", "netns", "add", self.name)
        try:
            self.ip("link", "set", "lo", "up")
            self.nft(
                "table inet cut {\n"
                " set silent { type ipv4_addr; }\n"
                " set refused { type ipv4_addr; }\n"
                " chain input {\n"
                "  type filter hook input priority 0;\n"
                "  ip saddr @silent counter drop\n"
                "  ip saddr @refused tcp flags rst accept\n"
                "  ip saddr @refused meta l4proto tcp reject with tcp reset\n"
                "  ip saddr @refused drop\n"
                " }\n"
                "}\n"
            )
        except BaseException:
            self.remove()
            raise

    def ip(self, *arguments: str) -> str:
        """`ip` within it."""
        return run("ip", "-n", self.name, *arguments)

    def nft(self, script: str) -> None:
        """`nft` within it."""
        run(*self.command("nft", "-f", "-"), script=script)

    def command(self, *command: str) -> list[str]:
        """Return what runs a command within it; the process is that of the command itself."""
        return ["ip", "netns", "exec", self.name, *command]

    def socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """Return an IPv4 socket whose network is this one, wherever it is used."""
        with self.entered():
            return socket.socket(socket.AF_INET, kind)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the calling thread's network for a moment."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter_path(FOLDER / self.name)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(home)

    def remove(self) -> None:
        """End what still runs in it, and take it away."""
        _remove(self.name)


def remove_leftovers() -> list[str]:
    """Take away the namespaces of runs that are gone; returns their names."""
    found = []
    for path in FOLDER.glob("hedge*-*") if FOLDER.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match is not None and not Path("/proc", match[1]).exists():
            _remove(path.name)
            found.append(path.name)
    return found


def _remove(name: str) -> None:
    with contextlib.suppress(BedError):  # it may be gone
        for pid in run("ip", "netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                _kill(int(pid))
    with contextlib.suppress(BedError):
        run("ip", "netns", "del", name)


def _kill(pid: int) -> None:
    """SIGKILL, and wait until the process runs no more: it may hold the network a while yet.

    Raises:
        ProcessLookupError: it has gone by itself.

    """
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        end = select.poll()
        end.register(process, select.POLLIN)
        end.poll(KILLED_S * 1000)
    finally:
        os.close(process)


def _enter_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(fd)
    finally:
        os.close(fd)


def _enter(fd: int) -> None:
    if _libc.setns(fd, _NEW_NETWORK):
        number = ctypes.get_errno()
        raise BedError(f"setns: {os.strerror(number)}")
