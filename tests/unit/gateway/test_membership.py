"""A gateway's own record: its log has it at all times, for those who join later."""

from __future__ import annotations

from pathlib import Path

from tree_host import until

from gateway.broker.log.message_log import MessageLog
from gateway.links.handshake import Credentials
from gateway.links.node import TreeNode
from gateway.membership import TOPIC, Members
from tree_handler import batch
from tree_handler.batch import Entry
from tree_handler.member import MemberRecord
from tree_handler.spanning.spanning_tree import Identity, Parameters


def versions(log: MessageLog) -> list[int]:
    """Of the records that the log still holds."""
    return [
        MemberRecord.decode(entry.payload).version
        for frame, header in log.control()
        for entry in batch.decode(frame, header)
        if entry.topic.startswith(TOPIC)
    ]


async def test_a_gateways_record_stands_in_its_log_however_much_is_published(
    tmp_path: Path,
) -> None:
    log = MessageLog(tmp_path / "log", segment_bytes=1_000, max_bytes=4_000)
    log.open()
    node = TreeNode(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.05),
        log,
        deliver=lambda rows, header: None,
        control=lambda entry, header: None,
        repair_interval_s=0.05,
    )
    members = Members()
    try:
        members.publish(node, MemberRecord("gw", 1, 1, "", "", "10.0.0.1", 1883))
        await until(lambda: versions(log) == [1])
        for _ in range(100):
            kept = node.publish(Entry("x", bytes(100), qos=1))
            assert kept is not None
            await kept
        await until(lambda: bool(versions(log)) and min(versions(log)) > 1)
        known = members.known.get("gw")
        assert known is not None
        assert (known.version, known.address) == (max(versions(log)), "10.0.0.1")
    finally:
        await node.stop()
        log.close()
