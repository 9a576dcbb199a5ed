"""A whole broker without a socket: what its start tells, and what it publishes for its gateway."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from surroundings import Links, Tree, no_links

from gateway.base.lasting_clock import LastingClock
from gateway.broker.access.guard import Access
from gateway.broker.broker import UNFIT, BrokerSettings, GatewayBroker, Memory, open_broker
from gateway.broker.data_plane import LEFT_OUT
from gateway.broker.limits import Limits
from tests.simulation.memory_log import Disk, MachineClocks, MemoryLog
from tree_handler.batch import Entry, Row
from tree_handler.origin_clocks import OriginClocks


class Machine:
    """One whose broker keeps its state over lives."""

    def __init__(self, folder: Path) -> None:
        self.state_file = folder / "broker.sqlite3"
        self.disk, self.clocks = Disk(), MachineClocks()
        self.life = 0

    async def start(self, **limits: Any) -> GatewayBroker:
        self.life += 1
        log = MemoryLog(self.disk, self.life, 1 << 30, self.clocks, sync=False)
        clock = LastingClock(self.clocks, self.life)
        return await open_broker(
            BrokerSettings((), limits=Limits(**limits), sys_interval_s=0),
            Access(),
            tree=Tree(log.commit),
            links=Links(no_links),
            memory=Memory(log, self.state_file, clock, OriginClocks(log.own)),
            now=lambda: 0.0,
        )


@pytest.mark.parametrize("short", [0, 1])
async def test_a_start_says_how_many_retained_messages_it_has_no_room_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, short: int
) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    for topic in ("a", "b"):
        broker.accept(Entry(topic, bytes(1_000), 1, True))
    broker.core.commit_queue.commit()
    held = broker.core.retention.bytes_held
    assert len(broker.core.retention) == 2
    await broker.core.keep()
    await broker.shutdown()
    caplog.clear()
    room = 1 << 20 if not short else held // 2 + 100
    with caplog.at_level(logging.ERROR):
        again = await machine.start(retained_bytes=room)
    assert len(again.core.retention) == 2 - short
    assert again.core.refusals.counts == ({LEFT_OUT: 1} if short else {})
    line = (
        f"{machine.state_file}: 1 retained messages are left out, for this process has room for "
        f"{room} bytes of them; they stay there for a start with more memory, or another "
        "limits.retained_bytes"
    )
    assert [one for one in caplog.messages if "left out" in one and "so far" not in one] == (
        [line] if short else []
    )
    await again.shutdown()
    whole = await machine.start()
    assert len(whole.core.retention) == 2
    await whole.shutdown()


async def test_what_the_gateway_itself_can_not_publish_is_told_and_all_else_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logged: list[Row] = []

    def commit(rows: Sequence[Row], _: Sequence[Row], done: Any) -> None:
        logged.extend(rows)
        done(len(logged), None)

    broker = await open_broker(
        BrokerSettings((), sys_interval_s=0),
        Access(),
        tree=Tree(commit),
        links=Links(no_links),
        now=lambda: 0.0,
    )
    broker.accept(Entry("sensors/#", b"x", 1))
    broker.accept(Entry("sensors/1", b"x", 1))
    broker.core.commit_queue.commit()
    assert [row[0] for row in logged] == ["sensors/1"]
    assert broker.core.refusals.counts == {UNFIT: 1}
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert line.message.startswith("sensors/#: ")
    assert (broker.client_count, broker.ports) == (0, {})
    await broker.shutdown()
