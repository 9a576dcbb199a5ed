"""The delay of acknowledgements is measured only while somebody asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from memory_transport import MemoryTransport
from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Committed
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from gateway.broker.statistics.acknowledgement_delays import WATCHED_S, AcknowledgementDelays
from gateway.broker.statistics.report import report
from tree_handler.batch import Row

CONNECT = b"\x10\x0e\0\4MQTT\4\2\0\0\0\2pp"
PUBLISH = b"\x32\x06\0\1t\0\1q"


class HeldLog:
    """A log that answers when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[Committed] = []

    def commit(self, logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        if done is not None:
            self.waiting.append(done)

    def answer(self, error: OSError | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(1, error)


def publisher_of(core: DataPlane) -> Connection:
    connection = Connection(core.service)
    connection.connection_made(MemoryTransport())
    connection.data_received(CONNECT)
    return connection


async def turn() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def counted(core: DataPlane) -> int:
    return sum(report(core)["acknowledgement_delays"]["counts"])


async def test_what_is_acknowledged_is_measured_from_the_first_question_on() -> None:
    log = HeldLog()
    core = DataPlane(hooks(commit=log.commit), Limits())
    publisher = publisher_of(core)
    publisher.data_received(PUBLISH)
    await turn()
    log.answer()
    assert counted(core) == 0
    publisher.data_received(PUBLISH)
    await turn()
    assert counted(core) == 0  # the log has not answered
    log.answer()
    assert counted(core) == 1
    core.stop()


async def test_what_the_log_refuses_is_no_acknowledgement() -> None:
    log = HeldLog()
    core = DataPlane(hooks(commit=log.commit), Limits())
    publisher = publisher_of(core)
    assert counted(core) == 0
    publisher.data_received(PUBLISH)
    await turn()
    log.answer(OSError("full"))
    assert counted(core) == 0
    core.stop()


def test_when_nobody_has_asked_for_a_time_nothing_is_measured_any_more() -> None:
    delays = AcknowledgementDelays()
    assert not delays.is_watched
    delays.as_json(100.0)
    assert delays.is_watched
    delays.took(100.0, 100.003)
    assert delays.is_watched
    delays.took(100.0, 100.0 + WATCHED_S + 1)
    assert not delays.is_watched
    told = delays.as_json(300.0)
    assert sum(told["counts"]) == 2
    assert told["counts"][told["bounds_s"].index(0.005)] == 1
