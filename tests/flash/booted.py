"""A Pi of this test's own: a card's partitions booted under systemd-nspawn, in a network namespace.

The kernel of a test may know no FAT: the boot partition's files are in a folder in its place.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

STEP_S = 0.2


def until(condition: Callable[[], bool], within_s: float, why: Callable[[], str]) -> None:
    """Wait for something, or fail with what is known."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            pytest.fail(why())
        time.sleep(STEP_S)


@dataclass(frozen=True)
class BootedPi:
    """A system that runs; ``leader`` is its first process as the host numbers it."""

    leader: int
    nspawn: subprocess.Popen[bytes]

    def run(self, *command: str) -> str:
        """Run a command in it; return what it prints, errors included."""
        done = subprocess.run(
            ["nsenter", "--target", str(self.leader), "--all", "--", *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return (done.stdout + done.stderr).strip()

    def cut_power(self) -> None:
        os.kill(self.leader, signal.SIGKILL)
        self.nspawn.wait(60)

    def shut_down(self) -> None:
        if self.nspawn.poll() is None:
            os.kill(self.leader, signal.SIGRTMIN + 4)  # systemd's signal to power off
            try:
                self.nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self.cut_power()


@dataclass(frozen=True)
class PiOnDesk:
    """A Pi with a card in it.

    Attributes:
        root: where the root partition is mounted.
        boot: the folder in the place of the boot partition.
        namespace: the network it is in.
        folder: for sockets and the console's log.

    """

    root: Path
    boot: Path
    namespace: str
    folder: Path

    @contextmanager
    def on(self) -> Iterator[BootedPi]:
        """Switch it on; off at the end."""
        notices_at = self.folder / "notify"
        notices_at.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(notices_at))
            notices.settimeout(120)
            nspawn = self._nspawn(notices_at)
            leader = 0
            # The leader is told of before the system is up: a first boot takes its time. Whoever
            # keeps the socket and does not read it keeps nspawn waiting.
            while not leader:
                try:
                    notice = notices.recv(4096).decode()
                except TimeoutError:
                    nspawn.kill()
                    nspawn.wait(30)
                    pytest.fail(f"did not boot: {self.console()[-2000:]}")
                if found := re.search(r"X_NSPAWN_LEADER_PID=(\d+)", notice):
                    leader = int(found[1])
        pi = BootedPi(leader, nspawn)
        try:
            yield pi
        finally:
            pi.shut_down()

    def _nspawn(self, notices_at: Path) -> subprocess.Popen[bytes]:
        with (self.folder / "console").open("ab") as console:
            return subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}"),
                    *(f"--bind={self.boot}:/boot/firmware", "--register=no", "--keep-unit"),
                    f"--network-namespace-path=/run/netns/{self.namespace}",
                    *("--capability=CAP_NET_ADMIN", "--notify-ready=yes"),
                    *("--console=read-only", f"--machine={self.namespace}"),
                    *(self.boot / "cmdline.txt").read_text().split(),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(notices_at),
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
                    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
                },
            )

    def console(self) -> str:
        return (self.folder / "console").read_text(errors="replace")

    def log(self) -> str:
        """Return the log that the first boot left on the boot partition."""
        file = self.boot / "hedgerow-first-boot.log"
        return file.read_text(errors="replace") if file.exists() else ""
