"""Routed mode on a node: what it has to tell again when its log drops it."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import msgpack
import pytest
from tree_host import until
from unreadable_files import Unreadable

from gateway.log.message_log import LogError, MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.node import TreeNode
from gateway.node.links.routed_file import FILE_NAME, RoutedFile
from gateway.node.links.routed_part import RoutedPart
from gateway.node.links.settings import NodeReceiver, NodeSettings
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.routing.interest import TOPIC, Interest
from tree_handler.routing.locator import ReachUpdate
from tree_handler.routing.unreachable import LONG_S
from tree_handler.spanning.spanning_tree import Identity, Parameters


def records(log: MessageLog) -> list[Interest]:
    """Those that the log still holds."""
    return [
        Interest.decode(entry.payload)
        for frame, header in log.read_from(0)
        if header.control and header.logged
        for entry in batch.decode(frame, header)
        if entry.topic.startswith(TOPIC)
    ]


def bare_node(log: MessageLog, epoch: int = 1) -> TreeNode:
    settings = NodeSettings(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", epoch, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.05),
        floods_clients=False,
    )
    return TreeNode(settings, log, NodeReceiver(lambda entry, header: None))


def routed_node(log: MessageLog, folder: Path, epoch: int = 1) -> tuple[TreeNode, RoutedPart]:
    node = bare_node(log, epoch)
    part = RoutedPart(node, folder)
    node.add_part(part)
    return node, part


async def test_what_a_gateway_wants_stands_in_its_log_however_much_is_published(
    tmp_path: Path,
) -> None:
    log = MessageLog(tmp_path / "log", segment_bytes=1_000, max_bytes=4_000)
    log.open()
    node, part = routed_node(log, tmp_path)
    part.begin(["a/#"])
    try:
        await until(lambda: bool(records(log)))
        first = records(log)[0].version
        for _ in range(100):
            kept = node.publish(Entry("x", bytes(100), qos=1))
            assert kept is not None
            await kept
        await until(lambda: any(record.version > first for record in records(log)))
        await until(lambda: all(record.version > first for record in records(log)))
        assert records(log)[0].subscribes == {"a/#"}
    finally:
        await part.stop()
        await node.stop()
        log.close()


async def test_a_gateway_that_left_for_good_is_no_destination_for_ever(tmp_path: Path) -> None:
    loop, skipped_s = asyncio.get_running_loop(), 0.0
    log = MessageLog(tmp_path / "log", segment_bytes=4_096, max_bytes=8_192)
    log.open()
    node, part = routed_node(log, tmp_path)
    part.core.update(Interest("gone", 1, 1, frozenset({"a/#"})), loop.time())
    node.locator.locator.forwards([1])
    node.locator.locator.receive(1, ReachUpdate(True, {"gone": 1}))
    node.locator.link_down(1, loop.time())
    await part.stop()
    again = RoutedPart(node, tmp_path, clock=lambda: loop.time() + skipped_s)  # a restart
    try:
        for number in range(40):
            kept = node.publish(Entry("a/b", bytes(1_000), qos=1))
            assert kept is not None
            await kept
            if number == 20:
                assert again.core.accounts.owed()["gone"] > 0
                assert again.interests.everyone == {"gone"}
                skipped_s = LONG_S + 60.0
        await until(lambda: not again.interests.everyone)
        assert again.core.accounts.owed() == {}
        assert again.core.accounts.lost > 0
    finally:
        await again.stop()
        await node.stop()
        log.close()


# -- what can't be read is not missing ------------------------------------------------------------


async def log_of(folder: Path) -> MessageLog:
    """A log of several segments, with records of this gateway in the first of them."""
    log = MessageLog(folder / "log", segment_bytes=1_000)
    log.open()
    node, part = routed_node(log, folder)
    part.begin(["a/#"])
    await until(lambda: bool(records(log)))
    for _ in range(30):
        logged = node.publish(Entry("x", bytes(100), qos=1))
        assert logged is not None
        await logged
    await part.stop()
    await node.stop()
    return log


async def test_what_is_kept_at_the_end_is_as_of_the_end_of_the_log(tmp_path: Path) -> None:
    log = MessageLog(tmp_path / "log")
    log.open()
    node, part = routed_node(log, tmp_path)
    part.core.update(Interest("other", 1, 1, frozenset({"a/#"})), 0.0)
    await publish(node, 3)
    position = log.position
    assert position > 0
    await part.stop()
    found = RoutedFile(tmp_path).read()
    assert found is not None
    assert found[0] == position
    again = RoutedPart(node, tmp_path)
    assert again.core.accounts.owed() == {"other": 3}
    await again.stop()
    await node.stop()
    log.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
async def test_records_of_members_in_a_segment_that_can_t_be_read_now_are_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log = await log_of(tmp_path)
    whole = list(log.control())
    assert whole
    Unreadable(monkeypatch, ".log", number, 1)
    with pytest.raises(LogError, match="not now"):
        list(log.control())
    assert list(log.control()) == whole
    assert log.is_whole_from(0)
    log.close()


async def test_what_is_owed_is_not_kept_anew_by_who_could_not_read_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await log_of(tmp_path)
    (tmp_path / FILE_NAME).unlink()  # so that a start reads the whole log
    unreadable = Unreadable(monkeypatch, ".log", errno.EMFILE, 0)
    node, part = routed_node(log, tmp_path)
    await part.stop()
    assert (tmp_path / FILE_NAME).exists()
    (tmp_path / FILE_NAME).unlink()
    await node.stop()
    node = bare_node(log)
    unreadable.left = 1
    part = RoutedPart(node, tmp_path)
    assert unreadable.left == 0
    await part.stop()
    assert not (tmp_path / FILE_NAME).exists()
    await node.stop()
    log.close()


# -- a log that has lost its end ------------------------------------------------------------------


async def publish(node: TreeNode, count: int) -> None:
    for _ in range(count):
        kept = node.publish(Entry("a/b", bytes(100), qos=1))
        assert kept is not None
        await kept


async def test_what_is_owed_behind_the_lost_end_of_a_log_is_known_to_the_start_after_the_next(
    tmp_path: Path,
) -> None:
    """The file was ahead of the log, and the log has since grown beyond the file's place."""
    log = await log_of(tmp_path)
    saved = log.position
    log.close()
    for path in sorted((tmp_path / "log").glob("*.log"))[1:]:
        path.unlink()
    log = MessageLog(tmp_path / "log")
    log.open()
    assert log.position < saved
    other = Interest("other", 1, 1, frozenset({"a/#"}))
    row = Entry(TOPIC + "other", other.encode(), qos=1).row()
    flags = Flags.LOGGED | Flags.CONTROL
    log.append(*batch.make("other", 1, 1, [row], flags=flags, origin_time_us=0))
    node, part = routed_node(log, tmp_path)
    await publish(node, 60)
    assert log.position > saved
    owed = part.core.accounts.owed()
    assert owed == {"other": 60}
    again = RoutedPart(node, tmp_path)  # as after a kill: nothing was saved at the end
    try:
        assert again.core.accounts.owed() == owed
    finally:
        await again.stop()
        await node.stop()
        log.close()


