"""Routed mode on a node: what it has to tell again when its log drops it."""

from __future__ import annotations

from pathlib import Path

from tree_host import until

from gateway.links.handshake import Credentials
from gateway.links.node import TreeNode
from gateway.links.routed_part import RoutedPart
from gateway.links.settings import NodeReceiver, NodeSettings
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry
from tree_handler.routing.interest import TOPIC, Interest
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


async def test_what_a_gateway_wants_stands_in_its_log_however_much_is_published(
    tmp_path: Path,
) -> None:
    log = MessageLog(tmp_path / "log", segment_bytes=1_000, max_bytes=4_000)
    log.open()
    settings = NodeSettings(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.05),
        floods_clients=False,
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    part = RoutedPart(node, tmp_path)
    node.add_part(part)
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
