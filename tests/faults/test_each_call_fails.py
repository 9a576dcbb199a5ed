"""Each call for disk, clients and clocks fails: nothing acknowledged is lost, and it goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from failing_calls import FAULTS, FailingCalls, Fault
from faulty_life import Life
from virtual_loop import VirtualLoop

DRAWN = 34
"""So many calls of a life fail in CI, for each fault and each end."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where that is to be had: how slow a disk is says nothing here."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="failing-disk-", dir=where) as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What a failing disk has a gateway say would be most of a test's time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    """Work that a thread would do, so that the order of calls is always the same."""
    return work(*arguments)


def lived(
    folder: Path, patch: pytest.MonkeyPatch, end: str, number: int = 0, fault: Fault | None = None
) -> Life:
    """Live a life in which the call with a number fails, and return it with what came of it."""
    folder.mkdir()
    with patch.context() as patched:
        patched.setattr(asyncio, "to_thread", _at_once)
        calls = FailingCalls(folder, patched)
        loop = VirtualLoop()
        life = Life(folder, calls, cuts_power=end == "power-cut")
        if fault is not None:
            calls.fail(number, fault)
        try:
            loop.run_until_complete(life.run())
        finally:
            loop.run_until_complete(life.end())
            loop.close()
    return life


def test_a_life_without_a_fault_keeps_every_promise_and_reaches_the_disk_in_every_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = lived(folder / "state", monkeypatch, "kill")
    assert list(life.broken()) == []
    made = life.calls.made
    assert {"write", "fdatasync", "fsync", "open", "dup", "sqlite", "open for reading"} <= set(made)
    assert {"socket write", "wall clock"} <= set(made)
    assert len(life.publisher.acknowledged) > 50
    assert len(list((folder / "state" / "log").glob("*.log"))) > 1


@pytest.mark.parametrize("end", ["kill", "power-cut"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_whatever_call_fails_nothing_acknowledged_is_lost_and_the_gateway_serves_again(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
    fault: Fault,
    end: str,
) -> None:
    calls = lived(folder / "whole", monkeypatch, end).calls.counts[fault.place]
    numbers = range(1, calls + 1)
    if not pytestconfig.getoption("--soak"):
        drawn = random.Random(pytestconfig.getoption("--seed"))
        numbers = sorted(drawn.sample(numbers, min(DRAWN, calls)))
    for number in numbers:
        where = f"{fault} at call {number} of {calls}, end by {end}"
        try:
            life = lived(folder / f"{number}", monkeypatch, end, number, fault)
        except Exception as error:
            raise AssertionError(where) from error
        assert list(life.broken()) == [], f"{where}: {life.calls.failed[:3]}"
