"""A neighbour for a gateway that is measured: ``python -m benchmarks.neighbour PORT KEY DIR``.

It is a node of the tree like a collector: it takes every batch, checks it and logs what is to be
logged, and has no clients. Because of it the gateway stamps QoS 0 messages too and sends all that
its clients publish over a link. It prints a line when it is part of the tree, and ends when its
stdin does.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gateway import event_loop
from gateway.config import TreeSection
from gateway.links.handshake import Credentials
from gateway.links.neighbours import Address
from gateway.links.node import TreeNode
from gateway.links.settings import NodeReceiver, NodeSettings
from gateway.log.message_log import MessageLog
from tree_handler.spanning.spanning_tree import Identity, Parameters

_ADDRESS = "127.0.0.1"
_LOG_BYTES = 64 << 20
_LOOK_S = 0.05


async def run(port: int, key_file: Path, folder: Path) -> None:
    """Be the neighbour of the gateway at a port, until stdin ends."""
    tree = TreeSection(key_file=key_file)
    log = MessageLog(folder / "log", max_bytes=_LOG_BYTES)
    log.open()
    settings = NodeSettings(
        Credentials("neighbour", tree.name, tree.key(), mode=tree.mode),
        Identity("neighbour", 1, 0.0, _ADDRESS, transit=False),
        Parameters(hello_s=tree.hello_s),
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    linked = asyncio.create_task(_dial(node, port))
    told = asyncio.create_task(_tell(node))
    try:
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({linked, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        await node.stop()
        await asyncio.gather(linked, told, return_exceptions=True)
        log.close()


async def _dial(node: TreeNode, port: int) -> None:
    while True:
        try:
            await node.dial(Address(_ADDRESS, port), lambda _: None)
        except OSError:  # the gateway is not there yet
            await asyncio.sleep(_LOOK_S)
        else:
            return


async def _tell(node: TreeNode) -> None:
    while not any(  # noqa: ASYNC110  # the node has no event for it
        neighbour["forwarding"] for neighbour in node.status()["neighbours"]
    ):
        await asyncio.sleep(_LOOK_S)
    print("ready", flush=True)


if __name__ == "__main__":
    event_loop.run(run(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))
