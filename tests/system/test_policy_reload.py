"""A policy read again holds at once, over CoAP and at the console, and no path leads round it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap.numbers.codes import Code

from gateway.coap_client import CoapClient
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

LIMIT_S = 60.0
KEY = b"0123456789abcdef"
READERS = """version = 1
[principals]
"psk:anna" = ["reader"]
[[rules]]
who = ["*"]
deny = ["read /sensors/yard/camera"]
"""
OPERATORS = """version = 1
[principals]
"psk:anna" = ["operator"]
[[rules]]
who = ["local"]
deny = ["GET /sensors/valve", "console /#"]
"""


class Served:
    """A gateway whose policy changes while it runs."""

    def __init__(self, folder: Path) -> None:
        self.policy = folder / "access.toml"
        self.policy.write_text(READERS)
        keys = (("tree.key", "ab" * 32), ("psk", f"anna:{KEY.hex()}\n"), ("oscore.toml", ""))
        self.path, self.oscore = folder / "gateway.toml", folder / "oscore.toml"
        for name, text in keys:
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(text)
        self.path.write_text(
            """
[gateway]
id = "gw"
state_dir = "state"
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "psk"
oscore_file = "oscore.toml"
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
[access]
policy_file = "access.toml"
[[sensors]]
type = "switch"
name = "valve"
[[sensors]]
type = "switch"
name = "yard/camera"
"""
        )

        def read() -> config.GatewaySettings:
            return config.load(self.path, config.GatewaySettings)

        self.process = GatewayProcess(read(), read=read)

    async def reload(self, policy: str) -> None:
        self.policy.write_text(policy)
        await self.process.reload()

    @property
    def plain_port(self) -> int:
        port = self.process.parts.coap.coap_port
        assert port is not None
        return port

    async def console(self) -> int:
        address = self.process.parts.console.address
        assert address is not None
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(LIMIT_S):
            answer = await reader.read()
        writer.close()
        return int(answer.split()[1])


class Local(asyncio.DatagramProtocol):
    """A peer on the gateway's machine that sends any path, and takes what comes."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._answers: asyncio.Queue[Any] = asyncio.Queue()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        answer = aiocoap.Message.decode(data)
        if answer.code == aiocoap.EMPTY:
            return  # on a slow machine the answer comes behind it, and by itself
        if answer.mtype is aiocoap.CON:
            taken = aiocoap.Message(code=aiocoap.EMPTY)
            taken.mid, taken.mtype = answer.mid, aiocoap.ACK
            self._transport.sendto(taken.encode())
        self._answers.put_nowait(answer)

    async def get(self, *segments: str, observe: int | None = None) -> Any:
        number = next(self._numbers)
        message = aiocoap.Message(code=Code.GET, uri_path=segments)
        message.opt.observe = observe
        message.mid, message.mtype, message.token = number, aiocoap.CON, bytes([number])
        self._transport.sendto(message.encode())
        return await self.next()

    async def protected(self, kid: int) -> bytes:
        """Send a request that is protected with a key that nobody has; return the answer."""
        message = aiocoap.Message(code=Code.POST, payload=b"x" * 20)
        message.mid, message.mtype, message.token = next(self._numbers), aiocoap.CON, b"o"
        message.opt.oscore = bytes((0x09, 0, kid))
        self._transport.sendto(message.encode())
        payload: bytes = (await self.next()).payload
        return payload

    async def next(self) -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await self._answers.get()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path)
    await made.process.start()
    yield made
    await made.process.stop()


@pytest.fixture
async def local(served: Served) -> AsyncIterator[Local]:
    transport, made = await asyncio.get_running_loop().create_datagram_endpoint(
        Local, remote_addr=("127.0.0.1", served.plain_port)
    )
    yield made
    transport.close()


@pytest.fixture
async def anna() -> AsyncIterator[CoapClient]:
    async with CoapClient(psk_identity="anna", psk_key=KEY) as made:
        yield made


