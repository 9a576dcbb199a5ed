"""The event loop of a process: uvloop where it is installed, asyncio, or the one asked for."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
import socket
import subprocess
import sys

import pytest

from gateway.base import event_loop

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None


async def name() -> str:
    await asyncio.sleep(0)
    return event_loop.running()


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(event_loop.CHOICE_VARIABLE, raising=False)
    assert event_loop.run(name()) == ("uvloop" if HAS_UVLOOP else "asyncio")


async def early_timers() -> list[float]:
    """Return by how much each of some timers rang before its time, in seconds."""
    loop = asyncio.get_running_loop()
    early = []
    for step in range(1, 41):
        delay_s, rung = step * 0.00037, loop.create_future()
        due = loop.time() + delay_s
        if step % 2:
            loop.call_at(due, rung.set_result, None)
        else:
            loop.call_later(delay_s, rung.set_result, None)
        await rung
        early.append(max(0.0, due - loop.time()))
    return early


def test_no_timer_rings_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(event_loop.CHOICE_VARIABLE, raising=False)
    assert max(event_loop.run(early_timers())) < 1e-6


def test_what_is_due_now_waits_for_no_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rounds_until_called() -> int:
        loop = asyncio.get_running_loop()
        called, rounds = loop.create_future(), 0
        loop.call_later(0, called.set_result, None)
        while not called.done():
            await asyncio.sleep(0)
            rounds += 1
        return rounds

    monkeypatch.delenv(event_loop.CHOICE_VARIABLE, raising=False)
    assert event_loop.run(rounds_until_called()) <= 2


def test_asyncio_serves_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(event_loop.CHOICE_VARIABLE, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert event_loop.run(name()) == "asyncio"


def test_the_environment_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(event_loop.CHOICE_VARIABLE, "asyncio")
    assert event_loop.run(name()) == "asyncio"


@pytest.mark.parametrize(
    ("choice", "why"), [("twisted", "neither asyncio nor uvloop"), ("uvloop", "not installed")]
)
def test_a_loop_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, choice: str, why: str
) -> None:
    monkeypatch.setenv(event_loop.CHOICE_VARIABLE, choice)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(event_loop.EventLoopError, match=why):
        event_loop.run(name())


THREADS = """
import asyncio, os
from gateway.base import event_loop
async def listen():
    for host in ("127.0.0.1", "::1", "0.0.0.0", "::"):
        try:
            server = await event_loop.listen(asyncio.Protocol, host, 0)
        except OSError as error:
            if ":" not in host:
                raise
        else:
            assert server.sockets[0].getsockname()[0] == host
    print(len(os.listdir("/proc/self/task")))
event_loop.run(listen())
"""


@pytest.mark.parametrize("loop", ["", "asyncio"])
def test_to_listen_takes_no_thread(loop: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=os.environ | {event_loop.CHOICE_VARIABLE: loop},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"


async def test_a_name_is_no_address_to_listen_on() -> None:
    with pytest.raises(OSError, match=r"[Nn]ame|host"):
        await event_loop.listen(asyncio.Protocol, "localhost.", 0)


async def test_a_port_that_another_takes_between_bind_and_listen_is_an_error_on_each_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(("127.0.0.1", 0))
    port = other.getsockname()[1]
    bind = socket.socket.bind

    def bind_and_be_late(ours: socket.socket, address: tuple[str, int]) -> None:
        bind(ours, address)
        other.listen()

    monkeypatch.setattr(socket.socket, "bind", bind_and_be_late)
    with other, pytest.raises(OSError, match="Address already in use") as refused:
        await event_loop.listen(asyncio.Protocol, "127.0.0.1", port)
    assert refused.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("loop", ["", "asyncio"])
def test_a_task_that_swallows_its_cancellation_keeps_no_process_from_its_end(
    loop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(event_loop.CHOICE_VARIABLE, loop)
    ended, is_free = [], False

    async def swallow() -> None:
        while not is_free:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                ended.append("swallowed")

    async def obey() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0)
            ended.append("obeyed")

    tasks = []

    async def main() -> str:
        tasks.append(asyncio.create_task(swallow(), name="call bad driver"))
        tasks.append(asyncio.create_task(obey()))
        await asyncio.sleep(0)
        return "done"

    assert event_loop.run(main(), patience_s=0.05) == "done"
    assert sorted(ended) == ["obeyed", "swallowed"]
    assert "task call bad driver does not end when it is told to" in caplog.text
    is_free = True
