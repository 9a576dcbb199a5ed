"""Identity by which a gateway is elected, and the counter of its lives."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from gateway.base import machine_memory, replaced_file
from gateway.base.kept_file import KeptFile
from tree_handler import boot_epoch

ALPHA = 1.0
"""Weight of a core's megahertz in the capability (B4)."""
BETA = 1.0
"""Weight of a megabyte of memory."""
COUNTER = "boot_epoch"
_WITHOUT = (
    "the starts of this gateway are counted on from what its log and its other files know of "
    "them, and from what its neighbours will say"
)
_CPUFREQ = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
_MHZ_UNTOLD = 1000.0


def capability(root: Path = Path("/")) -> float:
    """C = alpha * CPU + beta * RAM (B4), CPU in MHz over all online cores, RAM in MB.

    A Pi's ``/proc/cpuinfo`` has no MHz, so cpufreq is asked first; where neither tells, a core
    counts as 1 GHz.

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    try:
        mhz = int((root / _CPUFREQ).read_text()) / 1000
    except (OSError, ValueError):
        mhz = _mhz_now(root)
    memory_mb = (machine_memory.of_machine(root) or 0) / (1 << 20)
    return round(ALPHA * mhz * (os.cpu_count() or 1) + BETA * memory_mb, 1)


def _mhz_now(root: Path) -> float:
    """Return the mean of all cores, as ``/proc/cpuinfo`` has it where cpufreq does not tell."""
    try:
        lines = (root / "proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
        told = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    except (OSError, ValueError):
        return _MHZ_UNTOLD
    return sum(told) / len(told) if told else _MHZ_UNTOLD


def next_boot_epoch(state_dir: Path, known: int = 0) -> int:
    """Count this start: higher than ever before, on the disk before it is used.

    By how much is drawn, and where a gateway without a counter begins: its disk may be lost, or
    restored from an image. See `boot_epoch`. A counter that is behind what else is known was lost
    too, and there may have been lives after the last one that is known.

    Args:
        state_dir: the gateway's folder.
        known: the latest start that its other files know of; 0 for none.

    Raises:
        OSError: the folder or file can't be read or written; it names the file.

    """
    own_folder(state_dir)
    counter = _counter(state_dir)
    counted = counter.read(_epoch)
    drawn = secrets.randbits(64)
    if counted is not None and counted >= known:
        epoch = boot_epoch.after(counted, drawn)
    elif known:
        epoch = boot_epoch.behind(known, drawn)
    else:
        epoch = boot_epoch.first(drawn)
    counter.write(_text(epoch))
    return epoch


def count_on_from(state_dir: Path, epoch: int) -> None:
    """Let the next start be later than ``epoch``, which a neighbour knows of.

    Raises:
        OSError: the file can't be written; it names the file.

    """
    _counter(state_dir).write(_text(epoch))


def own_folder(state_dir: Path) -> None:
    """Make the folder, or close one that an earlier release left open to everybody.

    Raises:
        OSError: it can't be made.

    """
    if not state_dir.is_dir():
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        replaced_file.sync_folder(state_dir.parent)
    mode = stat.S_IMODE(state_dir.stat().st_mode)
    if mode & stat.S_IRWXO:
        state_dir.chmod(mode & ~stat.S_IRWXO)


def _counter(state_dir: Path) -> KeptFile:
    return KeptFile(state_dir / COUNTER, _WITHOUT, is_durable=True)


def _epoch(data: bytes) -> int:
    text = data.strip()
    if not text.isdigit() or not 0 <= int(text) <= boot_epoch.MAX_COUNTED:
        raise ValueError("no number of a start")
    return int(text)


def _text(epoch: int) -> bytes:
    return b"%d\n" % epoch
