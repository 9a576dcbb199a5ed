"""A Pi with two systems on its card, without a Pi: slots booted under systemd-nspawn.

The card is an image's file, its partitions are loop devices, and between two boots the firmware is
a reading of autoboot.txt (tests/pi_firmware.py). What the device tree tells is in /run/firmware.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pi_firmware
import pytest
from bed import REBOOT
from commands import inside, run

from gateway.tools.system_image.layout import ImageLayout
from gateway.tools.system_slots.slots import Slot

UP_S = 180.0
UNITS = "etc/systemd/system"
SIMULATED = """[Unit]
ConditionPathExists=
[Service]
Environment=HEDGEROW_FIRMWARE=/run/firmware HEDGEROW_PARTITIONS=/run/card/p
"""
FIRMWARE_UNIT = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
# What reboot(2) would hand to the firmware.
ExecStop=/bin/sh -c 'cp /run/systemd/reboot-param /run/firmware/asked || true'
[Install]
WantedBy=multi-user.target
"""
SOON = "[Timer]\nOnBootSec=\nOnBootSec=40s\n"
"""The deadline of a system in which nothing of ours runs."""


@dataclass
class PiWithTwoSystems:
    """A card and what starts from it.

    Attributes:
        folder: of its own.
        card: the card, as a file.
        layout: of its partitions.
        images: a folder that each start finds at /run/images.
        starts: the slots that were started.

    """

    folder: Path
    card: Path
    layout: ImageLayout
    images: Path
    starts: list[Slot] = field(default_factory=list)
    leader: int = 0
    _loops: dict[int, str] = field(default_factory=dict)

    def __enter__(self) -> PiWithTwoSystems:
        (self.folder / "devices").mkdir()
        for name in ("root", "data", "firmware"):
            (self.folder / name).mkdir()
        for number, one in self.layout.partitions.items():
            if number != 4:
                loop = run(
                    *("losetup", "--find", "--show", f"--offset={one.start_bytes}"),
                    *(f"--sizelimit={one.size_bytes}", self.card),
                ).strip()
                self._loops[number] = loop
                (self.folder / f"devices/p{number}").symlink_to(loop)
        run("mount", self._loops[7], self.folder / "data")
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("root", "data"):
            subprocess.run(["umount", self.folder / name], check=False, capture_output=True)
        for loop in self._loops.values():
            subprocess.run(["losetup", "--detach", loop], check=False)

    @contextlib.contextmanager
    def mounted(self, slot: Slot) -> Iterator[Path]:
        """A slot's root, with what stands in for a Pi."""
        root = self.folder / "root"
        run("mount", self._loops[slot.root_partition], root)
        try:
            yield root
        finally:
            run("umount", root)

    def live(self, during: Callable[[PiWithTwoSystems], bool], most_starts: int = 8) -> None:
        """Switch it on, and on again when it restarts, until `during` says that it may be off.

        Args:
            during: is called in each start once the system is up, or has ended before.
            most_starts: after which it fails.

        """
        is_try = False
        for _ in range(most_starts):
            firmware = self.folder / "firmware"
            partition = pi_firmware.start(self.folder / "devices/p1", firmware, is_try=is_try)
            slot = Slot.booted_from(partition)
            self.starts.append(slot)
            (firmware / "asked").unlink(missing_ok=True)
            with self.mounted(slot) as root:
                _simulate(root)
                is_over = self._start(root, during)
            if is_over:
                return
            asked = firmware / "asked"
            is_try = asked.exists() and "tryboot" in asked.read_text()
        pytest.fail(f"restarts for ever: {self.starts}\n{self.console()[-3000:]}")

    def run(self, *command: str) -> str:
        """Run a command in the system that runs; return what it prints, errors included."""
        done = inside(self.leader, command, UP_S)
        return (done.stdout + done.stderr).strip()

    def hedgerow(self, *arguments: str) -> str:
        """Run `hedgerow` in it; return what it prints."""
        stands_in = ("HEDGEROW_FIRMWARE=/run/firmware", "HEDGEROW_PARTITIONS=/run/card/p")
        return self.run("env", *stands_in, "/opt/hedgerow/venv/bin/hedgerow", *arguments)

    def until(self, what: str, is_so: Callable[[], object]) -> None:
        """Wait for something in the system that runs; returns, too, when it has ended."""
        end_s = time.monotonic() + UP_S
        while self.is_on and not is_so():
            if time.monotonic() > end_s:
                journal = self.run("journalctl", "--no-pager", "--lines=80")
                pytest.fail(f"not in time: {what}\n{journal}")
            time.sleep(0.3)

    @property
    def is_on(self) -> bool:
        """Return whether its first process lives."""
        return self.leader > 0 and Path(f"/proc/{self.leader}").exists()

    def console(self) -> str:
        """Return what its starts printed."""
        return (self.folder / "console").read_text(errors="replace")

    def cut_power(self) -> None:
        """Nothing in it gets to do anything more."""
        os.kill(self.leader, signal.SIGKILL)

    def _start(self, root: Path, during: Callable[[PiWithTwoSystems], bool]) -> bool:
        notices_at = self.folder / "notify"
        notices_at.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(notices_at))
            notices.settimeout(0.3)
            nspawn = self._nspawn(root, notices_at)
            told = ""
            while nspawn.poll() is None and "READY=1" not in told:
                with contextlib.suppress(TimeoutError):
                    told = notices.recv(4096).decode()
                if found := re.search(r"X_NSPAWN_LEADER_PID=(\d+)", told):
                    self.leader = int(found[1])
            notices.setblocking(False)
            is_over = during(self)
            if is_over and self.is_on:
                with contextlib.suppress(ProcessLookupError):  # gone, and systemd-nspawn not yet
                    os.kill(self.leader, signal.SIGRTMIN + 4)  # systemd's signal to power off
            code = nspawn.wait(UP_S)
            self.leader = 0
        assert is_over or code in (REBOOT, 1, 255), code
        return is_over

    def _nspawn(self, root: Path, notices_at: Path) -> subprocess.Popen[bytes]:
        binds = [f"--bind={loop}" for loop in self._loops.values()]
        with (self.folder / "console").open("ab") as console:
            return subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", f"--directory={root}"),
                    *("--register=no", "--keep-unit", "--private-network", "--notify-ready=yes"),
                    *("--console=read-only", "--resolv-conf=off", "--timezone=off"),
                    *("--link-journal=no", f"--machine=two-{os.getpid()}", *binds),
                    f"--bind={self.folder / 'data'}:/data",
                    f"--bind={self.folder / 'firmware'}:/run/firmware",
                    f"--bind={self.folder / 'devices'}:/run/card",
                    f"--bind-ro={self.images}:/run/images",
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(notices_at),
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
                },
            )  # fmt: skip


