"""Of a gateway that misbehaves `hedgerow top` shows what there is, and why the rest is not."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import told_gateways
from coap_partner import Behaviour, Partner, is_silent, never_ends, partner, says, tells

from gateway.tools.cli import command_line
from gateway.tools.commands.top_answers import TopAsker
from gateway.tools.top.frame import FrameSize, FrameTime, drawn
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.live import NotToldError, take
from gateway.tools.top.top_view import OF_GATEWAY, TopView

LIMIT_S = 60.0


@asynccontextmanager
async def gateway() -> AsyncIterator[tuple[Partner, argparse.Namespace]]:
    """One that behaves so far, and the command that looks at it."""
    async with partner() as (made, address):
        told = told_gateways.answers()
        made.paths |= {
            "status": tells(told_gateways.status()),
            "clients": tells(told.clients),
            "sensors": tells(told.sensors),
            "alerts": tells(told.alerts),
        }
        yield made, command_line().parse_args(["top", "--host", address, "--timeout", "1"])


async def shown(options: argparse.Namespace) -> str:
    """All panels, of one look."""
    history = GatewayHistory()
    async with asyncio.timeout(LIMIT_S), TopAsker(options) as asker:
        take(history, await asker.ask())
    at = FrameTime(10.0, told_gateways.NOW_S)
    views = (TopView(panel=one) for one in OF_GATEWAY)
    return "\n".join(drawn(history, one, FrameSize(120, 40), at).as_text() for one in views)


async def test_one_that_behaves_is_shown_whole() -> None:
    async with gateway() as (made, options):
        made.twice = True
        text = await shown(options)
    for expected in ("gw-north", "meter-17", "room/temperature", "disk-full", "gw-barn"):
        assert expected in text


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (is_silent, "no answer within 1 s"),
        (never_ends, "no answer within 1 s"),
        (says(b""), "no JSON that can be read"),
        (says(b"\xff\x00{"), "no JSON that can be read"),
        (says(b"[" * 60_000), "no JSON that can be read"),
        (says(b"", 0x81), "4.01"),
        (says(b"\x1b[2J", 0xA0), "5.00"),
    ],
    ids=["never", "endless", "empty", "bytes", "deep", "refused", "broken"],
)
async def test_without_a_status_it_says_why(behaviour: Behaviour, why: str) -> None:
    async with gateway() as (made, options):
        made.paths["status"] = behaviour
        async with asyncio.timeout(LIMIT_S), TopAsker(options) as asker:
            with pytest.raises(NotToldError) as failed:
                await asker.ask()
            assert why in str(failed.value)
            assert str(failed.value).isprintable()
            made.paths["status"] = tells(told_gateways.status())
            assert (await asker.ask()).status["id"] == "gw-north"


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (is_silent, "no answer within 1 s"),
        (says(b"{"), "no JSON that can be read"),
        (says(b"", 0x81), "not told without a key (--psk-file)"),
        (says(b"", 0x83), "not told to this key"),
        (says(b"", 0x84), "it tells of none"),
        (tells([1, 2]), "no client is connected"),
        (tells({"clients": [None, {"id": 7}]}), "12+3 away"),
    ],
    ids=["never", "bytes", "unknown", "forbidden", "missing", "list", "odd"],
)
async def test_without_clients_all_else_is_shown(behaviour: Behaviour, why: str) -> None:
    async with gateway() as (made, options):
        made.paths["clients"] = behaviour
        text = await shown(options)
    assert why in text
    assert "room/temperature" in text


async def test_a_thousand_sensors_are_a_list_that_is_scrolled() -> None:
    many = [told_gateways.sensor(f"s{number}", "1", "Cel", "good") for number in range(1_000)]
    async with gateway() as (made, options):
        made.paths["sensors"] = tells({"sensors": many})
        options.timeout = 30.0
        text = await shown(options)
    assert "s20" in text


async def test_a_status_that_is_no_table_is_no_answer() -> None:
    async with gateway() as (made, options):
        made.paths["status"] = tells(["gw-north"])
        text = await shown(options)
    assert "no answer for" in text
    assert "it told nothing that can be read" in text
