"""`hedgerow drain` says what is left of it when its time is over, however busy the gateway is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiocoap
import pytest
from aiocoap import resource

from gateway.tools import cli
from tests.remote_fleet import Fleet, asking


class _Drain(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    async def render_post(self, _request: Any) -> Any:
        return aiocoap.Message(code=aiocoap.CHANGED)


class _Busy(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Tells its status after a while."""

    async def render_get(self, _request: Any) -> Any:
        await asyncio.sleep(0.4)
        drain = {"is_over": False, "uncommitted": 0, "lacking": {}, "owed": {}}
        told = {"id": "gw-root", "mqtt_clients": 0, "drain": drain}
        return aiocoap.Message(payload=json.dumps(told).encode(), content_format=50)


async def test_the_last_look_has_its_time_though_that_of_the_drain_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet = Fleet()
    fleet.root.site.add_resource(["drain"], _Drain())
    fleet.root.site.add_resource(["status"], _Busy())
    async with asking(fleet):
        at = f"127.0.0.1:{fleet.served.coap_port}"
        said = "/drain: no answer"
        while "/drain: no answer" in said:  # it is not even begun where a machine stands still
            code = await asyncio.to_thread(cli.main, ["drain", at, "--timeout", "0.2"])
            said = capsys.readouterr().err
    why = "hedgerow: gw-root is not drained: it has no neighbour to hand its messages to\n"
    assert (code, said) == (1, why)
