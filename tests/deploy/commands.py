"""Commands on this machine and in booted systems, and what they bring about in time."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

WAIT_S = 120.0


def run(*command: str | Path, timeout_s: float = 300.0) -> str:
    """Run a command; return what it prints.

    Raises:
        AssertionError: it failed.

    """
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False, errors="replace"
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def inside(
    leader: int, command: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command in a booted system.

    Args:
        leader: the system's first process, as the host numbers it.
        command: its words.
        timeout_s: it is killed then.

    """
    entered = ["nsenter", "--target", str(leader), "--all", "--", *command]
    end_s = time.monotonic() + timeout_s
    with subprocess.Popen(
        entered, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        while True:
            try:
                told = process.communicate(timeout=2.0)
                return subprocess.CompletedProcess(entered, process.returncode, *told)
            except subprocess.TimeoutExpired:
                # A shutdown stops all processes before it ends them. nsenter stops with its own,
                # is in no system that continues it, and keeps the dead one from going.
                process.send_signal(signal.SIGCONT)
                if time.monotonic() > end_s:
                    process.kill()


def until(what: str, is_so: Callable[[], object], within_s: float = WAIT_S) -> None:
    """Wait for a condition.

    Raises:
        AssertionError: it did not come about.

    """
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s, f"not within {within_s} s: {what}"
        time.sleep(0.2)
