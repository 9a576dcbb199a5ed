"""A full garbage collection does not look again at what has survived one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.process.running import garbage


class Node:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    garbage.spare_the_loop()
    yield
    gc.callbacks.remove(garbage._around)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_survives_is_frozen_once_there_is_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    monkeypatch.setattr(garbage, "FROZEN_MAX", 0)
    kept = [[] for _ in range(1_000)]  # type: ignore[var-annotated]
    gc.collect()
    assert gc.get_freeze_count() >= frozen + len(kept) - 100


def test_a_cycle_is_found_while_there_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "FROZEN_MAX", 10_000_000)
    node = Node()
    gone = weakref.ref(node)
    gc.collect()  # it is frozen now
    del node
    assert gone() is not None
    gc.collect()
    assert gone() is None
