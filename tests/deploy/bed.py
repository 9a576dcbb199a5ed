"""Booted Debian systems that stand in for Pis: systemd-nspawn in network namespaces on one bridge.

A root file system is made once a run by mmdebstrap, and each Pi has an overlay of its own above it.
The operator is a namespace on the same bridge. A Pi boots again when it is told to reboot, as a Pi
does, and loses its power by SIGKILL to its first process. The file systems are the host's, so a
power cut here loses processes and tmpfs, and nothing that was written.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from commands import inside, run, until

from benchmarks.mesh import namespaces
from benchmarks.mesh.namespaces import Namespace

PROGRAMS = (
    ("mmdebstrap", "mmdebstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("nsenter", "util-linux"),
)
"""Each program that is needed beside those of namespaces, and the Debian package that has it."""
PACKAGES = "python3,python3-venv,systemd,dbus,zstd"
KEPT_IN = "HEDGEROW_BED_ROOTS"
"""The environment variable that names a folder in which root file systems stay for the next run."""
OPERATOR = "10.77.0.254"
"""The operator's address on the bridge."""
BOOT_S = 120.0
"""A system is up by then, under load too."""
DOWN_S = 300.0
REBOOT = 133
"""The exit code of systemd-nspawn when its system wants to boot again."""
IN_PI = """#!/bin/sh
# Called as ssh is: the last argument is the command, the one before it the host.
for argument do host=$command command=$argument; done
leader=$(cat {folder}/$host.leader) || exit 255
into() {{ exec nsenter --target "$leader" --all /bin/sh -c "$command"; }}
# What is sent is counted; a terminal sends nothing, and never ends.
test -t 0 && into
echo "${{#command}} bytes" >>{folder}/$host.sent
dd bs=64k 2>>{folder}/$host.sent | into
"""
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
"""All systems of a bed have the same root, and so share this."""
INOTIFY_EACH = 16


def why_not() -> str | None:
    """Return why there can be no bed here, or None if there can."""
    if (why := namespaces.why_not()) is not None:
        return why
    for program, package in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed: sudo apt-get install {package}"
    return None


def root_file_system(suite: str, folder: Path) -> Path:
    """A Debian as its installer leaves it; made by mmdebstrap, or taken from where it was kept.

    Args:
        suite: such as ``trixie``.
        folder: where it is made.

    """
    root = folder / suite
    kept = Path(os.environ.get(KEPT_IN) or folder) / f"{suite}.tar"
    if not kept.exists():
        made = kept.with_suffix(".part.tar")
        include = f"--include={PACKAGES}"
        run("mmdebstrap", "--quiet", "--variant=minbase", include, suite, made, timeout_s=600)
        made.rename(kept)
    root.mkdir()
    run("tar", "--extract", "--numeric-owner", "--file", kept, "--directory", root)
    # The bed gives it its address; a first boot would ask for what is known.
    (root / "etc/machine-id").write_text("")
    return root


