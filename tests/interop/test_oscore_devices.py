"""Goal: a device behind a proxy is known by its own key, and what was sent once is taken once.

Method: aiocoap's OSCORE client against a gateway's process on loopback: straight, through a proxy
that sees nothing of what is inside, and around a kill of the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap import Code, Message
from aiocoap.message import Direction

from coap_engine import codes
from coap_engine.codec import ACK, CON, NON, CoapMessage, decode, empty_message
from coap_engine.option_numbers import OSCORE
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import SenderNumbers

SECRET = "0102030405060708090a0b0c0d0e0f10"
LIMIT_S = 30


class OscoreGateway:
    """A gateway that knows one device, and nobody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "tree.key").write_text("ab" * 32)
        devices = folder / "oscore.toml"
        devices.touch(mode=0o600)
        devices.write_text(
            f'[meter]\nmaster_secret = "{SECRET}"\nsender_id = "01"\nrecipient_id = "02"\n'
        )
        policy = folder / "policy.toml"
        policy.write_text('version = 1\n[principals]\n"oscore:meter" = ["operator"]\n')
        (folder / "gateway.toml").write_text(
            f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
oscore_file = "{devices}"
public = []
[tree]
key_file = "{folder}/tree.key"
discovery = false
tls = "off"
[access]
policy_file = "{policy}"
[[sensors]]
type = "switch"
name = "valve"
"""
        )
        self.start()

    def start(self) -> None:
        listeners = self._folder / "state" / "listeners.json"
        listeners.unlink(missing_ok=True)
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway.tools.cli", "run", "--config", "gateway.toml"],
                cwd=self._folder,
                stderr=log,
            )
        for _ in range(600):
            if listeners.exists():
                break
            assert self._process.poll() is None, self.log
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
        self.port = int(json.loads(listeners.read_text())["coap"].rpartition(":")[2])

    @property
    def log(self) -> str:
        return (self._folder / "log.txt").read_text()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


class Proxy(asyncio.DatagramProtocol):
    """Passes datagrams on from a stranger's address, and keeps those that went to the gateway."""

    def __init__(self, gateway_port: int) -> None:
        self._upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._upstream.bind(("127.0.0.7", 0))
        self._upstream.setblocking(False)
        self.gateway = ("127.0.0.1", gateway_port)
        self._client: Any = None
        self.passed: list[bytes] = []
        asyncio.get_running_loop().add_reader(self._upstream, self._back)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._client = addr
        self.passed.append(data)
        self._upstream.sendto(data, self.gateway)

    def _back(self) -> None:
        self._transport.sendto(self._upstream.recv(65_535), self._client)

    def again(self, data: bytes) -> bytes:
        """Send a datagram once more from an address of its own; what comes of it."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.8", 0))
            sock.settimeout(LIMIT_S)
            sock.sendto(data, self.gateway)
            return sock.recv(65_535)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._upstream)
        self._upstream.close()
        self._transport.close()


class Device:
    """aiocoap's client with a context of its own."""

    def __init__(self, folder: Path, secret: str = SECRET) -> None:
        keys = OscoreKeys("gateway", bytes.fromhex(secret), b"\x02", b"\x01")
        numbers = SenderNumbers(folder / "device", ["gateway"], lambda _: 0)
        self.security = OscoreContext(keys, numbers, b"")
        self.security.recipient_replay_window.initialize_empty()
        self.context: Any = None
        self.port = 0

    async def open(self) -> None:
        self.context = await aiocoap.Context.create_client_context(transports=["oscore", "simple6"])

    def message(self, code: Code, path: str, **more: Any) -> Message:
        uri = f"coap://127.0.0.1:{self.port}{path}"
        self.context.client_credentials[f"coap://127.0.0.1:{self.port}/*"] = self.security
        return Message(code=code, uri=uri, **more)

    async def ask(self, code: Code, path: str, **more: Any) -> Message:
        async with asyncio.timeout(LIMIT_S):
            return await self.context.request(self.message(code, path, **more)).response


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[OscoreGateway]:
    made = OscoreGateway(tmp_path)
    yield made
    made.stop()


@pytest.fixture
async def device(tmp_path: Path, gateway: OscoreGateway) -> AsyncIterator[Device]:
    made = Device(tmp_path)
    made.port = gateway.port
    await made.open()
    yield made
    await made.context.shutdown()


@pytest.fixture
async def proxy(gateway: OscoreGateway, device: Device) -> AsyncIterator[Proxy]:
    loop = asyncio.get_running_loop()
    transport, made = await loop.create_datagram_endpoint(
        lambda: Proxy(gateway.port), local_addr=("127.0.0.1", 0)
    )
    device.port = transport.get_extra_info("sockname")[1]
    yield made
    made.close()


async def test_a_device_reads_switches_registers_and_looks_up_through_a_proxy(
    device: Device, proxy: Proxy
) -> None:
    assert (await device.ask(Code.GET, "/sensors/valve", accept=0)).payload == b"0.0"
    switched = await device.ask(Code.PUT, "/sensors/valve", payload=b"1", content_format=0)
    assert switched.code == Code.CHANGED
    assert (await device.ask(Code.GET, "/sensors/valve", accept=0)).payload == b"1.0"
    links = ",".join(f"</s/{n}>;rt=inside" for n in range(200)).encode()
    made = await device.ask(
        Code.POST, "/rd?ep=behind&base=coap://device.example", payload=links, content_format=40
    )
    assert made.code == Code.CREATED
    found = await device.ask(Code.GET, "/rd-lookup/res?rt=inside")
    assert found.payload.count(b"coap://device.example/s/") == 200
    inside = (b"valve", b"sensors", b"rd-lookup", b"inside", b"device.example")
    assert not [word for word in inside for datagram in proxy.passed if word in datagram]


async def test_a_device_observes_through_a_proxy(device: Device, proxy: Proxy) -> None:
    request = device.context.request(
        device.message(Code.GET, "/sensors/valve", accept=0, observe=0)
    )
    async with asyncio.timeout(LIMIT_S):
        assert (await request.response).payload == b"0.0"
        notifications = aiter(request.observation)
        for value in (b"1.0", b"0.0"):
            await device.ask(Code.PUT, "/sensors/valve", payload=value[:1], content_format=0)
            while (await anext(notifications)).payload != value:
                pass  # the state before may be told again
    request.observation.cancel()


async def test_the_same_rules_hold_for_those_without_the_key(
    device: Device, gateway: OscoreGateway, tmp_path: Path
) -> None:
    (tmp_path / "stranger").mkdir()
    stranger = Device(tmp_path / "stranger", secret="ff" * 16)
    stranger.port = gateway.port
    await stranger.open()
    try:
        with pytest.raises(aiocoap.error.Error):
            await stranger.ask(Code.PUT, "/sensors/valve", payload=b"1")
    finally:
        await stranger.context.shutdown()
    assert (await device.ask(Code.GET, "/sensors/valve", accept=0)).payload == b"0.0"


async def test_what_was_sent_is_taken_once_though_the_gateway_was_killed_meanwhile(
    device: Device, gateway: OscoreGateway, proxy: Proxy
) -> None:
    await device.ask(Code.GET, "/sensors/valve")
    proxy.passed.clear()
    await device.ask(Code.PUT, "/sensors/valve", payload=b"1", content_format=0)
    switched_on = proxy.passed[-1]  # a client that waited for long sends again
    await device.ask(Code.PUT, "/sensors/valve", payload=b"0", content_format=0)
    assert b"Replay detected" in proxy.again(switched_on)
    assert (await device.ask(Code.GET, "/sensors/valve", accept=0)).payload == b"0.0"
    gateway.kill()
    gateway.start()
    proxy.gateway = ("127.0.0.1", gateway.port)
    assert proxy.again(switched_on)[1] == Code.CHANGED  # protected: the Echo that it asks for
    assert (await device.ask(Code.GET, "/sensors/valve", accept=0)).payload == b"0.0"
    assert b"Replay detected" in proxy.again(switched_on)
    assert (await device.ask(Code.GET, "/sensors/valve", accept=0)).payload == b"0.0"


class RawDevice:
    """Asks and is asked at one port, as a device with one socket does."""

    def __init__(self, security: OscoreContext, gateway_port: int, links: bytes) -> None:
        self._security = security
        self._gateway = ("127.0.0.1", gateway_port)
        self._links = links
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        self._sock.settimeout(LIMIT_S)
        self.asked: list[str] = []
        self._confirmed: set[int] = set()

    def __enter__(self) -> RawDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def register(self, message_id: int, echo: bytes | None) -> Message:
        """Register simply, answer what is asked meanwhile, and open the answer."""
        message = Message(code=Code.POST, uri_path=(".well-known", "rd"), uri_query=("ep=simple",))
        message.opt.echo = echo
        outer, request_id = self._security.protect(message)
        token = bytes([message_id])
        self._send(CON, int(outer.code), message_id, token, outer)
        while True:
            came = decode(self._sock.recv(2_048))
            if came.type == CON:
                self._sock.sendto(empty_message(ACK, came.message_id), self._gateway)
                if came.message_id in self._confirmed:
                    continue  # on a slow machine it comes again
                self._confirmed.add(came.message_id)
            if came.token == token and codes.is_response(came.code):
                inner, _ = self._security.unprotect(self._opened(came), request_id)
                return inner
            if codes.is_request(came.code):
                self._answer(came)

    def _answer(self, came: CoapMessage) -> None:
        inner, request_id = self._security.unprotect(self._opened(came))
        self.asked.append(f"{inner.code} /{'/'.join(inner.opt.uri_path)}")
        block = inner.opt.block2
        begin, end = block.start, block.start + block.size
        answer = Message(code=Code.CONTENT, payload=self._links[begin:end], content_format=40)
        answer.opt.block2 = (block.block_number, end < len(self._links), block.size_exponent)
        outer, _ = self._security.protect(answer, request_id)
        self._send(NON, int(outer.code), came.message_id ^ 0x8000, came.token, outer)

    def _opened(self, came: CoapMessage) -> Message:
        message = Message(code=Code(came.code), payload=came.payload)
        message.opt.oscore = dict(came.options)[OSCORE]
        message.direction = Direction.INCOMING
        return message

    def _send(self, type_: int, code: int, message_id: int, token: bytes, outer: Message) -> None:
        options = ((OSCORE, outer.opt.oscore),)
        message = CoapMessage(type_, code, message_id, token, options, outer.payload)
        self._sock.sendto(message.encode(), self._gateway)


async def test_a_device_registers_simply_and_is_asked_for_its_links_under_the_same_keys(
    device: Device, gateway: OscoreGateway
) -> None:
    links = ",".join(f"</s/{n}>;rt=simple" for n in range(60)).encode()
    with RawDevice(device.security, gateway.port, links) as raw:
        answer = await asyncio.to_thread(raw.register, 1, None)
        if answer.code == Code.UNAUTHORIZED:  # its first request shows that it is new
            answer = await asyncio.to_thread(raw.register, 2, answer.opt.echo)
        assert answer.code == Code.CHANGED, answer.payload
    assert set(raw.asked) == {"GET /.well-known/core"}
    found = await device.ask(Code.GET, "/rd-lookup/res?rt=simple")
    assert found.payload.count(b"/s/") == 60
    assert "Traceback" not in gateway.log
