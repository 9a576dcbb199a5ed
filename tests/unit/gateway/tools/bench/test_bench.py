"""`hedgerow bench` as a command: its gateway, and its end where that misbehaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.process.fleet_status.rating import Rating, RatingFile
from gateway.tools.bench import measured_gateway, run
from gateway.tools.bench.errors import BenchError
from gateway.tools.bench.figures import (
    SPARED_BYTES,
)
from gateway.tools.bench.measured_gateway import MeasuredGateway


def bench(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", "bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_run_measures_a_gateway_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    done = bench("--folder", str(tmp_path), "--seconds", "5", "--json")
    said, complained = done.communicate(timeout=200)
    assert done.returncode == 0, complained
    figures = json.loads(said)
    assert figures["messages_per_s"] > 0
    assert figures["reads_per_s"] > 0
    assert figures["idle_bytes"] > 10 << 20
    assert figures["verdict"]["messages_per_s"] <= figures["messages_per_s"]
    assert list(tmp_path.iterdir()) == []


def test_the_verdict_is_kept_for_the_gateway_of_the_configuration(tmp_path: Path) -> None:
    state, disk = tmp_path / "state", tmp_path / "disk"
    state.mkdir()
    disk.mkdir()
    config, key = tmp_path / "gateway.toml", tmp_path / "tree.key"
    key.touch(0o600)
    key.write_text("5a" * 32)
    config.write_text(
        f"""
        gateway = {{id = "gw", state_dir = "{state}"}}
        mqtt = {{host = "127.0.0.1", port = 0}}
        coap = {{host = "127.0.0.1", port = 0}}
        tree = {{key_file = "{key}", discovery = false}}
        access = {{anonymous = true}}
        """
    )
    where = ("--config", str(config), "--folder", str(disk))
    done = bench(*where, "--seconds", "5", "--json", "--keep")
    said, complained = done.communicate(timeout=200)
    assert done.returncode == 0, complained
    found = json.loads(said)["verdict"]
    assert RatingFile(state).read() == Rating(found["messages_per_s"], found["clients"])
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--seconds", "4"), "--seconds: 4 is not 5 or more"),
        (("--seconds", "nan"), "--seconds: nan is not 5 or more"),
        (("--config", "/nowhere.toml"), "/nowhere.toml"),
        (("--keep", "--folder", "/tmp", "--config", "/nowhere.toml"), "--keep: /nowhere.toml"),
    ],
)
def test_what_is_wrong_with_the_command_is_told_in_a_line(
    arguments: tuple[str, ...], told: str
) -> None:
    done = bench(*arguments)
    said, complained = done.communicate(timeout=100)
    assert (done.returncode, said) == (2, "")
    assert told in complained
    assert complained.count("\n") == 1


def test_a_folder_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    done = bench("--folder", str(tmp_path / "gone"), "--seconds", "5")
    _, complained = done.communicate(timeout=100)
    assert done.returncode == 2
    assert "gone: no such folder" in complained.splitlines()[-1]


def test_a_run_that_is_ended_takes_its_gateway_with_it(tmp_path: Path) -> None:
    running = bench("--folder", str(tmp_path), "--seconds", "3600")
    assert running.stderr is not None
    while "publishing" not in running.stderr.readline():
        assert running.poll() is None
    running.terminate()
    running.communicate(timeout=100)
    assert running.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_ended_and_taken_away_by_the_next(tmp_path: Path) -> None:
    running = bench("--folder", str(tmp_path), "--seconds", "3600")
    assert running.stderr is not None
    while "publishing" not in running.stderr.readline():
        assert running.poll() is None
    running.kill()
    running.communicate(timeout=100)
    (left,) = tmp_path.iterdir()
    gateway = json.loads((left / "state" / "listeners.json").read_text())["pid"]
    another = tmp_path / f"bench-{os.getpid()}-x"  # of a run that goes on
    another.mkdir()
    measured_gateway.remove_left(tmp_path)
    assert list(tmp_path.iterdir()) == [another]
    while (
        Path(f"/proc/{gateway}/cmdline").exists() and Path(f"/proc/{gateway}/cmdline").read_bytes()
    ):
        pass  # it was told to end, and its parent is gone


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (None, "/proc/meminfo does not say how much memory is left (MemAvailable)"),
        (SPARED_BYTES - 1, "MiB of memory are left, and"),
    ],
)
async def test_without_memory_for_a_second_gateway_none_is_started(
    left: int | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.tools.bench.run.machine_memory.left", lambda: left)
    with pytest.raises(BenchError) as raised:
        await run.measured(tmp_path, 1.0, lambda _text: None)
    assert why in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "word"), [("echo no port is free; exit 3", "no port is free"), ("exit 1", "no word")]
)
async def test_a_gateway_that_ends_at_its_start_says_why(
    script: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    gateway = MeasuredGateway(tmp_path)
    await gateway.stop()
    with pytest.raises(BenchError) as raised:
        await gateway.start()
    assert str(raised.value) == f"the gateway to be measured does not start: {word}"
    await gateway.stop()
    with pytest.raises(BenchError, match=r"^the gateway that was measured has ended$"):
        _ = gateway.cpu_s
    gateway.remove()
    assert list(tmp_path.iterdir()) == [program]


def test_only_a_process_that_names_the_folder_of_a_killed_run_is_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    waits = [sys.executable, "-c", "input()"]
    left, other = (tmp_path / f"bench-{gone.pid}-{name}" for name in "xy")
    with (
        subprocess.Popen([*waits, f"{left}/gateway.toml"], stdin=subprocess.PIPE) as gateway,
        subprocess.Popen([*waits, f"{left}/gateway.toml"], stdin=subprocess.PIPE) as stranger,
    ):
        for folder, process in ((left, gateway), (other, stranger)):
            (folder / "state").mkdir(parents=True)
            told = json.dumps({"pid": process.pid})
            (folder / "state" / "listeners.json").write_text(told)
        measured_gateway.remove_left(tmp_path)
        assert gateway.wait(10) == -15
        assert stranger.poll() is None
        stranger.communicate(b"\n", timeout=60)
    assert stranger.returncode == 0
    assert list(tmp_path.iterdir()) == []


class EndingGateway:
    """A gateway to be measured that does not start.

    Attributes:
        done: what was asked of it.

    """

    done: list[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        EndingGateway.done = []

    async def start(self) -> float:
        self.done.append("start")
        raise BenchError("no word")

    async def stop(self) -> None:
        self.done.append("stop")

    def remove(self) -> None:
        self.done.append("remove")


async def test_a_gateway_that_is_not_measured_is_ended_before_its_files_are_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.tools.bench.run.machine_memory.left", lambda: SPARED_BYTES)
    monkeypatch.setattr(run, "MeasuredGateway", EndingGateway)
    told = list[str]()
    with pytest.raises(BenchError, match=r"^no word$"):
        await run.measured(tmp_path, 1.0, told.append)
    assert EndingGateway.done == ["start", "stop", "remove"]
    assert told == ["asking the disk", "starting a gateway"]