@dataclass
class Pi:
    """One booted system.

    Attributes:
        name: its host name, and the gateway's id.
        address: on the bridge.
        root: its file system while it is mounted.
        space: its network.
        folder: the bed's, for what it notes of it.
        leader: its first process as the host numbers it; 0 while it is off.

    """

    name: str
    address: str
    root: Path
    space: Namespace
    folder: Path
    leader: int = 0
    boots: int = 0
    _nspawn: subprocess.Popen[bytes] | None = None
    _wanted: bool = False
    _ready: threading.Event = field(default_factory=threading.Event)
    _keeper: threading.Thread | None = None

    @property
    def console(self) -> Path:
        """The file to which its boots print."""
        return self.folder / f"{self.name}.console"

    def boot(self) -> None:
        """Switch it on, and wait until it is up."""
        self._wanted = True
        self._ready.clear()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        self.wait_up()

    def wait_up(self) -> None:
        """Wait until its boot is over."""
        told = self.console.read_text(errors="replace")[-2000:] if self.console.exists() else ""
        assert self._ready.wait(BOOT_S), f"{self.name} did not boot: {told}"

    def cut_power(self) -> None:
        """Take its power away: nothing in it gets to do anything more."""
        self._wanted = False
        nspawn, leader = self._nspawn, self.leader
        assert nspawn is not None and leader
        os.kill(leader, signal.SIGKILL)
        self._wait_down(nspawn)

    def reboot(self) -> None:
        """Have it boot again by itself, as its operator would."""
        before = self.boots
        self._ready.clear()
        with contextlib.suppress(AssertionError):  # the command dies with its system
            self.run("systemctl", "reboot")
        until(f"{self.name} boots again", lambda: self.boots > before)
        self.wait_up()

    def switch_off(self) -> None:
        """Shut it down in order."""
        self._wanted = False
        nspawn, leader = self._nspawn, self.leader
        if nspawn is None or nspawn.poll() is not None:
            return
        if leader:
            with contextlib.suppress(ProcessLookupError):  # gone, and systemd-nspawn not yet
                os.kill(leader, signal.SIGRTMIN + 4)  # systemd's signal to power off
        else:
            nspawn.terminate()
        self._wait_down(nspawn)

    def _wait_down(self, nspawn: subprocess.Popen[bytes]) -> None:
        try:
            nspawn.wait(DOWN_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.leader or nspawn.pid, signal.SIGKILL)
            nspawn.wait()  # the kernel ends it, however long it is busy with others
        if self._keeper is not None:
            self._keeper.join(DOWN_S)
        self._nspawn = None

    def sent_bytes(self) -> int:
        """Return how many bytes Ansible has sent to it so far: commands, modules and files."""
        told = self.folder / f"{self.address}.sent"
        text = told.read_text() if told.exists() else ""
        return sum(int(count) for count in re.findall(r"^(\d+) bytes", text, re.MULTILINE))

    def run(self, *command: str, timeout_s: float = 120.0) -> str:
        """Run a command in it; return what the command prints.

        Raises:
            AssertionError: it failed, or the system is off.

        """
        assert self.leader, f"{self.name} is off"
        done = inside(self.leader, command, timeout_s)
        why = f"{self.name}: {command}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, why
        return done.stdout

    def says(self, *command: str) -> str:
        """The same, whatever it ends with; empty while it is off."""
        if not self.leader:
            return ""
        done = inside(self.leader, command, 120.0)
        return (done.stdout + done.stderr).strip()

    def journal(self, unit: str = "hedgerow") -> str:
        """The journal of a unit, last lines."""
        return self.says("journalctl", f"--unit={unit}", "--no-pager", "--lines=60")

    def _keep(self) -> None:
        """Start it, and again each time that it wants to boot again."""
        while self._wanted:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
                path = self.folder / f"{self.name}.notify"
                path.unlink(missing_ok=True)
                notices.bind(str(path))
                notices.settimeout(0.2)
                self._nspawn = nspawn = self._start(path)
                self._listen(notices, nspawn)
                code = nspawn.wait()
            self.leader = 0
            self._leader_file.unlink(missing_ok=True)
            self._ready.clear()
            if code != REBOOT:
                return

    def _start(self, notify: Path) -> subprocess.Popen[bytes]:
        with self.console.open("ab") as console:
            return subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}"),
                    *("--register=no", "--keep-unit", "--notify-ready=yes"),
                    *("--console=read-only", "--capability=CAP_NET_ADMIN"),
                    f"--network-namespace-path={namespaces.FOLDER / self.space.name}",
                    f"--machine={self.name}-{os.getpid()}",
                    *("--resolv-conf=off", "--timezone=off", "--link-journal=no"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(notify),
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
                    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
                },
            )

    def _listen(self, notices: socket.socket, nspawn: subprocess.Popen[bytes]) -> None:
        """Note the first process, and that the boot is over."""
        while nspawn.poll() is None:
            try:
                notice = notices.recv(4096).decode(errors="replace")
            except TimeoutError:
                continue
            if found := re.search(r"X_NSPAWN_LEADER_PID=(\d+)", notice):
                self.leader = int(found[1])
                self._leader_file.write_text(found[1])
            if "READY=1" in notice:
                self.boots += 1
                self._ready.set()

    @property
    def _leader_file(self) -> Path:
        return self.folder / f"{self.address}.leader"