async def test_another_policy_holds_at_once_and_a_wrong_one_not_at_all(
    served: Served, local: Local, anna: CoapClient, caplog: pytest.LogCaptureFixture
) -> None:
    valve = f"coaps://127.0.0.1:{served.process.parts.coap.coaps_port}/sensors/valve"
    put: dict[str, Any] = {"payload": b"1", "content_format": 0}
    assert (await anna.request("GET", valve)).ok
    assert (await anna.request("PUT", valve, **put)).code == "4.03"
    first = await local.get("sensors", "valve", observe=0)
    assert (first.code, first.opt.observe is not None) == (Code.CONTENT, True)
    assert await served.console() == 200

    await served.reload(OPERATORS)
    ended = await local.next()
    assert (ended.code, ended.token, ended.opt.observe) == (Code.UNAUTHORIZED, first.token, None)
    assert await served.console() == 401
    assert (await anna.request("PUT", valve, **put)).code == "2.04"
    assert (await local.get("sensors", "valve")).code == Code.UNAUTHORIZED  # and no notification

    await served.reload("version = 2\n")
    assert "nothing is read again" in caplog.text
    assert (await anna.request("PUT", valve, **put)).code == "2.04"


async def test_what_all_may_and_who_has_a_role_unsaid_are_read_again(
    served: Served, anna: CoapClient, caplog: pytest.LogCaptureFixture
) -> None:
    """With a policy of nobody: `access.default_roles` and `coap.public` alone decide."""
    served.policy.write_text("version = 1\n[principals]\nlocal = []\n")
    await served.process.reload()
    text = served.path.read_text()
    served.path.write_text(
        text.replace("psk_file", "public = []\npsk_file").replace(
            "[access]", '[access]\ndefault_roles = ["operator"]'
        )
    )
    valve = f"coaps://127.0.0.1:{served.process.parts.coap.coaps_port}/sensors/valve"
    put: dict[str, Any] = {"payload": b"1", "content_format": 0}
    plain = f"coap://127.0.0.1:{served.plain_port}/sensors/valve"
    async with CoapClient() as stranger:
        assert (await stranger.request("GET", plain)).ok
        assert (await anna.request("PUT", valve, **put)).code == "4.03"
        await served.process.reload()
        assert (await stranger.request("GET", plain)).code == "4.01"
        assert (await anna.request("PUT", valve, **put)).code == "2.04"
        served.path.write_text(text.replace("psk_file", 'public = ["/sensors"]\npsk_file'))
        await served.process.reload()
        assert (await stranger.request("GET", plain)).ok
        assert (await anna.request("PUT", valve, **put)).code == "4.03"
    assert "takes a restart" not in caplog.text


async def test_devices_with_oscore_come_and_go_while_the_gateway_runs(
    served: Served, local: Local, caplog: pytest.LogCaptureFixture
) -> None:
    unknown, known = b"Security context not found", b"Decryption failed"
    assert await local.protected(2) == b"option 9 is not understood"
    secret = 'master_secret = "0102030405060708090a0b0c0d0e0f10"\nsender_id = "01"\n'
    served.oscore.write_text(f'[meter]\n{secret}recipient_id = "02"\n')
    await served.process.reload()
    assert (await local.protected(2), await local.protected(3)) == (known, unknown)
    served.oscore.write_text(f'[valve]\n{secret}recipient_id = "03"\n')
    await served.process.reload()
    assert (await local.protected(2), await local.protected(3)) == (unknown, known)
    served.oscore.write_text("[valve]\n")
    await served.process.reload()
    assert "nothing is read again" in caplog.text
    assert await local.protected(3) == known


@pytest.mark.parametrize(
    "segments",
    [
        ("sensors", "yard", "camera"),
        ("sensors", "yard/camera"),
        ("sensors/yard/camera",),
        ("sensors", "yard", "camera", ""),
        ("sensors", "", "yard", "camera"),
        ("q", "-", "-", "gw", "sensors", "yard", "camera"),
        ("q", "-", "-", "gw", "sensors", "yard/camera"),
        ("q", "-", "-", "gw", "q", "-", "-", "gw", "sensors", "yard", "camera"),
    ],
)
async def test_no_spelling_of_a_path_leads_round_a_rule_that_denies(
    local: Local, segments: tuple[str, ...]
) -> None:
    assert (await local.get("sensors", "valve")).code == Code.CONTENT
    assert not (await local.get(*segments)).code.is_successful()


async def test_what_a_rule_denies_is_not_in_the_pack_of_all(local: Local) -> None:
    pack = json.loads((await local.get("sensors")).payload)
    assert [record["n"] for record in pack] == ["valve"]
