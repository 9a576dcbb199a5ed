"""Routed mode on a node: what it has to tell again when its log drops it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tree_host import until

from gateway.links.handshake import Credentials
from gateway.links.node import TreeNode
from gateway.links.routed_part import RoutedPart
from gateway.links.settings import NodeReceiver, NodeSettings
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry
from tree_handler.routing.away import LONG_S
from tree_handler.routing.interest import TOPIC, Interest
from tree_handler.routing.locator import Behind
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


def routed_node(log: MessageLog, folder: Path) -> tuple[TreeNode, RoutedPart]:
    settings = NodeSettings(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.05),
        floods_clients=False,
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
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
    node.locator.locator.receive(1, Behind(True, {"gone": 1}))
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
