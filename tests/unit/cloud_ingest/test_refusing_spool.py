"""A collector of a group whose disk takes nothing leaves its share to the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cloud_ingest.collector import shared_spool
from cloud_ingest.collector.shared_spool import SharedSpool
from cloud_ingest.collector.sharing import SharingLimits
from gateway.log.errors import LogError
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags


class Node:
    """A node as a spool needs it: a disk that may be full, and a way to another collector."""

    def __init__(self) -> None:
        self.is_full = False
        self.told: list[str] = []
        self.settled: list[Any] = []
        self.replication = SimpleNamespace(have={})
        self.commit = SimpleNamespace(append=self.append, settle=self.settled.extend)
        self.direct = SimpleNamespace(
            hand_to=lambda receive: None, way_to=lambda name: name, send=self.send
        )

    def append(self, frame: bytes, header: batch.Header) -> LogError | None:
        return LogError("no room") if self.is_full else None

    def send(self, name: str, topic: str, payload: bytes) -> None:
        self.told.append(name)


async def test_it_tells_the_others_nothing_from_what_it_can_t_take_until_it_takes_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_spool, "TICK_S", 0.0)
    log = MessageLog(tmp_path)
    log.open()
    node = Node()
    spool = SharedSpool(("c0", 1), ["c0", "c1"], log, SharingLimits(say_s=0.0), None)
    spool.ride_on(cast(Any, node))
    now = asyncio.get_running_loop().time()
    spool.core.handle_timer(now + SharingLimits().dead_after_s)  # it knows now that it is alone
    frame = batch.encode("gw", 1, 1, [Entry("t", b"x")], flags=Flags.LOGGED, origin_time_us=0)
    header = batch.check(frame)
    node.is_full = True
    assert spool.keep(frame, header) is not None
    running = asyncio.create_task(spool.run())
    await some_ticks()
    assert node.told == []
    node.is_full = False
    assert spool.keep(frame, header) is None
    await asyncio.sleep(0)
    (settled,) = node.settled
    settled(OSError("not synced"))
    await some_ticks()
    assert node.told == []
    settled(None)
    await some_ticks()
    assert set(node.told) == {"c1"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    log.close()


async def some_ticks() -> None:
    """Let a loop whose pauses take no time go round."""
    for _ in range(20):
        await asyncio.sleep(0)
