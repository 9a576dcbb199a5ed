"""The log as the broker sees it, over the log of a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.log.message_log import MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.node import TreeNode
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.process.state_folder.history import LogHistory
from tree_handler.batch import Entry
from tree_handler.spanning.spanning_tree import Identity, Parameters


async def test_the_broker_hears_when_its_log_has_let_something_go(tmp_path: Path) -> None:
    log = MessageLog(tmp_path / "log", segment_bytes=1_000, max_bytes=4_000)
    log.open()
    settings = NodeSettings(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.05),
        repair_interval_s=0.05,
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    history = LogHistory(node, ("gw", 1))
    try:
        assert history.trims == 0
        async with asyncio.timeout(60):
            while not history.trims:
                kept = node.publish(Entry("x", bytes(100), qos=1))
                assert kept is not None
                await kept
        assert history.kept_from()["gw", 1] > 1
    finally:
        await node.stop()
        log.close()
