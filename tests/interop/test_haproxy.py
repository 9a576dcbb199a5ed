"""HAProxy in front of a broker tells from where clients come, in both versions of its protocol."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority
from mqtt_peer import LIMIT_S, Bench, Peer
from ports import free_port

from gateway.broker.listeners.listener import Listener
from gateway.broker.proxy_protocol.layer import REFUSED, SILENT
from gateway.mqtt import Version
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

pytestmark = pytest.mark.peer("haproxy", "haproxy")
PROXY = (ipaddress.ip_network("127.0.0.1"),)
FROM = "127.0.0.5"
"""The client's address; HAProxy's own is 127.0.0.1."""
WAYS = {
    "version 1": ("mqtt", "send-proxy"),
    "version 2": ("mqtt", "send-proxy-v2"),
    "version 2 with more": (
        "mqtt",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id",
    ),
    "version 2 before TLS": ("mqtts", "send-proxy-v2-ssl"),
    "with looks whether somebody is there": (
        "mqtt",
        "send-proxy-v2 check check-send-proxy inter 50ms",
    ),
}


class Haproxy:
    """HAProxy as a process, with a front for each way."""

    def __init__(self, folder: Path, bench: Bench) -> None:
        self.ports = {way: free_port() for way in WAYS}
        fronts = "".join(
            f"listen front{number}\n  bind 127.0.0.1:{self.ports[way]}\n"
            "  unique-id-format %[uuid()]\n"
            f"  server gateway 127.0.0.1:{bench.broker.ports[scheme]} source 127.0.0.1 {options}\n"
            for number, (way, (scheme, options)) in enumerate(WAYS.items())
        )
        self._config = folder / "haproxy.cfg"
        self._config.write_text(
            "global\n  maxconn 100\ndefaults\n  mode tcp\n  timeout connect 20s\n"
            f"  timeout client 60s\n  timeout server 60s\n{fronts}"
        )

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            "haproxy", "-db", "-f", str(self._config)
        )
        async with asyncio.timeout(LIMIT_S):
            while not await self._answers():
                assert self._process.returncode is None
                await asyncio.sleep(0.02)

    async def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            for port in self.ports.values():
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
            return True
        return False

    async def stop(self) -> None:
        self._process.terminate()
        await self._process.wait()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    authority = Authority(tmp_path)
    server = authority.issue("gw", is_server=True)
    tls = Tls(TlsFiles(server.certificate, server.key, ClientCertificate.NONE, None))
    made = Bench(anonymous=True, tls=tls)
    made.listeners = tuple(
        Listener(scheme, ("127.0.0.1",), 0, PROXY) for scheme in ("mqtt", "mqtts")
    )
    await made.start()
    yield made
    await made.stop()


async def test_clients_behind_haproxy_are_known_by_their_own_address(
    bench: Bench, tmp_path: Path
) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    haproxy = Haproxy(tmp_path, bench)
    await haproxy.start()
    try:
        for way, (scheme, _) in WAYS.items():
            reader, writer = await asyncio.open_connection(
                "127.0.0.1",
                haproxy.ports[way],
                local_addr=(FROM, 0),
                ssl=context if scheme == "mqtts" else None,
            )
            peer = Peer(reader, writer, Version.V5)
            assert await peer.connect(way) == 0, way
            session = bench.broker.core.sessions.get(way)
            assert session is not None
            assert session.client.address == FROM, way
            await peer.subscribe("t")
            await peer.publish("other")
            peer.close()
        direct = await bench.open()
        assert await direct.connect("direct") == -1
    finally:
        await haproxy.stop()
    assert bench.counts[REFUSED] == 1
    assert bench.counts[SILENT] == 0
