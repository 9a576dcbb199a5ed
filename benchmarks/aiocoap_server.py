"""aiocoap's server, a sensor and 4 KiB: ``python -m benchmarks.aiocoap_server PORT``."""

from __future__ import annotations

import asyncio
import sys

import aiocoap
from aiocoap import resource

SENSOR = b'[{"bn":"urn:dev:gw:bench:","n":"host/load1","v":0.25,"t":1700000000.0}]'
BIG = b"0123456789abcdef" * 256


class Value(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Bytes that stay as they are."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self._payload = payload

    async def render_get(self, _request: aiocoap.Message) -> aiocoap.Message:
        """Answer with them; aiocoap cuts them into blocks."""
        return aiocoap.Message(payload=self._payload, content_format=0)


class Watched(resource.ObservableResource):  # type: ignore[misc]  # aiocoap is untyped
    """Bytes that a client puts there, and that others observe."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self._payload = payload

    async def render_get(self, _request: aiocoap.Message) -> aiocoap.Message:
        """Answer with them."""
        return aiocoap.Message(payload=self._payload, content_format=0)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        """Take others, and tell the observers."""
        self._payload = request.payload
        self.updated_state()
        return aiocoap.Message(code=aiocoap.CHANGED)


async def _serve(port: int) -> None:
    site = resource.Site()
    site.add_resource(["sensor"], Watched(SENSOR))
    site.add_resource(["big"], Value(BIG))
    await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