# -- a log that has lost a page -------------------------------------------------------------------


async def test_what_stands_behind_a_lost_page_of_the_log_is_owed_to_who_is_told_of_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = MessageLog(tmp_path / "log")
    log.open()
    other = Interest("other", 1, 1, frozenset({"a/#"}))
    row = Entry(TOPIC + "other", other.encode(), qos=1).row()
    flags = Flags.LOGGED | Flags.CONTROL
    log.append(*batch.make("other", 1, 1, [row], flags=flags, origin_time_us=0))
    node, part = routed_node(log, tmp_path)
    await publish(node, 20)
    assert part.core.accounts.owed() == {"other": 20}
    await node.stop()
    log.close()  # as after a kill: nothing was saved at the end
    (path,) = (tmp_path / "log").glob("*.log")
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    log = MessageLog(tmp_path / "log")
    log.open()
    node, part = routed_node(log, tmp_path, epoch=2)
    try:
        assert not part.interests.everyone
        assert "messages go to all gateways" in caplog.text
        part.core.update(other, 0.0)
        assert part.core.accounts.owed() == {"other": 20}
        await part.stop()
        again = RoutedPart(node, tmp_path)
        assert again.core.is_unsure, "the next start reads the log once more"
        assert again.interests.everyone == {"other"}, "though the log may have dropped it by then"
        assert again.core.accounts.owed() == {"other": 20}
        await again.stop()
    finally:
        await node.stop()
        log.close()


async def test_what_a_gateway_wants_is_told_anew_when_the_page_of_the_log_where_it_stood_is_lost(
    tmp_path: Path,
) -> None:
    log = MessageLog(tmp_path / "log")
    log.open()
    node, part = routed_node(log, tmp_path)
    part.begin(["a/#"])
    try:
        await until(lambda: bool(records(log)))
        first = records(log)[0].version
        await publish(node, 3)
        (path,) = (tmp_path / "log").glob("*.log")
        data = bytearray(path.read_bytes())
        data[data.index(TOPIC.encode())] ^= 1
        path.write_bytes(data)
        assert not records(log)
        assert node.exchange.look_through_damage()
        await until(lambda: bool(records(log)))
        assert records(log)[0].version > first
    finally:
        await part.stop()
        await node.stop()
        log.close()


def test_what_is_owed_is_read_as_it_was_written_and_a_file_of_a_later_release_is_set_aside(
    tmp_path: Path,
) -> None:
    kept = RoutedFile(tmp_path)
    assert kept.read() is None
    accounts = [(1, 9, [("gw-b", 3, [(1, 4), (6, 9)])])]
    record = Interest("gw-a", 1, 2, frozenset({"t"}))
    kept.write(77, [record], accounts, [("gw-c", 5, 6)])
    assert RoutedFile(tmp_path).read() == (77, [record], accounts, [("gw-c", 5, 6)])
    file = tmp_path / FILE_NAME
    file.write_bytes(msgpack.packb([1, 77, [], []]))
    assert RoutedFile(tmp_path).read() == (77, [], [], [])
    for wrong in ([3, 77, [], [], []], [1, 77, [], [], []], [2, 77, [], []]):
        file.write_bytes(msgpack.packb(wrong))
        assert RoutedFile(tmp_path).read() is None
        assert not file.exists()  # it is set aside
