"""A full garbage collection leaves alone what has survived one; what a turn frees is kept."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence

import pytest

from gateway.process.running import freed_memory

TURNS = 200
BUFFER_BYTES = 300_000
SCRIPT = f"""
import resource
from gateway.process.running import freed_memory
assert freed_memory.keep_what_is_freed()
def turn():
    return len(b"".join([bytes({BUFFER_BYTES}), bytes({BUFFER_BYTES})]))
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TURNS}):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
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
    gc.unfreeze()


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
