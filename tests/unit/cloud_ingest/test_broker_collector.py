"""A collector at a broker: what it says and does when broker, disk or files change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from fleet_gateway import until

from cloud_ingest.collector import from_broker, status_file
from cloud_ingest.collector.broker_settings import BrokerCollectorSettings
from cloud_ingest.collector.from_broker import BrokerCollector
from gateway.log.errors import LogError
from gateway.mqtt import (
    ConnAck,
    Connect,
    Packet,
    PropertyId,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    Version,
    decode,
    encode,
    packet_end,
)
from gateway.node.links.commit import GroupCommit
from gateway.process.configuration.config import ConfigError, load


class OneSessionBroker:
    """A broker that sends one message at QoS 1 to each connection, again until it is acknowledged.

    Args:
        expiry_s: so long it says that it keeps the session.

    """

    def __init__(self, expiry_s: int = 7 * 86_400) -> None:
        self._expiry_s = expiry_s
        self.connects = 0
        self.acknowledged: list[int] = []
        self.writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer, data = writer, b""
        while more := await reader.read(1 << 16):
            data += more
            while (where := packet_end(data, 0, 1 << 20)) is not None:
                self._answer(decode(data[0], data[where[0] : where[1]], Version.V5), writer)
                data = data[where[1] :]
        writer.close()

    def _answer(self, packet: Packet, writer: asyncio.StreamWriter) -> None:
        match packet:
            case Connect():
                said = {PropertyId.SESSION_EXPIRY_INTERVAL: self._expiry_s}
                is_again = self.connects > 0
                self.connects += 1
                writer.write(encode(ConnAck(is_again, 0, said), Version.V5))
            case Subscribe():
                writer.write(encode(SubAck(1, [1]), Version.V5))
                if not self.acknowledged:
                    again = self.connects > 1
                    publish = Publish("a", b"21.5", 1, False, again, 7)
                    writer.write(encode(publish, Version.V5))
            case PubAck():
                self.acknowledged.append(packet.packet_id)


def written(folder: Path, port: int, more: str = "") -> BrokerCollectorSettings:
    file = folder / "collector.toml"
    file.write_text(
        '[collector]\nid = "site-a"\nspool_dir = "spool"\n'
        f'[broker]\nhost = "127.0.0.1"\nport = {port}\ntopics = ["#"]\n{more}'
    )
    return load(file, BrokerCollectorSettings)


@asynccontextmanager
async def collecting(folder: Path, broker: OneSessionBroker) -> AsyncIterator[BrokerCollector]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    (folder / "spool").mkdir()
    collector = BrokerCollector(written(folder, server.sockets[0].getsockname()[1]))
    running = asyncio.create_task(collector.run())
    try:
        yield collector
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
        if broker.writer is not None:
            broker.writer.transport.abort()
        await asyncio.sleep(0)


def status(folder: Path) -> dict[str, Any]:
    file = folder / "spool" / status_file.NAME
    found: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    return found


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_broker, "BACK_OFF_S", 0.0)
    monkeypatch.setattr(from_broker, "STORE_AGAIN_S", 3_600.0)
    monkeypatch.setattr(status_file, "INTERVAL_S", 0.01)


async def test_it_connects_again_when_its_files_are_to_be_read_and_tells_of_a_short_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = OneSessionBroker(expiry_s=60)
    async with collecting(tmp_path, broker) as collector:
        await until(lambda: broker.acknowledged == [7])
        await until(lambda: status(tmp_path).get("stored"))
        told = status(tmp_path)
        assert [told[key] for key in ("trouble", "stored", "waiting", "known_again")] == [
            "",
            1,
            0,
            0,
        ]
        collector.reload()
        await until(lambda: broker.connects == 2)
        await until(lambda: status(tmp_path)["is_subscribed"])
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert said[0] == "the broker keeps the session for 60 s and not for 604800"
    assert said[1].endswith(": files are read again")


async def test_a_session_that_is_kept_as_long_as_was_asked_for_is_not_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = OneSessionBroker()
    async with collecting(tmp_path, broker):
        await until(lambda: broker.acknowledged == [7])
        assert broker.writer is not None
        broker.writer.close()
        await until(lambda: broker.connects == 2)
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert said.endswith(": the connection was closed")


async def test_what_could_not_be_synced_is_not_acknowledged_and_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, failures = GroupCommit.settle, [OSError("I/O error")]

    def settle(self: GroupCommit, waiting: list[Any]) -> None:
        if failures and waiting:
            error = failures.pop()
            for done in waiting:
                asyncio.get_running_loop().call_soon(done, error)
        else:
            whole(self, waiting)

    monkeypatch.setattr(GroupCommit, "settle", settle)
    broker = OneSessionBroker()
    async with collecting(tmp_path, broker):
        await until(lambda: broker.acknowledged == [7])
        await until(lambda: status(tmp_path).get("stored") == 1)
        assert broker.connects == 2
        assert status(tmp_path)["known_again"] == 0
    assert "the spool could not be synced: I/O error" in caplog.text


async def test_where_the_spool_takes_nothing_nothing_is_acknowledged_and_it_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[bytes] = []

    def append(self: GroupCommit, frame: bytes, header: object) -> LogError | None:
        refused.append(frame)
        return LogError("no room")

    monkeypatch.setattr(GroupCommit, "append", append)
    broker = OneSessionBroker()
    async with collecting(tmp_path, broker):
        await until(lambda: status(tmp_path).get("waiting") == 1)
    assert (len(refused), broker.acknowledged) == (1, [])


@pytest.mark.parametrize("has_ca", [False, True])
async def test_a_password_that_goes_over_the_network_as_it_is_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_ca: bool
) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    (tmp_path / "spool").mkdir()
    more = 'user = "me"\npassword_file = "password"\n'
    if has_ca:
        Authority(tmp_path)
        more += 'ca_file = "authority.pem"\n'
    BrokerCollector(written(tmp_path, 1883, more))
    assert ("broker.ca_file: missing" in caplog.text) != has_ca


def test_a_password_or_certificate_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    Authority(tmp_path)
    (tmp_path / "own.pem").write_text("no certificate")
    lines = 'ca_file = "authority.pem"\ncertificate_file = "own.pem"\nkey_file = "own.pem"\n'
    settings = written(tmp_path, 8883, lines)
    with pytest.raises(ConfigError, match=r"^broker\.certificate_file: .*own\.pem: "):
        settings.tls()
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    settings = written(tmp_path, 8883, 'user = "me"\npassword_file = "password"\n')
    assert settings.login() == ("me", b"secret")
    (tmp_path / "password").unlink()
    with pytest.raises(ConfigError, match=r"^broker\.password_file: .*password"):
        settings.login()
