"""The benchmark of a gateway's weight: figures of a process, and the rows that it shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import pytest

from benchmarks import light, load_generator
from benchmarks.builds import Build
from benchmarks.light import Memory, Process, Weight
from benchmarks.load_generator import Programs

ROLLUP = """\
55d0c8a00000-7ffc4b3f9000 ---p 00000000 00:00 0                          [rollup]
Rss:               65024 kB
Pss:               60112 kB
Anonymous:         41684 kB
"""


def test_memory_is_told_with_and_without_what_files_are_behind() -> None:
    assert light.memory_of(ROLLUP) == Memory(63.5, 41684 / 1024)


def test_a_process_tells_its_time_and_threads() -> None:
    own = Process("pytest", os.getpid(), 0)
    before_s = own.cpu_s()
    sum(range(1_000_000))
    assert own.cpu_s() > before_s > 0.0
    assert own.threads() >= 1


def test_a_process_that_has_gone_is_named() -> None:
    with pytest.raises(light.LightError, match="mosquitto: /proc/999999999/smaps_rollup"):
        Process("mosquitto", 999_999_999, 0).memory()


def test_a_peer_has_no_modules_in_its_row() -> None:
    row = Weight("mosquitto", 0.004, Memory(8.5, 1.0), Memory(9.4, 2.0), 1).row()
    assert row == "| mosquitto | 0.004 | - | 1 | 8.5 (1.0) | 9.4 (2.0) |"
    assert row.count("|") == light.TABLE[0].count("|") == light.TABLE[1].count("|")


def test_another_release_is_named_with_its_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(beside: Sequence[Build], starts: int, programs: Programs) -> Iterator[str]:
        yield from (f"{one.name}: {one.python}" for one in beside)

    monkeypatch.setattr(load_generator, "compile_programs", lambda folder: None)
    monkeypatch.setattr(light, "measure", measure)
    monkeypatch.setattr(light, "OPEN_FILES", 0)  # the limit of the tests stays
    assert light.main(["--beside", f"before={sys.executable}"]) == 0
    assert capsys.readouterr().out == f"before: {sys.executable}\n"
    for wrong in ("/nowhere", "before=/nowhere", sys.executable):
        with pytest.raises(SystemExit):
            light.main(["--beside", wrong])
        assert f"{wrong!r} is not NAME=PYTHON" in capsys.readouterr().err
