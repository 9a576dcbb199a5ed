"""What a gateway is elected by, and the counter that tells one life of it from the next."""

from __future__ import annotations

import secrets
import stat
from pathlib import Path

import psutil

from gateway import replaced_file
from tree_handler.spanning import boot_epoch

ALPHA = 1.0
"""Weight of a core's megahertz in the capability (B4)."""
BETA = 1.0
"""Weight of a megabyte of memory."""
_COUNTER = "boot_epoch"
_CPUFREQ = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")


def capability() -> float:
    """C = alpha * CPU + beta * RAM (B4), CPU in MHz over all online cores, RAM in MB.

    A Pi's ``/proc/cpuinfo`` has no MHz, so cpufreq is asked first; where neither tells, a core
    counts as 1 GHz.
    """
    try:
        mhz = int(_CPUFREQ.read_text()) / 1000
    except (OSError, ValueError):
        frequency = psutil.cpu_freq()
        mhz = (frequency.max or frequency.current) if frequency else 1000.0
    cores = psutil.cpu_count() or 1
    memory_mb = psutil.virtual_memory().total / (1 << 20)
    return round(ALPHA * mhz * cores + BETA * memory_mb, 1)


def next_boot_epoch(state_dir: Path) -> int:
    """Count this start: higher than ever before, on the disk before it is used.

    By how much is drawn, and where a gateway without a counter begins: its disk may be lost, or
    restored from an image. See `boot_epoch`.

    Raises:
        OSError: the folder or file can't be written; it names the file.
        ValueError: the file holds no number; starting again anywhere could reuse an epoch.

    """
    _own_folder(state_dir)
    path = state_dir / _COUNTER
    try:
        epoch = boot_epoch.after(int(path.read_text()), secrets.randbits(64))
    except FileNotFoundError:
        epoch = boot_epoch.first(secrets.randbits(64))
    except ValueError as error:
        raise ValueError(f"{path}: no number") from error
    _keep(path, epoch)
    return epoch


def count_on_from(state_dir: Path, epoch: int) -> None:
    """Let the next start be later than ``epoch``, which a neighbour knows of.

    Raises:
        OSError: the file can't be written; it names the file.

    """
    _keep(state_dir / _COUNTER, epoch)


def _own_folder(state_dir: Path) -> None:
    """Make the folder, or close one that an earlier release left open to everybody."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(state_dir.stat().st_mode)
    if mode & stat.S_IRWXO:
        state_dir.chmod(mode & ~stat.S_IRWXO)


def _keep(path: Path, epoch: int) -> None:
    replaced_file.replace(path, f"{epoch}\n".encode(), is_durable=True)
