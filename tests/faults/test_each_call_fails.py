"""Each call for disk, clients, neighbours and clocks fails: nothing acknowledged is lost, and all
goes on.

Errors of the disk that differ in their number alone are drawn together: a life whose gateways ask
for no number would be the same with each of them, and is lived once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import by_seed
import pytest
from failing_calls import (
    OF_CLOCKS,
    OF_CONNECTIONS,
    OF_DIALLING,
    OF_DISK,
    OF_TLS,
    FailingCalls,
    Fault,
    alike,
)
from faulty_gateway import World
from faulty_life import Life
from life_alone import LifeAlone
from life_of_two import LifeOfTwo
from life_secured import LifeSecured
from threads_in_turn import ThreadsInTurn
from virtual_loop import VirtualLoop

from gateway.base import event_loop

AnyLife = LifeAlone | LifeOfTwo | LifeSecured
CASES = [
    *((LifeAlone, faults) for faults in alike((*OF_DISK, *OF_CONNECTIONS, *OF_CLOCKS))),
    *((LifeOfTwo, faults) for faults in alike((*OF_DISK, *OF_CONNECTIONS, *OF_DIALLING))),
    *((LifeSecured, faults) for faults in alike((*OF_CONNECTIONS, *OF_TLS))),
]
IDS = [f"{kind.__name__}-{'-or-'.join(map(str, faults))}" for kind, faults in CASES]
CALLS_OF_ONE_THREAD = 200
"""No call in a thread, a checkpoint say, has more calls for the disk."""
DRAWN: dict[type[Life], int] = {LifeAlone: 2, LifeOfTwo: 1, LifeSecured: 1}
"""So many calls of a life fail in CI, for each fault and each end: two hundred in all, others
in each commit. `make soak` lives them all."""


def lived(
    kind: type[AnyLife],
    folder: Path,
    patch: pytest.MonkeyPatch,
    end: str,
    number: int = 0,
    fault: Fault | None = None,
) -> Life:
    """Live a life in which the call with a number fails, and return it with what came of it."""
    folder.mkdir()
    with patch.context() as patched:
        loop = VirtualLoop()
        calls = FailingCalls(folder, patched)
        is_slow = fault is not None and fault.slow_s > 0
        # A thread is needed only where something else goes on while it waits.
        threads = ThreadsInTurn(
            loop, lambda: is_slow and calls.may_fail_within(CALLS_OF_ONE_THREAD)
        )
        patched.setattr(asyncio, "to_thread", threads.run)
        world = World(calls, loop, threads, cuts_power=end == "power-cut")
        patched.setattr(event_loop, "listen", world.network.serve)
        life = kind(folder, world)
        if fault is not None:
            calls.fail(number, fault)
        try:
            loop.run_until_complete(life.run())
        finally:
            loop.run_until_complete(life.end())
            loop.close()
    return life


_COUNTS: dict[tuple[type[Life], str], Counter[str]] = {}


def _counted(
    kind: type[AnyLife], folder: Path, patch: pytest.MonkeyPatch, end: str
) -> Counter[str]:
    """Return how many calls of each kind a life without a fault makes; it is lived once."""
    if (kind, end) not in _COUNTS:
        _COUNTS[kind, end] = lived(kind, folder, patch, end).calls.counts
    return _COUNTS[kind, end]


@pytest.mark.parametrize("kind", [LifeAlone, LifeOfTwo, LifeSecured])
def test_a_life_without_a_fault_keeps_every_promise_and_reaches_the_disk_in_every_way(
    kind: type[AnyLife], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = lived(kind, folder / "state", monkeypatch, "kill")
    assert list(life.broken()) == []
    counts = life.calls.counts
    assert {
        "write",
        "fdatasync",
        "fsync",
        "open",
        "dup",
        "sqlite",
        "open for reading",
        "read",
    } <= set(counts)
    assert {"send", "recv", "accept", "wall clock"} <= set(counts)
    assert kind is not LifeOfTwo or {"connect", "getaddrinfo"} <= set(counts)
    if kind is LifeSecured:
        assert {"TLS handshake", "TLS read", "TLS write"} <= set(counts)
        return
    assert sum(len(one.acknowledged) for one in life.publishers) > 35
    assert len(list((folder / "state").rglob("*.log"))) > 1


@pytest.mark.parametrize("end", ["kill", "power-cut"])
@pytest.mark.parametrize(("kind", "faults"), CASES, ids=IDS)
def test_whatever_call_fails_nothing_acknowledged_is_lost_and_all_gateways_serve_again(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
    kind: type[AnyLife],
    faults: tuple[Fault, ...],
    end: str,
) -> None:
    calls = _counted(kind, folder / "whole", monkeypatch, end)[faults[0].place]
    for number in by_seed.some(pytestconfig, range(1, calls + 1), DRAWN[kind]):
        for fault in faults:
            where = f"{fault} at call {number} of {calls}, end by {end}"
            try:
                life = lived(kind, folder / f"{number}-{fault}", monkeypatch, end, number, fault)
            except Exception as error:
                raise AssertionError(where) from error
            assert list(life.broken()) == [], f"{where}: {life.calls.failed[:3]}"
            if not life.calls.is_told_apart:
                break
