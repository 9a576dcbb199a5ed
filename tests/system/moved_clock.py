"""The clocks of a process that a test moves, while those of the machine stay as they are.

What the process asks of its kernel is answered by a library that is loaded before libc
(`moved_clock.c`): the product is told nothing of it, compiled or not.
"""

from __future__ import annotations

import mmap
import shutil
import subprocess
from pathlib import Path
from typing import Final

from missing_peer import skip_or_fail_in_ci

_SOURCE: Final = Path(__file__).with_suffix(".c")
_NUMBERS: Final = 3
_SLEPT_NS, _SET_NS, _STATE = range(_NUMBERS)
_TIME_OK: Final = 0
_TIME_ERROR: Final = 5
"""The result of adjtimex(2) while nothing keeps the clock."""


class MovedClock:
    """The clocks of the processes that are started with `environment`.

    Args:
        folder: keeps the library and the numbers that it reads.

    """

    def __init__(self, folder: Path) -> None:
        if (compiler := shutil.which("cc")) is None:
            skip_or_fail_in_ci("cc is missing: apt install gcc")
        library, numbers = folder / "moved_clock.so", folder / "moved_clock"
        command = [
            compiler,
            "-shared",
            "-fPIC",
            "-Wall",
            "-Werror",
            "-o",
            str(library),
            str(_SOURCE),
        ]
        subprocess.run([*command, "-ldl"], check=True)
        numbers.write_bytes(bytes(_NUMBERS * 8))
        with numbers.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self.environment = {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(numbers)}

    def sleep(self, seconds: float) -> None:
        """Let the machine have slept for so long: all clocks but the monotonic one went on."""
        self._numbers[_SLEPT_NS] += round(seconds * 1e9)

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._numbers[_SET_NS] += round(seconds * 1e9)

    def keep(self, *, is_kept: bool) -> None:
        """Have a time service keep the clock, or none."""
        self._numbers[_STATE] = _TIME_OK if is_kept else _TIME_ERROR
