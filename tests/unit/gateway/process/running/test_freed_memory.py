"""A full garbage collection leaves alone what has survived one; what a turn frees is kept."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from gateway.process.running import freed_memory
from gateway.process.running.freed_memory import LOOK_AGAIN_S, FullCollections

TURNS = 200
BUFFER_BYTES = 300_000
SCRIPT = f"""
import resource
from gateway.process.running import freed_memory
from gateway.process.running.freed_memory import LOOK_AGAIN_S, FullCollections
assert freed_memory.keep_what_is_freed()
def turn():
    return len(b"".join([bytes({BUFFER_BYTES}), bytes({BUFFER_BYTES})]))
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TURNS}):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

HOLES_BYTES = 16 << 20
# In a hole lie seven whole pages of 4 KiB, or eight.
HOLES = f"""
import asyncio
from pathlib import Path
from gateway.process.running import freed_memory
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
kept = [bytearray(8 * 4096 - 64) for _ in range({HOLES_BYTES} // (4 * 4096))]
del kept[::2]
before = resident()
async def main():
    giving = asyncio.create_task(freed_memory.give_back(0.0))
    await asyncio.sleep(0.1)
    while resident() > before - {HOLES_BYTES} // 2:
        await asyncio.sleep(0.01)
    giving.cancel()
asyncio.run(main())
print(before - resident())
"""


class Node:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    freed_memory.spare_the_loop()
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*before)
    gc.freeze()  # as before: what pytest has collected is never looked at


def test_what_survives_is_frozen_once_there_is_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    assert gc.get_freeze_count() > 0
    monkeypatch.setattr(freed_memory, "FROZEN_MAX", 0)
    kept = [[] for _ in range(1_000)]  # type: ignore[var-annotated]
    assert looked_at(kept) == len(kept)
    gc.collect()
    assert looked_at(kept) == 0


def looked_at(objects: Sequence[object]) -> int:
    """Return how many of some objects the collector looks at: those that are not frozen."""
    ids = {id(one) for one in objects}
    return sum(id(one) in ids for one in gc.get_objects())


def test_a_cycle_is_found_while_there_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "FROZEN_MAX", 10_000_000)
    node = Node()
    gone = weakref.ref(node)
    gc.collect()  # it is frozen now
    del node
    assert gone() is not None
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells glibc's allocator")
def test_large_buffers_made_again_and_again_cost_no_page_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    pages = TURNS * 4 * BUFFER_BYTES / 4096
    assert int(done.stdout) < pages / 20


# -- what is frozen is looked at again ---------------------------------------------------------


def frozen_cycle() -> weakref.ref[Node]:
    """Return a cycle that has survived a full collection, and that nobody has any more."""
    node = Node()
    gone = weakref.ref(node)
    gc.collect()
    return gone


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, collector: None) -> Iterator[list[float]]:
    """Have much survived, and tell the collector the time; it begins nothing of its own."""
    monkeypatch.setattr(freed_memory, "FROZEN_MAX", 0)
    now = [1_000.0]
    gc.callbacks[:] = [one for one in gc.callbacks if not isinstance(one, FullCollections)]
    gc.callbacks.append(FullCollections(lambda: now[0]))
    gc.unfreeze()
    now[0] += LOOK_AGAIN_S
    gc.disable()
    gc.collect()  # the look at all of a start
    yield now
    gc.enable()


def test_all_is_looked_at_again_when_there_is_half_as_much_again(clock: list[float]) -> None:
    gone = frozen_cycle()
    clock[0] += LOOK_AGAIN_S
    gc.collect()
    assert gone() is not None
    more = [[] for _ in range(gc.get_freeze_count())]  # type: ignore[var-annotated]
    gc.collect()  # they are frozen now
    assert gone() is not None
    gc.collect()
    assert gone() is None
    assert more


def test_all_is_not_looked_at_again_soon(clock: list[float]) -> None:
    gone = frozen_cycle()
    more = [[] for _ in range(gc.get_freeze_count())]  # type: ignore[var-annotated]
    gc.collect()
    clock[0] += LOOK_AGAIN_S - 0.001
    gc.collect()
    assert gone() is not None
    clock[0] += 0.001
    gc.collect()
    assert gone() is None
    assert more


def test_what_was_let_go_of_since_does_not_put_off_the_next_look(clock: list[float]) -> None:
    much = [[] for _ in range(2 * gc.get_freeze_count())]  # type: ignore[var-annotated]
    gc.collect()
    clock[0] += LOOK_AGAIN_S
    gc.collect()  # all is looked at, and much survives
    del much
    gc.collect()
    gone = frozen_cycle()
    more = [[] for _ in range(gc.get_freeze_count())]  # type: ignore[var-annotated]
    gc.collect()
    clock[0] += LOOK_AGAIN_S
    gc.collect()
    assert gone() is None
    assert more


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells glibc's allocator")
def test_what_is_free_between_what_is_not_goes_back_to_the_kernel() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > HOLES_BYTES // 2


async def test_all_that_is_free_is_given_back_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, waits = list[int](), list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=kept.append))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await freed_memory.give_back(7.0)
    assert (kept, waits) == ([0, 0], [7.0] * 3)  # 0 bytes are left at the top


@pytest.mark.parametrize("refused", [(), (-3,), (-1,), (-3, -1)])
def test_thresholds_are_kept_if_the_c_library_takes_both(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[int, ...]
) -> None:
    taken = dict[int, int]()

    def mallopt(parameter: int, value: int) -> int:
        taken[parameter] = value
        return 0 if parameter in refused else 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    assert freed_memory.keep_what_is_freed() is (not refused)
    assert taken[-3] == freed_memory.MMAP_THRESHOLD_BYTES
    if -3 not in refused:
        assert taken[-1] == freed_memory.TRIM_THRESHOLD_BYTES
