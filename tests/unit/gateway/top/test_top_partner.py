"""Of a gateway that misbehaves `hedgerow top` shows what there is, and why the rest is not."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import told_gateways

from gateway.cli import command_line
from gateway.commands.top_answers import TopAsker
from gateway.top.frame import FrameSize, FrameTime, drawn
from gateway.top.history import GatewayHistory
from gateway.top.live import NotToldError, take
from gateway.top.top_view import OF_GATEWAY, TopView

LIMIT_S = 60.0
URI_PATH, BLOCK_2 = 11, 23
JSON_FORMAT = b"\xc1\x32"
"""Content-Format: 50."""
Behaviour = Callable[[int], tuple[int, bytes, bool] | None]
"""Gives what is answered to the block of a number: the code, the bytes, and whether more come."""


def says(payload: bytes, code: int = 0x45) -> Behaviour:
    """Answer with this, in blocks of 512."""

    def behaviour(block: int) -> tuple[int, bytes, bool]:
        part = payload[block * 512 : block * 512 + 512]
        return code, part, len(payload) > block * 512 + 512

    return behaviour


def tells(document: object) -> Behaviour:
    return says(json.dumps(document).encode())


def is_silent(_block: int) -> None:
    return None


def never_ends(_block: int) -> tuple[int, bytes, bool]:
    return 0x45, b"[" * 512, True


class Partner(asyncio.DatagramProtocol):
    """Answers CoAP over UDP as a test says, path by path."""

    def __init__(self) -> None:
        self.paths: dict[str, Behaviour] = {
            "status": tells(told_gateways.status()),
            "clients": tells(told_gateways.answers().clients),
            "sensors": tells(told_gateways.answers().sensors),
            "alerts": tells(told_gateways.answers().alerts),
        }
        self.twice = False
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        options = dict(_options(data))
        behaviour = self.paths.get(options.get(URI_PATH, b"").decode(), says(b"", 0x84))
        block = int.from_bytes(options.get(BLOCK_2, b""), "big") >> 4
        answer = behaviour(block)
        if answer is None or self._transport is None or data[0] >> 4 & 3 != 0:
            return
        code, payload, more = answer
        length = data[0] & 15
        head = bytes((0x60 | length, code)) + data[2 : 4 + length]
        number = (block << 4 | more << 3 | 5).to_bytes(3, "big")
        sent = head + JSON_FORMAT + b"\xb3" + number + (b"\xff" + payload if payload else b"")
        for _ in range(1 + self.twice):
            self._transport.sendto(sent, addr)  # type: ignore[arg-type]  # as it came


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The options of a message; of one that stands several times the last (RFC 7252, 3.1)."""
    at, number = 4 + (data[0] & 15), 0
    while at < len(data) and data[at] != 0xFF:
        delta, length = data[at] >> 4, data[at] & 15
        at += 1
        if delta == 13:
            delta, at = 13 + data[at], at + 1
        if length == 13:
            length, at = 13 + data[at], at + 1
        number += delta
        yield number, data[at : at + length]
        at += length


@asynccontextmanager
async def partner() -> AsyncIterator[tuple[Partner, argparse.Namespace]]:
    loop = asyncio.get_running_loop()
    transport, made = await loop.create_datagram_endpoint(Partner, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    words = ["top", "--host", f"127.0.0.1:{port}", "--timeout", "1"]
    yield made, command_line().parse_args(words)
    transport.close()


async def shown(options: argparse.Namespace) -> str:
    """All panels, of one look."""
    history = GatewayHistory()
    async with asyncio.timeout(LIMIT_S), TopAsker(options) as asker:
        take(history, await asker.ask())
    at = FrameTime(10.0, told_gateways.NOW_S)
    views = (TopView(panel=one) for one in OF_GATEWAY)
    return "\n".join(drawn(history, one, FrameSize(120, 40), at).as_text() for one in views)


async def test_one_that_behaves_is_shown_whole() -> None:
    async with partner() as (made, options):
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
    async with partner() as (made, options):
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
    async with partner() as (made, options):
        made.paths["clients"] = behaviour
        text = await shown(options)
    assert why in text
    assert "room/temperature" in text


async def test_a_thousand_sensors_are_a_list_that_is_scrolled() -> None:
    many = [told_gateways.sensor(f"s{number}", "1", "Cel", "good") for number in range(1_000)]
    async with partner() as (made, options):
        made.paths["sensors"] = tells({"sensors": many})
        options.timeout = 30.0
        text = await shown(options)
    assert "s20" in text


async def test_a_status_that_is_no_table_is_no_answer() -> None:
    async with partner() as (made, options):
        made.paths["status"] = tells(["gw-north"])
        text = await shown(options)
    assert "no answer for" in text
    assert "it told nothing that can be read" in text
