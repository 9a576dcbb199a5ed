"""A node without links: when its parts are called, and what is done when it stops."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loop_turns import turns
from memory_link import MemoryNeighbour, lone_node
from tree_host import until

from gateway.log.message_log import MessageLog
from gateway.node.links import wire
from gateway.node.links.word_rate import LONG_BYTES, WORDS
from tree_handler.batch import Entry


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    log = MessageLog(tmp_path)
    log.open()
    yield log
    log.close()


class DuePart:
    """A part that is due at once, once."""

    topics: frozenset[bytes] = frozenset()

    def __init__(self) -> None:
        self.was_called = False
        self._due = asyncio.get_running_loop().time()

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing."""

    def tree_changed(self, now: float) -> None:
        """Do nothing."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Do nothing."""

    def next_timer(self) -> float:
        return math.inf if self.was_called else self._due

    def handle_timer(self, now: float) -> None:
        self.was_called = True


async def test_a_part_that_is_due_when_it_is_added_is_called_at_once(log: MessageLog) -> None:
    node, first = lone_node(log), DuePart()
    node.add_part(first)
    await until(lambda: first.was_called)  # with all that is due at a start
    part = DuePart()
    node.add_part(part)
    await turns(20)
    assert part.was_called
    await node.stop()


async def test_a_topic_of_replication_is_no_parts(log: MessageLog) -> None:
    node, part = lone_node(log), DuePart()
    part.topics = frozenset((b"$hedgerow/batch",))
    with pytest.raises(ValueError, match="topics that replication has"):
        node.add_part(part)
    await node.stop()


async def test_what_was_published_is_on_the_disk_when_a_node_has_stopped(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, disk, start_sync = lone_node(log, sync=True), threading.Event(), log.start_sync

    def slow() -> Callable[[], None]:
        sync = start_sync()

        def synced() -> None:
            assert disk.wait(60)
            sync()

        return synced

    monkeypatch.setattr(log, "start_sync", slow)
    kept = node.publish(Entry("a/b", b"message", qos=1))
    assert kept is not None
    stopping = asyncio.create_task(node.stop())
    await turns(20)
    assert not kept.done()
    disk.set()
    await stopping
    assert kept.done()
    await kept


class CountedPart(DuePart):
    """A part of one topic that counts what came."""

    def __init__(self, topic: bytes) -> None:
        super().__init__()
        self.topics = frozenset((topic,))
        self.came = 0

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        self.came += 1


@pytest.mark.parametrize(
    ("topic", "payload", "counts"),
    [
        (b"$hedgerow/clocks", b"", 1),
        (b"$hedgerow/clocks", bytes(LONG_BYTES), 2),
        (b"$hedgerow/other", b"", 0),
    ],
)
async def test_words_that_others_are_told_at_once_are_read_at_a_bounded_rate_and_no_others(
    log: MessageLog, topic: bytes, payload: bytes, counts: int
) -> None:
    node, neighbour, part = lone_node(log), MemoryNeighbour(), CountedPart(topic)
    node.add_part(part)
    linked: list[str] = []
    dialling = asyncio.create_task(node.dial(neighbour, linked.append))
    await until(lambda: bool(node.links))
    loop, sent = asyncio.get_running_loop(), WORDS.at_once + 50
    began_s = loop.time()
    for _ in range(sent):
        neighbour.says(wire.publish(topic, payload))
    at_once = WORDS.at_once // counts if counts else sent
    await until(lambda: part.came >= at_once - 1)
    await turns(sent)
    passed_s = loop.time() - began_s
    assert part.came <= at_once + 2 + WORDS.per_s * passed_s
    assert linked == ["gw-b"]
    dialling.cancel()
    neighbour.hangs_up()
    await asyncio.wait([dialling])
    await node.stop()
