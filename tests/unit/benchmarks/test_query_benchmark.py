"""Goal: the benchmark of requests to other gateways measures what it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiocoap
import pytest
from aiocoap import resource

from benchmarks.query import Spread, long_name
from benchmarks.query_client import NoAnswerError, QueryClient
from dtls.keystore import Keystore
from gateway.coap.server import CoapListener, CoapServer
from tests.policies import open_access


class Switch(resource.ObservableResource):
    """A value that can be set, told so often that it takes several blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.value = b"0"

    async def render_get(self, _request: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=self.value * 5_000, content_format=0)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        self.value = request.payload
        self.updated_state()
        return aiocoap.Message(code=aiocoap.CHANGED)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    site = resource.Site()
    site.add_resource(["switch"], Switch())
    server = CoapServer(
        site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=Keystore({}),
        access=open_access(),
    )
    async with server:
        assert server.coap_port is not None
        yield server.coap_port


def use(port: int) -> tuple[bytes, int]:
    """Observe, set and read a switch; return its last payload and the number of timed reads."""
    with contextlib.closing(QueryClient()) as client, contextlib.closing(QueryClient()) as other:
        other.observe(port, "/switch", 3)
        client.put(port, "/switch", b"1")
        other.told(3, lambda payload: payload.startswith(b"1"))
        with pytest.raises(NoAnswerError, match=r"4\.04"):
            client.get(port, "/nowhere")
        return client.get(port, "/switch"), len(client.times_us(port, "/switch", 7))


async def test_its_client_reads_in_blocks_writes_and_observes(port: int) -> None:
    body, count = await asyncio.to_thread(use, port)
    assert (body, count) == (b"1" * 5_000, 7)


def test_half_and_all_but_one_in_a_hundred_are_told_apart() -> None:
    spread = Spread.of([1.0] * 980 + [50.0] * 20)
    assert (spread.p50, spread.p99) == (1.0, 50.0)


def test_a_gateway_of_the_line_is_asked_by_its_long_name() -> None:
    assert long_name(2, "/sensors/valve") == "/q/bench/-/gw-2/sensors/valve"