class Bed:
    """Pis and an operator on one bridge.

    Args:
        folder: of the run's own.
        switch: the operator's namespace, in which the bridge is.

    Attributes:
        folder, switch: as given.
        ssh: the program that Ansible takes for ssh.
        pis: by name.

    """

    def __init__(self, folder: Path, switch: Namespace) -> None:
        self.folder = folder
        self.switch = switch
        self.pis: dict[str, Pi] = {}
        self.ssh = folder / "ssh"
        self.ssh.write_text(IN_PI.format(folder=folder))
        self.ssh.chmod(0o755)
        self._bases: dict[str, Path] = {}
        self._mounts: list[Path] = []

    def pi(self, name: str, suite: str = "trixie") -> Pi:
        """Make one more, which is off, with a new card.

        Args:
            name: its host name.
            suite: of Debian.

        """
        number = len(self.pis) + 1
        address = f"10.77.0.{number}"
        space = Namespace("pi")
        port = f"p{number}"
        space.ip("link", "add", "host0", "type", "veth", "peer", port, "netns", self.switch.name)
        self.switch.ip("link", "set", port, "master", "br0", "up")
        space.ip("address", "add", f"{address}/24", "dev", "host0")
        space.ip("link", "set", "host0", "up")
        made = Pi(name, address, self._card(suite, name), space, self.folder)
        self.pis[name] = made
        return made

    def new_card(self, pi: Pi, suite: str = "trixie") -> None:
        """Give a Pi that is off an empty card, as new hardware has."""
        pi.root = self._card(suite, pi.name)

    def _card(self, suite: str, name: str) -> Path:
        if suite not in self._bases:
            self._bases[suite] = root_file_system(suite, self.folder)
        card = self.folder / "cards" / f"{len(self._mounts)}-{name}"
        parts = {part: card / part for part in ("upper", "work", "root")}
        for part in parts.values():
            part.mkdir(parents=True)
            part.chmod(0o755)  # it becomes the root folder, whatever umask the tests have
        layers = f"lowerdir={self._bases[suite]},upperdir={parts['upper']},workdir={parts['work']}"
        run("mount", "-t", "overlay", "overlay", "-o", layers, parts["root"])
        self._mounts.append(parts["root"])
        (parts["root"] / "etc/hostname").write_text(f"{name}\n")
        return parts["root"]

    def operator(self, *command: str) -> list[str]:
        """Return the command line that runs a command on the operator's machine."""
        return self.switch.command(*command)

    def remove(self) -> None:
        """Switch all off, and leave nothing."""
        for pi in self.pis.values():
            with contextlib.suppress(Exception):
                pi.switch_off()
        for root in self._mounts:
            subprocess.run(["umount", "--lazy", root], check=False)
        for pi in self.pis.values():
            pi.space.remove()


@contextlib.contextmanager
def made_in(folder: Path) -> Iterator[Bed]:
    """A bed without Pis, taken away in the end.

    Raises:
        BedError: there can be none here; see `why_not`.

    """
    namespaces.remove_leftovers()
    switch = Namespace("switch")
    try:
        switch.ip("link", "add", "br0", "type", "bridge")
        switch.ip("address", "add", f"{OPERATOR}/24", "dev", "br0")
        switch.ip("link", "set", "br0", "up")
        bed = Bed(folder, switch)
        try:
            yield bed
        finally:
            bed.remove()
    finally:
        switch.remove()


def boot_all(pis: Sequence[Pi], at_once: int = 8) -> None:
    """Switch several on, so many at the same time: each has `BOOT_S`."""
    for number in range(0, len(pis), at_once):
        some = pis[number : number + at_once]
        each = [threading.Thread(target=pi.boot) for pi in some]
        for one in each:
            one.start()
        for one in each:
            one.join()
        for pi in some:
            pi.wait_up()


@contextlib.contextmanager
def room_for(systems: int) -> Iterator[None]:
    """Let the kernel have enough instances of inotify for so many systems, for a while."""
    before = int(INOTIFY.read_text())
    INOTIFY.write_text(f"{max(before, systems * INOTIFY_EACH)}\n")
    try:
        yield
    finally:
        INOTIFY.write_text(f"{before}\n")