def _simulate(root: Path) -> None:
    """Have the units ask what stands in for the firmware."""
    units = root / UNITS
    for unit, name, text in (
        ("hedgerow-system.service", "simulated.conf", SIMULATED),
        ("hedgerow-system-deadline.service", "simulated.conf", SIMULATED),
        ("hedgerow-system-deadline.timer", "simulated.conf", SOON),
    ):
        (units / f"{unit}.d").mkdir(exist_ok=True)
        (units / f"{unit}.d" / name).write_text(text)
    (units / "simulated-firmware.service").write_text(FIRMWARE_UNIT)
    wants = units / "multi-user.target.wants/simulated-firmware.service"
    wants.unlink(missing_ok=True)
    wants.symlink_to(f"/{UNITS}/simulated-firmware.service")


def changed_image(image: Path, layout: ImageLayout, commands: str, files: dict[str, str]) -> None:
    """Change the root of an image without mounting it, so that it is another version.

    Args:
        image: its file.
        layout: of its partitions.
        commands: of debugfs(8).
        files: texts of files to replace.

    """
    place = f"{image}?offset={layout.partitions[Slot.A.root_partition].start_bytes}"
    lines = [commands]
    for number, (name, text) in enumerate(files.items()):
        source = image.with_name(f"new-{number}")
        source.write_text(text)
        lines += [f"rm {name}", f"write {source} {name}"]
    subprocess.run(
        ["debugfs", "-w", "-f", "-", place], input="\n".join(lines) + "\n", text=True,
        capture_output=True, check=True,
    )  # fmt: skip
