"""The clock of a machine without one in hardware does not go back over a power cut (role time)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy/ansible/roles/time/files/hedgerow-clock"


class Machine:
    """Has a clock of its own: a program in the place of `date`."""

    def __init__(self, folder: Path) -> None:
        self.noted = folder / "hedgerow-clock"
        self._clock = folder / "clock"
        program = folder / "date"
        program.write_text(
            f"""#!/bin/sh
case $1 in
+%s) cat {self._clock} ;;
--set=@*) echo "${{1#--set=@}}" >{self._clock} ;;
esac
"""
        )
        program.chmod(0o755)
        self._path = f"{folder}:{os.environ['PATH']}"

    @property
    def clock(self) -> int:
        return int(self._clock.read_text())

    @clock.setter
    def clock(self, now: int) -> None:
        self._clock.write_text(f"{now}\n")

    def step(self, name: str) -> None:
        subprocess.run(
            [SCRIPT, name, self.noted], check=True, env={**os.environ, "PATH": self._path}
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_start_before_the_noted_time_goes_on_from_there(machine: Machine) -> None:
    machine.step("note")
    noted = int(machine.noted.stat().st_mtime)
    machine.clock = 0
    machine.step("restore")
    assert machine.clock == noted


def test_a_clock_that_goes_on_is_left_alone_and_so_is_the_first_start(machine: Machine) -> None:
    machine.clock = 5
    machine.step("restore")
    assert machine.clock == 5, "nothing was noted yet"
    machine.step("note")
    machine.clock = later = int(machine.noted.stat().st_mtime) + 3_600
    machine.step("restore")
    assert machine.clock == later


def test_a_time_that_was_wrong_is_corrected_by_the_next_note(machine: Machine) -> None:
    machine.step("note")
    os.utime(machine.noted, (4_000_000_000, 4_000_000_000))
    machine.step("note")
    machine.clock = 0
    machine.step("restore")
    assert 0 < machine.clock < 4_000_000_000
