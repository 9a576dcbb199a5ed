"""Goal: a client that others wrote names its writes, so that one is carried out once."""

from __future__ import annotations

import asyncio

import pytest
from remote_fleet import NORTH, Fleet, asking

from tree_handler.remote.executing import REPLY_TOPIC


@pytest.mark.peer("coap-client-notls", "libcoap3-bin")
async def test_libcoap_asks_again_what_was_not_answered_and_it_is_carried_out_once() -> None:
    fleet = Fleet(deadline_s=0.3)

    async def press(request_id: str) -> str:
        client = await asyncio.create_subprocess_exec(
            *("coap-client-notls", "-B", "30", "-m", "post", "-e", "press"),
            *("-O", f"65001,0x{request_id}"),
            f"coap://127.0.0.1:{fleet.served.coap_port}/{NORTH}/probe",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        return (await client.communicate())[0].decode()

    async with asking(fleet):
        fleet.lose = lambda topic: topic.startswith(REPLY_TOPIC)
        assert "5.04" in await press("005f3a91c4")
        fleet.lose = lambda _topic: False
        assert "sserp" in await press("075f3a91c4")
        assert len(fleet.north.probe.seen) == 1
        assert "sserp" in await press("00000000ff")
        assert len(fleet.north.probe.seen) == 2
