"""Which event loop a process gets."""

from __future__ import annotations

import asyncio
import importlib.util

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
