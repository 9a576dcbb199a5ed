"""A SIGHUP that came to nothing does not take the next one with it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from brokers import Gateway
from fleet_gateway import FleetGateway, until
from mqtt_peer import Peer
from ports import free_port

from gateway.mqtt import Disconnect, ReasonCode
from gateway.process.config_trials.judge import ConfigJudge
from gateway.process.running import service
from gateway.process.running.trial_watch import TrialWatch


async def test_after_a_byte_that_is_no_utf_8_the_next_sighup_revokes_a_certificate(
    tmp_path: Path,
) -> None:
    authority, port = Authority(tmp_path), free_port()
    server, alice = authority.issue("gw", is_server=True), authority.issue("alice")
    revoked = tmp_path / "revoked.pem"
    revoked.write_bytes(authority.revoke())
    gateway = Gateway(tmp_path, "write")
    text = gateway.config.read_text().replace(
        "[coap]",
        f"""
tls_port = {port}
certificate_file = "{server.certificate}"
key_file = "{server.key}"
client_certificate = "required"
client_ca_file = "{authority.file}"
client_crl_file = "{revoked}"
[coap]""",
    )
    gateway.config.write_text(text)
    await gateway.start()
    try:
        context = authority.client_context(alice)
        client = Peer(*await asyncio.open_connection("127.0.0.1", port, ssl=context), 5)
        assert await client.connect("alice") == 0

        def complaints() -> list[str]:
            return [line for line in gateway.lines if " ERROR " in line]

        gateway.config.write_bytes(text.encode() + "# Küche\n".encode("latin-1"))
        gateway.send_signal(signal.SIGHUP)
        await until(lambda: bool(complaints()))
        await client.nothing_came()
        (line,) = complaints()
        place = f"{gateway.config}:{text.count(chr(10)) + 1}"
        assert (
            "ERROR gateway.process.running.gateway_process: "
            f"nothing is read again: {place}: byte 0xFC" in line
        )

        revoked.write_bytes(authority.revoke(alice))
        gateway.config.write_text(text)
        gateway.send_signal(signal.SIGHUP)
        told = await client.next()
        assert isinstance(told, Disconnect) and told.reason == ReasonCode.NOT_AUTHORIZED
        assert await client.next() is None
    finally:
        await gateway.stop()


@pytest.mark.usefixtures("process_of_a_service")
async def test_whatever_a_reload_raises_the_next_sighup_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service.freed_memory, "spare_the_loop", lambda: None)
    monkeypatch.setattr(service.freed_memory, "keep_what_is_freed", lambda: None)
    caplog.set_level("INFO")
    gateway = FleetGateway(tmp_path, "gw")
    gateway.write()
    raised: list[BaseException] = [
        RuntimeError("odd"),
        asyncio.CancelledError(),
        MemoryError(),
        UnicodeError("odd"),
    ]

    def read() -> Any:
        if raised:
            raise raised.pop()
        return gateway.read()

    settings = gateway.read()
    trial = TrialWatch(ConfigJudge(tmp_path / "gw.toml", lambda _: read()), lambda: None)
    serving = asyncio.create_task(service.serve(settings, trial))
    await until(lambda: "gw is up" in caplog.text)
    while left := len(raised):
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda left=left: len(raised) < left)
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: "are read again" in caplog.text)
    assert caplog.text.count("the reload failed, the next is served") == 4
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
