"""The configuration in docs/conformance.md is what a public interoperability suite needs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from gmqtt import Client as MqttClient

from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def documented(folder: Path) -> Path:
    """Write the page's files; only where they are, and the port, are the test's own."""
    files = dict(re.findall(r"```toml\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert sorted(files) == ["access.toml", "gateway.toml"]
    for name, text in files.items():
        moved = text.replace("/tmp/gw", str(folder)).replace("port = 1883", "port = 0")
        (folder / name).write_text(moved)
    (folder / "tree.key").write_text("ab" * 32)
    return folder / "gateway.toml"


class Client:
    """A client of another project, and what came back."""

    def __init__(self, client_id: str, version: int) -> None:
        self.answers: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self.messages: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._client = MqttClient(client_id, clean_session=True)
        self._version = version
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._received

    def _subscribed(self, _: Any, mid: int, qos: Any, properties: Any) -> None:
        self.answers.put_nowait(tuple(qos))

    def _received(self, _: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
        self.messages.put_nowait((topic, bytes(payload)))
        return 0

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.disconnect()

    async def connect(self, port: int) -> None:
        await self._client.connect("127.0.0.1", port, version=self._version)

    async def subscribe(self, topic_filter: str) -> tuple[int, ...]:
        self._client.subscribe(topic_filter, qos=2)
        return await asyncio.wait_for(self.answers.get(), 60)

    def publish(self, topic: str, payload: bytes) -> None:
        self._client.publish(topic, payload, qos=1)


@pytest.mark.parametrize("version", [4, 5])
async def test_the_documented_configuration_takes_everybody_and_refuses_one_subscription(
    version: int, tmp_path: Path
) -> None:
    process = GatewayProcess(config.load(documented(tmp_path), config.GatewaySettings))
    await process.start()
    try:
        async with Client("myclientid", version) as client:
            await client.connect(process.mqtt_port)
            assert await client.subscribe("test/nosubscribe") == (0x80,)
            assert await client.subscribe("nosubscribe") == (0x80,)
            assert await client.subscribe("#") == (2,)
            client.publish("test/nosubscribe", b"concealed")
            client.publish("TopicA/C", b"open")
            received = await asyncio.wait_for(client.messages.get(), 60)
            assert received == ("TopicA/C", b"open")
    finally:
        await process.stop()
