"""A turn's messages on their way into the node's log, and what its callers are told."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pytest

from gateway.log.errors import PartlyTakenError
from gateway.log.message_log import LogError, MessageLog
from gateway.node.links.commit import GroupCommit
from gateway.node.links.handshake import Credentials
from gateway.node.links.node import TreeNode
from gateway.node.links.scope import Scope
from gateway.node.links.settings import NodeReceiver, NodeSettings
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header, Row
from tree_handler.spanning.spanning_tree import Identity, Parameters


@pytest.fixture(params=[False, True], ids=["write", "sync"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TreeNode]:
    log = MessageLog(tmp_path / "log")
    log.open()
    settings = NodeSettings(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.1),
        sync=request.param,
    )
    made = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    yield made
    await made.stop()
    log.close()


def segment(folder: Path) -> bytes:
    [only] = (folder / "log").glob("*.log")
    return only.read_bytes()


def logged(folder: Path) -> list[bytes]:
    data = segment(folder)
    return [
        entry.payload
        for at, header in batch.frames(data)
        if not header.control  # what a node says of its own start
        for entry in batch.decode(data[at : at + header.end], header)
    ]


def rows(entries: Sequence[Entry]) -> list[Row]:
    return [entry.row() for entry in entries]


async def told(
    node: TreeNode, *entries: Entry, unlogged: Sequence[Entry] = ()
) -> tuple[int, OSError | None]:
    answer: asyncio.Future[tuple[int, OSError | None]]
    answer = asyncio.get_running_loop().create_future()
    node.origin.publish_all(rows(entries), rows(unlogged), lambda *told: answer.set_result(told))
    async with asyncio.timeout(30):
        return await answer


async def test_a_turn_is_in_the_log_when_its_caller_is_told(node: TreeNode, tmp_path: Path) -> None:
    turn = [Entry("t", b"1", 1), Entry("t", b"2", 2), Entry("t", b"r", 0, True)]
    assert await told(node, *turn, unlogged=[Entry("t", b"0", 0)]) == (1, None)
    assert logged(tmp_path) == [b"1", b"2", b"r"]


async def test_what_was_published_before_the_turn_comes_before_it(
    node: TreeNode, tmp_path: Path
) -> None:
    acknowledgement = node.publish(Entry("t", b"first", 1))
    assert acknowledgement is not None
    assert await told(node, Entry("t", b"second", 1)) == (2, None)
    await acknowledgement
    assert logged(tmp_path) == [b"first", b"second"]


async def test_a_caller_is_told_why_the_log_refused(
    node: TreeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise LogError("disk full")

    monkeypatch.setattr(MessageLog, "append", full)
    first, error = await told(node, Entry("t", b"1", 1))
    assert first == 0
    assert isinstance(error, LogError)


def refusing(monkeypatch: pytest.MonkeyPatch, log: MessageLog, number: int) -> None:
    """Have the log refuse one of the next appends, by its number from 0 on."""
    append, asked = log.append, itertools.count()

    def refuse(frame: bytes, header: Header) -> None:
        if next(asked) == number:
            raise LogError("Input/output error")
        append(frame, header)

    monkeypatch.setattr(log, "append", refuse)


async def test_who_publishes_a_message_of_the_gateway_s_own_is_told_why_the_log_refused(
    node: TreeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, node.log, 0)
    refused = node.publish(Entry("t", b"1", 1))
    assert refused is not None
    with pytest.raises(LogError, match="Input/output error"):
        await asyncio.wait_for(refused, 30)
    taken = node.publish(Entry("t", b"2", 1))
    assert taken is not None
    await asyncio.wait_for(taken, 30)


async def test_nothing_is_logged_behind_what_the_log_refused_and_what_was_refused_is_not_there(
    node: TreeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, node.log, 0)  # what tells where earlier epochs ended, before all else
    first, error = await told(node, Entry("t", b"1", 1))
    assert first == 0
    assert isinstance(error, LogError)
    assert logged(tmp_path) == []
    assert await told(node, Entry("t", b"1", 1)) == (1, None)
    assert logged(tmp_path) == [b"1"]


async def test_of_a_turn_that_is_several_batches_it_is_told_how_many_messages_were_taken(
    node: TreeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await told(node, Entry("t", b"0", 1)) == (1, None)
    node.rescope(Scope(keep_local=["here/#"]))
    refusing(monkeypatch, node.log, 1)
    turn = [Entry("t", b"1", 1), Entry("t", b"2", 1), Entry("here/t", b"3", 1), Entry("t", b"4", 1)]
    first, error = await told(node, *turn)
    assert first == 2
    assert isinstance(error, PartlyTakenError)
    assert error.taken == 2
    assert logged(tmp_path) == [b"0", b"1", b"2"]
    assert await told(node, *turn[2:]) == (4, None)


async def test_a_turn_is_numbered_on_behind_all_batches_of_what_the_gateway_published_before_it(
    node: TreeNode, tmp_path: Path
) -> None:
    for i in range(2 * batch.MAX_ENTRIES):
        node.publish(Entry("t", b"%d" % i, 1))
    assert await told(node, Entry("t", b"next", 1)) == (2 * batch.MAX_ENTRIES + 1, None)
    found = batch.frames(segment(tmp_path))
    headers = [header for _, header in found if not header.control]
    assert [header.first for header in headers] == [1, 1001, 2001]


async def test_qos_0_is_not_wanted_without_a_neighbour(node: TreeNode) -> None:
    assert not node.origin.carries_unlogged
    node.origin.publish_all([], rows([Entry("t", b"0")]), None)


class Listener:
    """Hears, while it listens."""

    def __init__(self) -> None:
        self.is_listening = True
        self.heard: list[bytes] = []

    def hear(self, rows: Iterable[Row]) -> None:
        self.heard += [row[2] for row in rows]


async def test_a_listener_hears_qos_0_at_once_and_the_others_before_who_waits_is_told(
    node: TreeNode,
) -> None:
    listener = Listener()
    node.origin.overheard_by(listener)
    assert node.origin.carries_unlogged
    heard_when_told: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
    node.origin.publish_all(
        rows([Entry("t", b"1", 1)]),
        rows([Entry("t", b"0")]),
        lambda *_: heard_when_told.set_result(list(listener.heard)),
    )
    assert listener.heard[0] == b"0"
    async with asyncio.timeout(30):
        assert await heard_when_told == [b"0", b"1"]


async def test_who_does_not_listen_hears_nothing_and_wants_no_qos_0(node: TreeNode) -> None:
    listener = Listener()
    listener.is_listening = False
    node.origin.overheard_by(listener)
    assert not node.origin.carries_unlogged
    assert await told(node, Entry("t", b"1", 1)) == (1, None)
    assert listener.heard == []


async def test_a_listener_that_fails_keeps_nothing_from_who_waits_and_from_others(
    node: TreeNode,
) -> None:
    class Failing(Listener):
        def hear(self, rows: Iterable[Row]) -> None:
            raise RuntimeError("a sensor's fault")

    listener = Listener()
    node.origin.overheard_by(Failing())
    node.origin.overheard_by(listener)
    node.origin.publish_all([], rows([Entry("t", b"0")]), None)
    first, error = await told(node, Entry("t", b"1", 1))
    assert (first, error) == (1, None)
    assert listener.heard == [b"0", b"1"]


async def test_a_listener_does_not_hear_what_the_log_refused(
    node: TreeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    node.origin.overheard_by(listener)
    monkeypatch.setattr(os, "write", lambda _fd, _data: 0)
    _, error = await told(node, Entry("t", b"1", 1))
    assert error is not None
    assert listener.heard == []


async def test_with_durability_write_the_disk_has_it_before_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = asyncio.Event()
    loop = asyncio.get_running_loop()
    to_disk = os.fdatasync

    def to_disk_and_tell(fd: int) -> None:
        to_disk(fd)
        loop.call_soon_threadsafe(synced.set)

    log = MessageLog(tmp_path / "log")
    log.open()
    monkeypatch.setattr(os, "fdatasync", to_disk_and_tell)
    commit = GroupCommit(log, sync=False, sync_interval_s=0.01)
    made = batch.make("gw", 1, 1, [("t", 1, b"1")], flags=Flags.LOGGED, origin_time_us=0)
    assert commit.append(*made) is None
    async with asyncio.timeout(30):
        await synced.wait()
    await commit.drain()
    log.close()


async def test_what_is_appended_while_a_sync_runs_is_synced_too_though_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    syncing, going_on = asyncio.Event(), asyncio.Event()
    lengths: list[int] = []

    def to_disk(fd: int) -> None:
        lengths.append(os.fstat(fd).st_size)
        loop.call_soon_threadsafe(syncing.set)
        if not going_on.is_set():  # in the end the log is closed by the thread of the loop
            asyncio.run_coroutine_threadsafe(going_on.wait(), loop).result(60)

    log = MessageLog(tmp_path / "log")
    log.open()
    monkeypatch.setattr(os, "fdatasync", to_disk)
    commit = GroupCommit(log, sync=True)
    for first in (1, 2):
        made = batch.make("gw", 1, first, [("t", 1, b"1")], flags=Flags.LOGGED, origin_time_us=0)
        assert commit.append(*made) is None
        commit.soon()
        await syncing.wait()
    going_on.set()
    await commit.drain()
    assert lengths[-1] == len(segment(tmp_path)) > lengths[0]
    log.close()
