"""A service manager hears of each life of a gateway (sd_notify(3))."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.base.watched_tasks import WatchedTasks
from gateway.process.config_trials.judge import ConfigJudge
from gateway.process.running import freed_memory, mapped_code, service
from gateway.process.running.trial_watch import TrialWatch
from gateway.process.state_folder.life import Renewals

READY = "READY=1\nWATCHDOG_USEC=20000"
"""With the patience of the service's own, which a start in the same process had widened."""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Give the socket of a service manager, whose watchdog waits for 20 ms."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield listening


async def notices_until(manager: socket.socket, last: str, times: int = 1) -> list[str]:
    """All that is heard until a notice has come so often."""
    heard: list[str] = []
    async with asyncio.timeout(60):
        while heard.count(last) < times:
            heard.append((await asyncio.get_running_loop().sock_recv(manager, 200)).decode())
    return heard


class Process:
    """Stands in for a gateway, whose second life is slow to begin."""

    lives: list[Process]
    fails = False

    def __init__(self, settings: Any, end: Any, read: Any, renewals: Renewals) -> None:
        self.renewals = renewals
        self.watched = WatchedTasks()
        self.may_begin = asyncio.Event()
        self.reloads = 0
        if not self.lives:
            self.may_begin.set()
        self.lives.append(self)

    async def start(self) -> None:
        await self.may_begin.wait()

    async def stop(self) -> None:
        pass

    async def reload(self) -> None:
        self.reloads += 1
        if self.reloads == 1 and self.fails:
            raise ZeroDivisionError("oops")


class Cycle:
    """Is found by nobody but the collector."""

    def __init__(self) -> None:
        self.itself = self


def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Any:
    """Serve by stand-ins of a gateway; return the task."""
    monkeypatch.setattr(Process, "lives", [], raising=False)
    monkeypatch.setattr(Process, "fails", fails)
    monkeypatch.setattr(service, "GatewayProcess", Process)
    # These would last in the process of the test.
    monkeypatch.setattr(freed_memory, "spare_the_loop", lambda: None)
    monkeypatch.setattr(freed_memory, "keep_what_is_freed", lambda: None)
    monkeypatch.setattr(service, "PRIVATE", 0o027)
    settings: Any = SimpleNamespace(
        gateway=SimpleNamespace(state_dir=tmp_path / "state"),
        mqtt=SimpleNamespace(certificate_file=None, client_ca_file=None),
        keys=SimpleNamespace(service=None),
    )
    trial = TrialWatch(ConfigJudge(tmp_path / "none.toml", lambda _: settings), lambda: None)
    return asyncio.create_task(service.serve(settings, trial))


@pytest.mark.usefixtures("process_of_a_service")
@pytest.mark.parametrize(
    ("asked", "is_anew"), [(signal.SIGUSR2, True), (signal.SIGTERM, False), (signal.SIGINT, False)]
)
async def test_a_signal_ends_the_program_and_one_has_it_start_anew(
    manager: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: signal.Signals,
    *,
    is_anew: bool,
) -> None:
    serving = served(tmp_path, monkeypatch)
    await notices_until(manager, READY)
    os.kill(os.getpid(), asked)
    async with asyncio.timeout(60):
        assert await serving is is_anew
    assert len(Process.lives) == 1


@pytest.mark.usefixtures("process_of_a_service")
async def test_a_reload_that_fails_is_told_of_and_the_next_is_served(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = served(tmp_path, monkeypatch, fails=True)
    await notices_until(manager, READY)
    (process,) = Process.lives
    for reloads in (1, 2):
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(60):
            while process.reloads < reloads or "reload" not in process.watched.failing:
                await asyncio.sleep(0)
    assert process.watched.failing["reload"] == "ZeroDivisionError: oops"
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        await serving


@pytest.mark.usefixtures("process_of_a_service")
async def test_another_life_in_the_process_is_no_end_and_the_watchdog_hears_of_it_all_the_while(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = served(tmp_path, monkeypatch)
    assert "STOPPING=1" not in await notices_until(manager, READY)
    Process.lives[0].renewals.start_again()
    async with asyncio.timeout(60):
        while len(Process.lives) < 2:
            await asyncio.sleep(0)
    # The second life has not begun: who says nothing now is killed.
    heard = await notices_until(manager, "WATCHDOG=1", 3)
    Process.lives[1].may_begin.set()
    heard += await notices_until(manager, READY)
    os.kill(os.getpid(), signal.SIGHUP)
    heard += await notices_until(manager, "WATCHDOG=1", 2)
    assert set(heard) == {"WATCHDOG=1", READY}
    os.kill(os.getpid(), signal.SIGTERM)
    assert (await notices_until(manager, "STOPPING=1"))[-1] == "STOPPING=1"
    await serving


@pytest.mark.usefixtures("process_of_a_service")
async def test_the_collector_has_looked_at_what_a_start_left_before_code_is_given_back(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[weakref.ref[Cycle]] = []
    is_gone: list[bool] = []

    async def start(_: Process) -> None:
        left.append(weakref.ref(Cycle()))

    serving = served(tmp_path, monkeypatch)
    monkeypatch.setattr(Process, "start", start)
    monkeypatch.setattr(mapped_code, "give_back", lambda: is_gone.append(left[0]() is None))
    gc.disable()  # or it might look just then by itself
    try:
        await notices_until(manager, READY)
    finally:
        gc.enable()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        await serving
    assert is_gone == [True]
