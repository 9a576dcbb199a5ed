"""A neighbour for a gateway that is measured: ``python -m benchmarks.neighbour PORT KEY DIR``.

It is a node of the tree like a collector: it takes every batch, checks it and logs what is to be
logged, and has no clients. Because of it the gateway stamps QoS 0 messages too and sends all that
its clients publish over a link. It prints a line when it is part of the tree, and ends when its
stdin does. With two more arguments, a folder of certificates and ``on`` or ``off``, its link is
inside TLS, and batches are signed or not.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gateway.base import event_loop
from gateway.log.message_log import MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.node import TreeNode
from gateway.node.links.part import Unheeded
from gateway.node.links.retained_part import TOPIC as RETAINED_TOPIC
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.tcp import TcpAddress
from gateway.node.signing.fleet_keys import SigningFiles
from gateway.node.signing.fleet_proof import FleetProof
from gateway.process.configuration.config import TreeSection
from gateway.trust.tls.context import ClientCertificate, TlsFiles
from tree_handler.spanning.spanning_tree import Identity, Parameters

_ADDRESS = "127.0.0.1"
_LOG_BYTES = 64 << 20
_LOOK_S = 0.05


async def run(
    port: int, key_file: Path, folder: Path, certificates: Path | None, signatures: str
) -> None:
    """Be the neighbour of the gateway at a port, until stdin ends."""
    files = None if certificates is None else _files(certificates)
    signing = None if files is None or signatures == "off" else SigningFiles.read(files)
    tree = TreeSection(key_file=key_file)
    log = MessageLog(folder / "log", max_bytes=_LOG_BYTES)
    log.open()
    settings = NodeSettings(
        Credentials("neighbour", tree.name, tree.key(), mode=tree.mode),
        Identity("neighbour", 1, 0.0, _ADDRESS, transit=False),
        Parameters(hello_s=tree.hello_s),
        seals=(proof := FleetProof(signing, folder, tree.name)).seals,
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    proof.ride_on(node, "neighbour", 1)
    node.add_part(Unheeded(RETAINED_TOPIC))
    node.admission.renew(None if files is None else LinkTls(files, "neighbour"))
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


def _files(folder: Path) -> TlsFiles:
    own, key = folder / "neighbour.pem", folder / "neighbour.key.pem"
    return TlsFiles(own, key, ClientCertificate.REQUIRED, folder / "ca.pem")


async def _dial(node: TreeNode, port: int) -> None:
    while True:
        try:
            await node.dial(TcpAddress(_ADDRESS, port), lambda _: None)
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
    port, key_file, folder, *more = sys.argv[1:]
    certificates, signatures = (Path(more[0]), more[1]) if more else (None, "off")
    event_loop.run(run(int(port), Path(key_file), Path(folder), certificates, signatures))
