"""Goal: a client that others wrote sees the answers of many gateways as they come."""

from __future__ import annotations

import asyncio
import json

import pytest
from held_timers import HeldTimers
from remote_fleet import Fleet, asking

from gateway.coap.remote import gathering

LIMIT_S = 60


def gateways(line: bytes) -> dict[str, str]:
    """The status of each gateway, by its id."""
    statuses = [one for one in json.loads(line) if one["n"].endswith("/.status")]
    return {one["n"].removesuffix("/.status"): one["vs"] for one in statuses}


@pytest.mark.peer("coap-client-notls", "libcoap3-bin")
async def test_libcoap_is_told_by_observe_who_has_answered_so_far_and_in_the_end_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "GATHER_S", 600.0)
    timers = HeldTimers(monkeypatch, 600.0)
    fleet = Fleet()
    fleet.north.probe.hold.clear()
    async with asking(fleet):
        client = await asyncio.create_subprocess_exec(
            *("stdbuf", "-oL", "coap-client-notls", "-s", str(LIMIT_S), "-w"),
            f"coap://127.0.0.1:{fleet.served.coap_port}/q/*/*/*/probe",
            stdout=asyncio.subprocess.PIPE,
        )
        assert client.stdout is not None
        try:
            async with asyncio.timeout(LIMIT_S):
                assert gateways(await client.stdout.readline()) == {"gw-root": "2.05"}
                fleet.north.probe.hold.set()
                both = {"gw-root": "2.05", "gw-north": "2.05"}
                assert gateways(await client.stdout.readline()) == both
                timers.run_out()
                every = both | {"gw-dead": "5.04"}
                assert gateways(await client.stdout.readline()) == every
        finally:
            if client.returncode is None:
                client.terminate()
            await client.wait()
