"""Goal: libcoap's client and aiocoap's do with a gateway what devices and operators do.

Method: both against one gateway's process on loopback: they register, look up, observe, send and
get in blocks, fetch, and switch.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap import Code, Message
from coap_gateway import KEY, CoapGateway

LIMIT_S = 60
LINKS = ",".join(f'</s/{number}>;rt="scenario"' for number in range(250))
libcoap = pytest.mark.peer("coap-client-openssl", "libcoap3-bin")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoapGateway]:
    made = CoapGateway(tmp_path_factory.mktemp("gateway"))
    yield made
    made.stop()


# -- libcoap


class Libcoap:
    """`coap-client`, over plain CoAP or with a key over DTLS."""

    def __init__(self, gateway: CoapGateway, *, secure: bool) -> None:
        port, scheme = (gateway.coaps_port, "coaps") if secure else (gateway.port, "coap")
        self.scheme = scheme
        self.base = f"{scheme}://127.0.0.1:{port}"
        self._key = ["-u", "device", "-k", KEY.decode()] if secure else []

    def command(self, path: str, *arguments: str, seconds: int = 20) -> list[str]:
        timeout = ["-B", str(seconds)]
        return ["coap-client-openssl", *timeout, *self._key, *arguments, f"{self.base}{path}"]

    def run(self, path: str, *arguments: str) -> str:
        done = subprocess.run(
            self.command(path, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout.decode().strip() + done.stderr.decode().strip()


@pytest.fixture(params=["plain", "dtls"])
def client(request: pytest.FixtureRequest, gateway: CoapGateway) -> Libcoap:
    return Libcoap(gateway, secure=request.param == "dtls")


@libcoap
def test_libcoap_registers_in_blocks_looks_up_in_blocks_and_leaves(
    client: Libcoap, tmp_path: Path
) -> None:
    (tmp_path / "links").write_text(LINKS)
    post = ("-m", "post", "-t", "40", "-f", str(tmp_path / "links"))
    assert client.run("/rd?ep=lib&base=coap://lib", *post) == ""
    found = client.run("/rd-lookup/res?ep=lib")
    assert found.count("<coap://lib/s/") == 250
    location = client.run("/rd-lookup/ep?ep=lib").partition(">")[0].removeprefix("<")
    assert client.run(location, "-b", "64") == LINKS
    assert client.run(location, "-m", "delete") == ""
    assert client.run("/rd-lookup/res?ep=lib") == ""


@libcoap
def test_libcoap_fetches_and_switches(client: Libcoap) -> None:
    etch = ("-m", "fetch", "-t", "320", "-e", '[{"n":"valve"}]')
    (record,) = json.loads(client.run("/sensors", *etch))
    assert record["n"] == "valve"
    assert client.run("/sensors/valve", "-m", "put", "-t", "0", "-e", "1") == ""
    assert client.run("/sensors/valve", "-A", "0") == "1.0"
    assert client.run("/sensors/valve", "-m", "put", "-t", "0", "-e", "0") == ""


@libcoap
def test_libcoap_observes_a_look_up(client: Libcoap) -> None:
    observe = client.command(f"/rd-lookup/ep?et=by-{client.scheme}", "-s", "60", seconds=60)
    with subprocess.Popen(observe, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        got, number = b"", 0
        while (
            f'ep="{client.scheme}-{number - 1}"'.encode() not in got
        ):  # told after it had begun to observe
            assert process.poll() is None, got
            query = f"ep={client.scheme}-{number}&et=by-{client.scheme}"
            assert client.run(f"/rd?{query}", "-m", "post", "-t", "40", "-e", "</a>") == ""
            number += 1
            select.select([process.stdout], [], [], 0.2)
            got += process.stdout.read() or b""
        process.kill()


# -- aiocoap


class Aiocoap:
    """aiocoap's own client, on its own transport."""

    def __init__(self, context: Any, port: int) -> None:
        self._context = context
        self._base = f"coap://127.0.0.1:{port}"

    def request(self, code: Code, path: str, **more: Any) -> Any:
        return self._context.request(Message(code=code, uri=f"{self._base}{path}", **more))

    async def ask(self, code: Code, path: str, **more: Any) -> Message:
        async with asyncio.timeout(LIMIT_S):
            return await self.request(code, path, **more).response


@pytest.fixture
async def device(gateway: CoapGateway) -> AsyncIterator[Aiocoap]:
    context = await aiocoap.Context.create_client_context(transports=["simple6"])
    yield Aiocoap(context, gateway.port)
    await context.shutdown()


async def test_aiocoap_registers_in_blocks_looks_up_in_blocks_and_leaves(device: Aiocoap) -> None:
    made = await device.ask(
        Code.POST, "/rd?ep=aio&base=coap://aio", payload=LINKS.encode(), content_format=40
    )
    assert made.code == Code.CREATED
    location = "/" + "/".join(made.opt.location_path)
    assert (await device.ask(Code.GET, location)).payload.decode() == LINKS
    found = await device.ask(Code.GET, "/rd-lookup/res?ep=aio")
    assert found.payload.count(b"<coap://aio/s/") == 250
    assert (await device.ask(Code.DELETE, location)).code == Code.DELETED


async def test_aiocoap_fetches(device: Aiocoap) -> None:
    answer = await device.ask(
        Code.FETCH, "/sensors", payload=b'[{"bn":"gw/","n":"valve"}]', content_format=320
    )
    (record,) = json.loads(answer.payload)
    assert (record["n"], record["v"]) == ("valve", 0.0)


async def test_aiocoap_observes_a_look_up_and_an_actuator(device: Aiocoap) -> None:
    looked_up = device.request(Code.GET, "/rd-lookup/ep?et=by-aiocoap", observe=0)
    valve = device.request(Code.GET, "/sensors/valve", observe=0, accept=0)
    async with asyncio.timeout(LIMIT_S):
        assert (await looked_up.response).payload == b""
        assert (await valve.response).payload == b"0.0"
        endpoints, states = aiter(looked_up.observation), aiter(valve.observation)
        await device.ask(
            Code.POST, "/rd?ep=watched&et=by-aiocoap", payload=b"</a>", content_format=40
        )
        assert b'ep="watched"' in (await anext(endpoints)).payload
        for value in (b"1.0", b"0.0"):
            await device.ask(Code.PUT, "/sensors/valve", payload=value, content_format=0)
            while (await anext(states)).payload != value:
                pass  # the state before may be told again
    looked_up.observation.cancel()
    valve.observation.cancel()
