"""A neighbour whose connection comes over TLS is served as one that comes without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority

from gateway import config
from gateway.process import GatewayProcess

LIMIT_S = 20


class Relay:
    """Speaks TLS to a gateway for a neighbour that does not."""

    def __init__(self, authority: Authority, port: int) -> None:
        self._context = authority.client_context()
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)
        self._writers += [writer, there[1]]
        for source, target in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._copy(source, target))
            self._tasks.add(task)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def settings(folder: Path, name: str, mqtt: str = "", tree: str = "") -> config.GatewaySettings:
    (folder / "tree.key").write_text("ab" * 32)
    path = folder / f"{name}.toml"
    path.write_text(
        f"""
[gateway]
id = "{name}"
state_dir = "{folder}/{name}"
[mqtt]
port = 0
{mqtt}
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
hello_s = 0.05
{tree}
"""
    )
    return config.load(path, config.GatewaySettings)


@pytest.fixture
async def listener(tmp_path: Path) -> AsyncIterator[tuple[GatewayProcess, Authority]]:
    authority = Authority(tmp_path)
    server = authority.issue("gw-a", is_server=True)
    secure = f'tls_port = 0\ncertificate_file = "{server.certificate}"\nkey_file = "{server.key}"'
    process = GatewayProcess(settings(tmp_path, "gw-a", secure))
    await process.start()
    yield process, authority
    await process.stop()


async def test_a_link_over_tls_carries_messages_both_ways(
    listener: tuple[GatewayProcess, Authority], tmp_path: Path
) -> None:
    first, authority = listener
    relay = Relay(authority, first.mqtt_ports["mqtts"])
    port = await relay.start()
    second = GatewayProcess(settings(tmp_path, "gw-b", tree=f'neighbours = ["127.0.0.1:{port}"]'))
    await second.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            for process in (first, second):
                while set(process.status()["members"]) != {"gw-a", "gw-b"}:
                    await asyncio.sleep(0.01)
    finally:
        await second.stop()
        await relay.stop()
