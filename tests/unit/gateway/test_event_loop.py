"""Which event loop a process gets."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import socket

import pytest

from gateway import event_loop

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None


async def name() -> str:
    await asyncio.sleep(0)
    return event_loop.running()


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(event_loop.CHOICE_VARIABLE, raising=False)
    assert event_loop.run(name()) == ("uvloop" if HAS_UVLOOP else "asyncio")


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
