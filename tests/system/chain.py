"""Gateways in a chain, each a process of its own, with paths between them that a test can cut."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from brokers import CutOff, Gateway
from mqtt_peer import Peer

from gateway.mqtt import PingReq, PingResp, Publish, Will

CONVERGE_S = 40.0
"""A busy machine may take so long."""
HELLO_S = 2.0
"""A neighbour of which nothing comes for three of these is dead: none that stands still a while."""
OFTEN_S = 0.1
"""Of tests that wait for what gateways do a few hellos after a fault, and bear that links end."""


class TreeGateway(Gateway):
    """One gateway of a chain.

    Args:
        folder: for its configuration and state.
        gateway_id: its name.
        neighbour_port: of the one that it dials, if any.
        max_bytes: of its log.
        mode: of the tree.
        hello_s: a neighbour of which nothing comes for three of these is dead.

    """

    def __init__(
        self,
        folder: Path,
        gateway_id: str,
        neighbour_port: int | None,
        max_bytes: int,
        mode: str = "flood",
        hello_s: float = HELLO_S,
    ) -> None:
        folder.mkdir()
        super().__init__(folder, "write")
        self.gateway_id = gateway_id
        neighbours = "" if neighbour_port is None else f'"127.0.0.1:{neighbour_port}"'
        text = self.config.read_text()
        self.config.write_text(
            text.replace('id = "gw"', f'id = "{gateway_id}"')
            .replace("discovery = false", f"discovery = false\nneighbours = [{neighbours}]")
            .replace("[tree]", "[tree]\nhello_s = HELLO\nrepair_interval_s = 0.5\nmode = 'MODE'")
            .replace("HELLO", f"{hello_s}")
            .replace("MODE", mode)
            .replace(f"segment_bytes = {256 << 10}", "segment_bytes = 16384")
            .replace(f"max_bytes = {1 << 30}", f"max_bytes = {max_bytes}")
        )

    @asynccontextmanager
    async def client(
        self, name: str, version: int = 5, *, will: Will | None = None
    ) -> AsyncIterator[Peer]:
        """A client of it that is connected."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port), version)
        assert await peer.connect(name, will=will) == 0
        yield peer
        peer.close()

    async def publish(self, messages: dict[str, bytes]) -> None:
        """Have these retained; an empty payload deletes."""
        async with self.client("writer") as writer:
            for topic, payload in messages.items():
                assert await writer.publish(topic, payload, retain=True) == 0

    async def retained(self, topic_filter: str = "#") -> dict[str, bytes]:
        """Return the retained messages that a new subscriber gets up to the answer to a ping."""
        async with self.client("reader") as reader:
            await reader.subscribe(topic_filter)
            reader.send(PingReq())
            found: dict[str, bytes] = {}
            while not isinstance(packet := await reader.next(), PingResp):
                assert isinstance(packet, Publish), packet
                found[packet.topic] = packet.payload  # or live, meanwhile
            return {topic: payload for topic, payload in found.items() if payload}

    @property
    def log_starts_at(self) -> int:
        """The position of the first byte that its log still has."""
        return min(int(path.stem) for path in (self.state / "log").glob("*.log"))


class Chain:
    """Gateways ``a``, ``b``, ...; each but the first dials the one before it."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        max_bytes: int = 1 << 20,
        mode: str = "flood",
        hello_s: float = HELLO_S,
    ) -> None:
        self.gateways: list[TreeGateway] = []
        self.paths: list[CutOff] = []
        """Between each and the one before it."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._mode = mode
        self._hello_s = hello_s
        for _ in range(count):
            self.add()

    def add(self) -> TreeGateway:
        """One more at the end, with an empty disk; start it with `start`."""
        name = chr(ord("a") + len(self.gateways))
        port = None
        if self.gateways:
            self.paths.append(CutOff(self.gateways[-1]))
            port = self.paths[-1].port
        one = TreeGateway(
            self._folder / name, name, port, self._max_bytes, self._mode, self._hello_s
        )
        self.gateways.append(one)
        return one

    async def __aenter__(self) -> Chain:
        await asyncio.gather(*(one.start() for one in self.gateways))
        for path in self.paths:
            await path.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for path in self.paths:
            path.kill()
        await asyncio.gather(*(one.stop() for one in self.gateways if one.is_running))

    async def all_retain(self, expected: dict[str, bytes]) -> None:
        """Wait until every gateway retains exactly this."""
        for one in self.gateways:
            await retains(one, expected)


async def retains(one: TreeGateway, expected: dict[str, bytes], topic_filter: str = "#") -> None:
    """Wait until a gateway retains exactly this."""
    found: dict[str, bytes] = {}
    try:
        async with asyncio.timeout(CONVERGE_S):
            while (found := await one.retained(topic_filter)) != expected:
                await asyncio.sleep(0.05)
    except TimeoutError:
        told = "\n".join(one.lines)
        raise AssertionError(f"{one.gateway_id} retains {found}\n{told}") from None


def forget(one: TreeGateway) -> None:
    """Take a gateway's disk away, which is down."""
    shutil.rmtree(one.state)
